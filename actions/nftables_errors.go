//go:build linux

package actions

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	hintCapability = "CAP_NET_ADMIN is needed: run tailban as root or through its systemd unit"
	hintKernel     = "does this kernel have nf_tables? (try: modprobe nf_tables nf_tables_inet)"
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
		return Permanent(fmt.Errorf("%w (%s)", err, hintCapability))
	}
	return err
}

// explainPrepare is explain for reading and making the table: other errors
// than of permission hint at what the kernel lacks.
func (n *Nftables) explainPrepare(step string, err error) error {
	explained := n.explain(step, err)
	for _, e := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENOENT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w (%s)", explained, hintKernel)
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
func (n *Nftables) explainElements(step, set string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s set %s: table inet %s is gone, or damaged by somebody else: %w",
			step, set, n.opt.Table, err)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%s set %s of table inet %s: the set is full, it holds %d (raise its size): %w",
			step, set, n.opt.Table, n.opt.Size, err)
	}
	return n.explain(step+" set "+set+" of", err)
}
