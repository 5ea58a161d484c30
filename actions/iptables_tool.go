//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// xtablesLock is the file that all processes of iptables-legacy lock.
	xtablesLock = "/run/xtables.lock"

	maxChain  = 28 - len("-BAN")    // XT_EXTENSION_MAXNAMELEN, less a zero
	maxPrefix = 31 - len("4-allow") // IPSET_MAXNAMELEN, less a zero
)

const (
	noSocketToIPSet = "Can't open socket to ipset" // as iptables says it

	hintIPSet    = "does this kernel have IP sets? (try: modprobe ip_set_hash_ip ip_set_hash_net xt_set)"
	hintInstall  = "install iptables, or name it by its path"
	hintXtables  = "does this kernel have what the rules need? (try: modprobe xt_set xt_multiport)"
	hintLockBusy = "another iptables has held the lock /run/xtables.lock for too long"
	hintRaw      = "rules that look into IP sets need CAP_NET_RAW: iptables asks for a set's number by a raw socket"
	hintLegacy   = "use iptables-nft, which needs CAP_NET_ADMIN and CAP_NET_RAW, or nftables, which needs the former alone"
)

// check refuses names that can't be ones of chains and sets.
func (opt IptablesOptions) check() error {
	for _, x := range []struct {
		what, name string
		longest    int
	}{{"chain", opt.Chain, maxChain}, {"prefix of sets", opt.Prefix, maxPrefix}} {
		if len(x.name) > x.longest {
			return Permanent(fmt.Errorf("%s %q: longer than %d characters", x.what, x.name, x.longest))
		}
		if strings.Trim(x.name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" || strings.HasPrefix(x.name, "-") {
			return Permanent(fmt.Errorf("%s %q: not made of letters, digits, _ and -", x.what, x.name))
		}
	}
	if slices.Contains(parents, opt.Chain) || opt.Chain == "OUTPUT" {
		return Permanent(fmt.Errorf("chain %q: not ours, and keeping our rules in it would remove all others", opt.Chain))
	}
	switch opt.Variant {
	case "", VariantNft, VariantLegacy:
		return nil
	}
	return Permanent(fmt.Errorf("variant %q of iptables: neither %q nor %q", opt.Variant, VariantNft, VariantLegacy))
}

// findTools finds the programs of both families, once.
func (t *Iptables) findTools(ctx context.Context) error {
	if t.tools != nil {
		return nil
	}
	tools, err := t.lookForTools(ctx)
	if err != nil {
		return err
	}
	if tools[0].variant == VariantLegacy {
		if err := mayUseLegacy(tools[0].path); err != nil {
			return err
		}
	}
	t.tools = tools
	return nil
}

