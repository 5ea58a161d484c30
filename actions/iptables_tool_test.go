//go:build linux

package actions_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// program writes a shell script that stands in for a program.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return path
}

func TestIptablesThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	says := func(name, version string) string { return program(t, dir, name, "echo '"+version+"'") }
	nft := says("iptables-x", "iptables v1.8.9 (nf_tables)")
	says("ip6tables-x", "ip6tables v1.8.9 (nf_tables)")
	mixed := says("iptables-y", "iptables v1.8.9 (nf_tables)")
	says("ip6tables-y", "ip6tables v1.8.7 (legacy)")
	lonely := says("iptables-z", "iptables v1.8.9 (nf_tables)")
	broken := program(t, dir, "iptables-b", "echo 'cannot load libxtables' >&2; exit 127")
	program(t, dir, "ip6tables-b", "exit 127")
	for name, tt := range map[string]struct {
		opt       actions.IptablesOptions
		want      []string
		permanent bool
	}{
		"no program":       {actions.IptablesOptions{Path: dir + "/nothing"}, []string{"find iptables", dir + "/nothing", "install iptables"}, true},
		"no ip6tables":     {actions.IptablesOptions{Path: lonely}, []string{"find iptables", "ip6tables-z"}, true},
		"another variant":  {actions.IptablesOptions{Path: nft, Variant: "legacy"}, []string{nft + " is iptables-nft", "iptables-legacy is asked for"}, true},
		"two variants":     {actions.IptablesOptions{Path: mixed}, []string{"iptables-nft", "iptables-legacy", "choose one"}, true},
		"a program broken": {actions.IptablesOptions{Path: broken}, []string{"for its version", "cannot load libxtables"}, false},
		"an unknown kind":  {actions.IptablesOptions{Variant: "ebtables"}, []string{`"ebtables"`, `"nft"`, `"legacy"`}, true},
		"a long chain":     {actions.IptablesOptions{Chain: strings.Repeat("X", 25)}, []string{"chain", "24 characters"}, true},
		"a strange chain":  {actions.IptablesOptions{Chain: "TAIL BAN"}, []string{"chain", "letters"}, true},
		"an option":        {actions.IptablesOptions{Chain: "-F"}, []string{"chain", "letters"}, true},
		"another's chain":  {actions.IptablesOptions{Chain: "INPUT"}, []string{"chain", "not ours"}, true},
		"a long prefix":    {actions.IptablesOptions{Prefix: strings.Repeat("x", 25)}, []string{"prefix", "24 characters"}, true},
		"a strange prefix": {actions.IptablesOptions{Prefix: "tail;ban"}, []string{"prefix", "letters"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ns := newNS(t)
			err := newIptables(t, ns, tt.opt).Prepare(t.Context())
			if err == nil || errors.Is(err, actions.ErrPermanent) != tt.permanent {
				t.Fatalf("Prepare returned %v, want it permanent: %t", err, tt.permanent)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			tt.opt.NetNS = ns.FD()
			if _, err := actions.TeardownIptables(t.Context(), tt.opt); err == nil {
				t.Error("it can be torn down")
			}
		})
	}
}

// Where there is no IPv6 ip6tables can't work, and isn't needed.
func TestIptablesWithoutIPv6(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		a := newIptables(t, ns, opt)
		actions.ActAsWithoutIPv6(a)
		check(t, a.Prepare(t.Context()))
		apply(t, a, ban("192.0.2.1/32", time.Hour), ban("2001:db8::/64", time.Hour))
		if got := do(t, ns, "iptables-"+opt.Variant+" -S"); !strings.Contains(got, "TAILBAN") {
			t.Error("there are no rules for IPv4: ", got)
		}
		if got := do(t, ns, "ip6tables-"+opt.Variant+" -S"); strings.Contains(got, "TAILBAN") {
			t.Error("there are rules for IPv6: ", got)
		}
	})
}

