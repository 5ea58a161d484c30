//go:build linux

package actions_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	"github.com/tailban/tailban/internal/netlab"
)

// variants runs a test with each variant of iptables, both at the same time.
func variants(t *testing.T, f func(t *testing.T, opt actions.IptablesOptions)) {
	t.Helper()
	for _, v := range []string{actions.VariantNft, actions.VariantLegacy} {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				t.Skip("takes many seconds, most of them in other programs")
			}
			if os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			if _, err := exec.LookPath("iptables-" + v); err != nil {
				t.Skip("needs iptables: ", err)
			}
			if v == actions.VariantLegacy {
				needsLegacy(t)
			}
			f(t, actions.IptablesOptions{Variant: v})
		})
	}
}

// needsLegacy skips where iptables-legacy can't work.
func needsLegacy(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("iptables-legacy"); err != nil {
		t.Skip("needs iptables: ", err)
	}
	lock, err := os.OpenFile("/run/xtables.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Skip("needs root outside of a user namespace: ", err)
	}
	lock.Close()
}

func newIptables(t *testing.T, ns *netlab.NS, opt actions.IptablesOptions) *actions.Iptables {
	t.Helper()
	opt.NetNS = ns.FD()
	a := actions.NewIptables(opt)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func preparedIptables(t *testing.T, ns *netlab.NS, opt actions.IptablesOptions) *actions.Iptables {
	t.Helper()
	a := newIptables(t, ns, opt)
	check(t, a.Prepare(t.Context()))
	return a
}

// do runs a program inside a namespace, as an administrator would, and returns
// what it writes.
func do(t *testing.T, ns *netlab.NS, line string) string {
	t.Helper()
	return doWith(t, ns, line, "")
}

func doWith(t *testing.T, ns *netlab.NS, line, input string) string {
	t.Helper()
	out, err := tryDoWith(ns, line, input)
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return out
}

func tryDo(ns *netlab.NS, line string) error {
	_, err := tryDoWith(ns, line, "")
	return err
}

func tryDoWith(ns *netlab.NS, line, input string) (string, error) {
	words := strings.Fields(line)
	cmd := exec.Command(words[0], words[1:]...)
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr, cmd.Stdin = out, out, strings.NewReader(input)
	if err := ns.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}

func TestIptablesSuite(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		actionstest.Run(t, func(t *testing.T) actions.Action { return newIptables(t, newNS(t), opt) })
	})
}
