package prove

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/words"
)

const (
	// maxNames is how many names of an address are followed: whoever has the
	// address writes them, as many as he likes.
	maxNames = 4

	// maxReason is how long a reason is at most, in bytes.
	maxReason = 300
)

// look looks the names of a client up and, of those below one of the domains,
// their addresses. Only the owner of a domain decides which addresses its names
// have; the name of an address says whatever the address's owner likes.
func (p *Prover) look(ctx context.Context, client netip.Addr, domains []string) detector.Answer {
	a := detector.Answer{}
	names, err := p.names(ctx, client)
	switch {
	case notFound(err), err == nil && len(names) == 0:
		return because(detector.Disproved, "it has no name")
	case len(names) == 0:
		return because(detector.Unknown, "its name can't be looked up: %s", cause(err))
	}
	inside := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(domains, func(d string) bool { return detector.InDomain(name, d) })
	})
	if len(inside) == 0 {
		return because(detector.Disproved, "its name %s is in none of the domains", shown(names))
	}
	inside = inside[:min(len(inside), maxNames)]
	for _, name := range inside {
		has, failure := p.hasAddress(ctx, name, client)
		if has {
			a.Result, a.Names = detector.Proved, append(a.Names, name)
		} else if failure != nil {
			err = failure
		}
	}
	switch {
	case a.Result == detector.Proved:
		return a
	case err != nil:
		return because(detector.Unknown, "the addresses of its name %s can't be looked up: %s", shown(inside), cause(err))
	}
	return because(detector.Disproved, "its name %s does not have its address", shown(inside))
}

// names returns the names of an address as names are compared, without those
// that are none. Those may come with an error about others.
func (p *Prover) names(ctx context.Context, client netip.Addr) ([]string, error) {
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := p.opt.Resolver.LookupAddr(ctx, client.String())
	var names []string
	for _, s := range found {
		if name := strings.ToLower(strings.TrimSuffix(s, ".")); isName(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		err = nil
	}
	return names, err
}

// hasAddress reports whether a name has an address.
func (p *Prover) hasAddress(ctx context.Context, name string, client netip.Addr) (bool, error) {
	ctx, done, err := p.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	network := "ip6"
	if client.Is4() {
		network = "ip4"
	}
	// The dot at the end keeps the search list of resolv.conf out.
	found, err := p.opt.Resolver.LookupNetIP(ctx, network, name+".")
	if notFound(err) {
		err = nil
	}
	return slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Unmap() == client }), err
}

// isName reports whether text from the DNS is a host name, and so harmless
// wherever it is shown.
func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return true
}

// shown is the first of some names, and how many more there are.
func shown(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}

func because(r detector.Result, format string, args ...any) detector.Answer {
	return detector.Answer{Result: r, Reason: words.Clip(fmt.Sprintf(format, args...), maxReason)}
}

// notFound reports whether the DNS says that there is nothing.
func notFound(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound
}

// cause is what is wrong, without the names and servers that an error of the
// resolver repeats.
func cause(err error) string {
	var d *net.DNSError
	switch {
	case errors.As(err, &d) && d.IsTimeout, errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNoTime):
		return "no answer in time"
	case errors.As(err, &d):
		return d.Err
	}
	return strings.ToValidUTF8(err.Error(), "?")
}