func TestIptablesLongestNames(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		opt.Chain, opt.Prefix = strings.Repeat("X", 24), strings.Repeat("x", 24)
		a := preparedIptables(t, ns, opt)
		check(t, a.Prepare(t.Context()))
		if a.Repairs() != 0 {
			t.Error("a second Prepare found something to repair")
		}
		opt.NetNS = ns.FD()
		if existed, err := actions.TeardownIptables(t.Context(), opt); err != nil || !existed {
			t.Errorf("torn down: %t, %v", existed, err)
		}
	})
}

// What a program says is said, with a hint where the cause can be guessed.
func TestIptablesErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		said, want string
		status     int
		permanent  bool
	}{
		{"Another app is currently holding the xtables lock; still 0s 0us time ahead to have a chance to grab the lock...", "for too long", 4, false},
		{"iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)", "CAP_NET_ADMIN is needed", 4, true},
		{"iptables v1.8.9 (legacy): Couldn't load match `set':No such file or directory", "modprobe xt_set", 2, false},
		{"iptables v1.8.9 (nf_tables): table `filter' is incompatible, use 'nft' tool.", "only nft understands", 1, false},
		{"something else", "something else", 1, false},
	} {
		dir := t.TempDir()
		script := fmt.Sprintf("[ \"$1\" = --version ] && echo 'v1.8.9 (nf_tables)' && exit 0\ncat >&2 <<'END'\n%s\nEND\nexit %d", tt.said, tt.status)
		path := program(t, dir, "iptables", script)
		program(t, dir, "ip6tables", script)
		err := newIptables(t, newNS(t), actions.IptablesOptions{Path: path}).Prepare(t.Context())
		if err == nil || errors.Is(err, actions.ErrPermanent) != tt.permanent {
			t.Errorf("%q: %v, want it permanent: %t", tt.said, err, tt.permanent)
			continue
		}
		for _, part := range []string{"list the chains", tt.said, tt.want} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	}
}

// iptables-nft needs CAP_NET_ADMIN and, for rules that look into IP sets, whose
// numbers it asks for by a raw socket, CAP_NET_RAW; iptables-legacy is refused.
func TestIptablesAsAnotherUser(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, most of them in other programs")
	}
	t.Parallel()
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Skip("needs iptables: ", err)
	}
	able := child(t, "iptables", true)
	able.SysProcAttr.AmbientCaps = append(able.SysProcAttr.AmbientCaps, unix.CAP_NET_RAW)
	if out := run(t, newNS(t), able); out != "ok" {
		t.Error(out)
	}
	for name, tt := range map[string]struct {
		child string
		admin bool
		want  []string
	}{
		"without the capability": {"iptables", false, []string{"permanent: ", "you must be root", "CAP_NET_ADMIN", "systemd"}},
		"without raw sockets":    {"iptables", true, []string{"permanent: ", "Can't open socket to ipset", "CAP_NET_RAW"}},
		"legacy":                 {"legacy", true, []string{"permanent: ", "iptables-legacy", "only as root", "user 65534", "iptables-nft"}},
	} {
		ns := newNS(t)
		out := runAs(t, ns, tt.child, tt.admin)
		for _, part := range tt.want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: the error does not say %q: %s", name, part, out)
			}
		}
		if left := do(t, ns, "iptables-nft -S") + do(t, ns, "ipset save"); strings.Contains(strings.ToLower(left), "tailban") {
			t.Errorf("%s: half of it is left\n%s", name, left)
		}
	}
}

// Root may lack what iptables-legacy needs, as in a unit that confines it.
func TestIptablesLegacyConfined(t *testing.T) {
	t.Parallel()
	needsLegacy(t)
	exe, err := os.Executable()
	check(t, err)
	for want, line := range map[string][]string{
		"needs CAP_NET_RAW": {"setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", exe},
		"ReadWritePaths=":   {"unshare", "-m", "sh", "-c", "mount --bind /run /run && mount -o remount,bind,ro /run && exec " + exe},
	} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), childEnv+"=prepare")
		out := run(t, newNS(t), cmd)
		for _, part := range []string{"permanent: ", "iptables-legacy", want} {
			if !strings.Contains(out, part) {
				t.Errorf("%s does not say %q: %s", line[0], part, out)
			}
		}
	}
}

