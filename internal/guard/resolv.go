package guard

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/tailban/tailban/parser"
)

const (
	maxResolv    = 64 << 10 // bytes of a resolv.conf
	maxResolvers = 32       // name servers of a resolv.conf; glibc asks three
)

// resolvers lists the name servers that files name, each once. A file that is
// not there or can't be read names none: a host can do without.
func resolvers(paths []string) []Entry {
	var out []Entry
	for _, path := range paths {
		data, err := readUpTo(path, maxResolv)
		if err != nil {
			continue
		}
		for _, a := range nameServers(data) {
			e := Entry{netip.PrefixFrom(a, a.BitLen()), "resolver"}
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	return out
}

// nameServers reads a resolv.conf(5): a keyword begins its line, and what
// follows the address is nobody's. The zone of a scoped address (fe80::1%eth0)
// is cut. Those on this host, as systemd-resolved's 127.0.0.53, are left out.
func nameServers(data []byte) []netip.Addr {
	var out []netip.Addr
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("nameserver"))
		if !ok || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) == 0 {
			continue
		}
		a, ok := parser.ParseAddr(words[0])
		if !ok || a.IsLoopback() || a.IsUnspecified() || slices.Contains(out, a) {
			continue
		}
		if out = append(out, a); len(out) == maxResolvers {
			break
		}
	}
	return out
}
