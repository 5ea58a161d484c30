//go:build linux

package actions

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

const (
	hintCapability = "CAP_NET_ADMIN is needed: run tailban as root or through its systemd unit"
	hintKernel     = "does this kernel have nf_tables? (try: modprobe nf_tables nf_tables_inet)"
	hintReject     = "rejecting needs Linux 5.9 or newer with the module nft_reject_inet: does it work with verdict = \"drop\"?"
	hintNetlink    = "AF_NETLINK sockets must be allowed (RestrictAddressFamilies= in the systemd unit)"
)

// explain says which step failed at our table, with a hint where the cause
// can be guessed. The step is a verb, as in "read table …".
func (n *Nftables) explain(step string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s table inet %s: %w", step, n.opt.Table, err)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		if owner := n.owner(); owner != 0 {
			return explainOwned(err, owner) // until it ends
		}
		return Permanent(fmt.Errorf("%w (%s)", err, hintCapability))
	}
	return err
}

// explainInstall is explainPrepare for making the table, after it was read.
func (n *Nftables) explainInstall(err error) error {
	if n.opt.Reject {
		return n.explainLack("install", err, hintReject)
	}
	return n.explainPrepare("install", err)
}

// explainPrepare is explain for reading and making the table: other errors
// than of permission hint at what the kernel lacks.
func (n *Nftables) explainPrepare(step string, err error) error {
	return n.explainLack(step, err, hintKernel)
}

func (n *Nftables) explainLack(step string, err error, hint string) error {
	explained := n.explain(step, err)
	for _, e := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENOENT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w (%s)", explained, hint)
		}
	}
	return explained
}

func explainConnect(err error) error {
	err = fmt.Errorf("connect to nftables: %w", err)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return Permanent(fmt.Errorf("%w (%s)", err, hintCapability))
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return Permanent(fmt.Errorf("%w (%s)", err, hintKernel))
	case errors.Is(err, unix.EAFNOSUPPORT):
		return Permanent(fmt.Errorf("%w (%s)", err, hintNetlink))
	}
	return err
}

// explainElements is explain for changes of a set's elements.
func (n *Nftables) explainElements(step string, set *nftables.Set, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s set %s: table inet %s is gone, or damaged by somebody else: %w",
			step, set.Name, n.opt.Table, err)
	case errors.Is(err, unix.ENFILE):
		size, hint := int(set.Size), "raise its size"
		if set.Interval {
			size, hint = netSize, "ban fewer and wider networks"
		}
		return fmt.Errorf("%s set %s of table inet %s: %w, it holds %d (%s): %w",
			step, set.Name, n.opt.Table, ErrFull, size, hint, err)
	}
	return n.explain(step+" set "+set.Name+" of", err)
}