func TestIptablesLegacyWithAnotherLock(t *testing.T) {
	needsLegacy(t)
	t.Setenv("XTABLES_LOCKFILE", t.TempDir()+"/lock")
	err := newIptables(t, newNS(t), actions.IptablesOptions{Variant: actions.VariantLegacy}).Prepare(t.Context())
	if !errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "/run/xtables.lock") {
		t.Errorf("Prepare returned %v", err)
	}
}

// Rules of the other variant are said, and none of them is made by looking.
func TestIptablesOtherVariant(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		needsLegacy(t)
		other := actions.VariantNft
		if opt.Variant == other {
			other = actions.VariantLegacy
		}
		said := func(ns *netlab.NS) string {
			buf := new(syncbuf.Buffer)
			opt.Log = slog.New(slog.NewTextHandler(buf, nil))
			a := preparedIptables(t, ns, opt)
			check(t, a.Prepare(t.Context()))
			if n := strings.Count(buf.String(), "another variant"); n > 1 {
				t.Errorf("said %d times", n)
			}
			return buf.String()
		}
		ns := newNS(t)
		if got := said(ns); strings.Contains(got, "another variant") {
			t.Error("without any rules: ", got)
		}
		tables := do(t, ns, "cat /proc/thread-self/net/ip_tables_names") + do(t, ns, "nft list tables")
		if got := strings.Contains(tables, "filter"); !got {
			t.Fatalf("there is no table of ours: %s", tables)
		}
		if opt.Variant == actions.VariantNft && strings.HasPrefix(tables, "filter") || opt.Variant == actions.VariantLegacy && strings.Contains(tables, "table") {
			t.Errorf("looking has made tables: %s", tables)
		}
		do(t, ns, "iptables-"+other+" -A INPUT -p tcp --dport 22 -j ACCEPT")
		got := said(ns)
		for _, part := range []string{"another variant", "other=iptables-" + other, "rules=1", "ours_among_them=false"} {
			if !strings.Contains(got, part) {
				t.Errorf("%q is not said: %s", part, got)
			}
		}
	})
}

// A teardown removes also what is left of a variant used before, which looks into
// the same sets.
func TestTeardownOfBothVariants(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		needsLegacy(t)
		ns := newNS(t)
		preparedIptables(t, ns, actions.IptablesOptions{Variant: actions.VariantNft})
		preparedIptables(t, ns, actions.IptablesOptions{Variant: actions.VariantLegacy})
		opt.NetNS = ns.FD()
		existed, err := actions.TeardownIptables(t.Context(), opt)
		check(t, err)
		left := do(t, ns, "iptables-nft -S") + do(t, ns, "ip6tables-nft -S") + do(t, ns, "iptables-legacy -S") + do(t, ns, "ip6tables-legacy -S") + do(t, ns, "ipset save")
		if !existed || strings.Contains(strings.ToLower(left), "tailban") {
			t.Errorf("%t, and there is left\n%s", existed, left)
		}
	})
}

func TestLockIptables(t *testing.T) {
	t.Parallel()
	a := newNS(t)
	lock := func(opt actions.IptablesOptions) (l *actions.TableLock, err error) {
		doErr := a.Do(func() error { l, err = actions.LockIptables(opt); return nil })
		check(t, doErr)
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return l, err
	}
	first, err := lock(actions.IptablesOptions{})
	check(t, err)
	if first.Warning() != "" {
		t.Error(first.Warning())
	}
	for want, opt := range map[string]actions.IptablesOptions{
		"iptables chain TAILBAN": {Prefix: "other"},
		"the IP sets of tailban": {Chain: "OTHER"},
	} {
		_, err := lock(opt)
		if !errors.Is(err, actions.ErrTableBusy) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	_, err = lock(actions.IptablesOptions{Chain: "OTHER", Prefix: "other"}) // what the failures above have taken is free
	check(t, err)
	mustLock(t, a, "tailban")
	check(t, first.Close())
	_, err = lock(actions.IptablesOptions{})
	check(t, err)
}