func (t *Iptables) lookForTools(ctx context.Context) (tools []*iptablesOf, err error) {
	for _, f := range ipFamilies() {
		if f.v6 && !t.hasIPv6() {
			t.log.Debug("this kernel has no IPv6: no rules for it")
			continue
		}
		tool, err := findTool(ctx, t.opt, f, t.patience)
		if err != nil {
			return nil, err
		}
		if first := append(tools, tool)[0]; first.variant != tool.variant {
			return nil, Permanent(fmt.Errorf("%s is iptables-%s and %s is iptables-%s (choose one variant)",
				first.path, first.variant, tool.path, tool.variant))
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// IptablesProgram finds the programs that an action with these options would
// use, and tells which variant they are. That they may be used is not known.
func IptablesProgram(opt IptablesOptions) (path, variant string, err error) {
	t := NewIptables(opt)
	if err := t.opt.check(); err != nil {
		return "", "", err
	}
	tools, err := t.lookForTools(context.Background())
	if err != nil {
		return "", "", err
	}
	return tools[0].path, tools[0].variant, nil
}

// kernelHasIPv6 is false where IPv6 was left out or switched off at boot, in
// which case iptables has no table for it.
func kernelHasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return !errors.Is(err, unix.EAFNOSUPPORT)
}

func findTool(ctx context.Context, opt IptablesOptions, f ipFamily, limit time.Duration) (*iptablesOf, error) {
	path, err := toolPath(opt, f)
	if err != nil {
		return nil, Permanent(fmt.Errorf("find iptables: %w (%s)", err, hintInstall))
	}
	tool, err := newTool(ctx, path, f, limit, opt.Runs)
	if err != nil {
		return nil, err
	}
	tool.netNS = opt.NetNS
	if opt.Variant != "" && opt.Variant != tool.variant {
		return nil, Permanent(fmt.Errorf("%s is iptables-%s, and iptables-%s is asked for", path, tool.variant, opt.Variant))
	}
	return tool, nil
}

// toolPath finds the program of a family. Neither a shell of an ordinary user
// nor every unit has the directories of the system in its PATH.
func toolPath(opt IptablesOptions, f ipFamily) (string, error) {
	name := "iptables"
	if opt.Variant != "" {
		name += "-" + opt.Variant
	}
	dir := ""
	if opt.Path != "" {
		dir, name = filepath.Split(opt.Path)
	}
	if f.v6 {
		name = strings.Replace(name, "iptables", "ip6tables", 1)
	}
	if opt.Path != "" {
		return exec.LookPath(dir + name)
	}
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		var other error
		if path, other = exec.LookPath(filepath.Join(dir, name)); other == nil {
			err = nil
		}
	}
	return path, err
}

// mayUseLegacy refuses iptables-legacy where it can't work, or not safely: it
// opens a raw socket, and without the file that all its processes lock two of
// them overwrite each other's tables.
func mayUseLegacy(path string) error {
	refuse := func(format string, args ...any) error {
		return Permanent(fmt.Errorf("%s is iptables-legacy, which %s (%s)", path, fmt.Sprintf(format, args...), hintLegacy))
	}
	if euid := os.Geteuid(); euid != 0 {
		return refuse("works only as root: this is user %d", euid)
	}
	for _, c := range []struct {
		name   string
		number int
	}{{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN}, {"CAP_NET_RAW", unix.CAP_NET_RAW}} {
		if !hasCapability(c.number) {
			return refuse("needs %s", c.name)
		}
	}
	if other := os.Getenv("XTABLES_LOCKFILE"); other != "" && other != xtablesLock {
		return refuse("has to lock %s as everybody does, not %s as the environment has it", xtablesLock, other)
	}
	f, err := os.OpenFile(xtablesLock, os.O_RDWR|os.O_CREATE, 0o600) // as it does itself
	if err != nil {
		return refuse("has to lock %s: %v: add ReadWritePaths= for it to the systemd unit", xtablesLock, err)
	}
	return f.Close()
}

// hasCapability reports whether we have a capability in effect.
func hasCapability(number int) bool {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capget(&header, &data[0]) == nil && data[number/32].Effective&(1<<(number%32)) != 0
}

// explain says which step failed, with a hint where the cause can be guessed.
func (tool *iptablesOf) explain(step string, err error) error {
	if err == nil {
		return nil
	}
	said := strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " "))
	wrapped := &toolError{text: fmt.Sprintf("%s: %s", step, said), err: err}
	for _, x := range []struct {
		part, hint string
		permanent  bool
	}{
		{noSocketToIPSet, hintRaw, true},
		{errTooLong.Error(), "does it hang?", false},
		{"you must be root", hintCapability, true},
		{"Permission denied", hintCapability, true},
		{"Operation not permitted", hintCapability, true},
		{"xtables lock", hintLockBusy, false},
		{"incompatible, use 'nft' tool", "the table filter has rules that only nft understands", false},
		{"No chain/target/match by that name", hintXtables, false},
		{"Couldn't load match", hintXtables, false},
		{"Extension", hintXtables, false},
		{"can't initialize", hintXtables, false},
	} {
		if strings.Contains(said, x.part) {
			wrapped.text += " (" + x.hint + ")"
			if x.permanent {
				return Permanent(wrapped)
			}
			break
		}
	}
	return wrapped
}

// toolError has what a program has said on one line.
type toolError struct {
	text string
	err  error
}

func (e *toolError) Error() string { return e.text }
func (e *toolError) Unwrap() error { return e.err }

// warnOfOther says, once, that the other variant holds rules too. Nothing is
// loaded into the kernel for that.
func (t *Iptables) warnOfOther(ctx context.Context) {
	if t.other {
		return
	}
	t.other = true
	variant := t.tools[0].otherVariant()
	_ = inNetNS(t.opt.NetNS, func() error { // who can't look does without
		if n, ours := otherRules(ctx, t.opt, variant); n > 0 {
			t.log.Warn("another variant of iptables holds rules as well, which the one in use neither shows nor is above",
				slog.String("in_use", "iptables-"+t.tools[0].variant), slog.String("other", "iptables-"+variant),
				slog.Int("rules", n), slog.Bool("ours_among_them", ours))
		}
		return nil
	})
}

func (tool *iptablesOf) otherVariant() string {
	if tool.variant == VariantNft {
		return VariantLegacy
	}
	return VariantNft
}

// otherRules counts the rules in the table filter of IPv4 that a variant holds.
func otherRules(ctx context.Context, opt IptablesOptions, variant string) (n int, ours bool) {
	if variant == VariantLegacy {
		// To ask it for a table that isn't there would make one.
		tables, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
		if err != nil || !strings.Contains(string(tables), tableFilter) {
			return 0, false
		}
	}
	opt.Variant, opt.Path = variant, ""
	tool, err := findTool(ctx, opt, ipFamilies()[0], runPatience)
	if err != nil {
		return 0, false
	}
	chains, err := tool.list(ctx)
	if err != nil {
		return 0, false
	}
	for _, rules := range chains {
		n += len(rules)
	}
	_, ours = chains[opt.Chain]
	return n, ours
}
