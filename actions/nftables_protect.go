//go:build linux

package actions

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// protectedTable are the flags of a table that only the socket that made it
// can change (Linux 5.12), and that stays when that socket is closed (6.9).
// The kernel then takes the owner's flag off: whoever sets it next owns the
// table, and until then anybody may change it. Nothing else about these flags
// can change while a table is there.
const protectedTable = nftables.TableFlagOwner | nftables.TableFlagPersist

// ErrTableOwned is wrapped by the error of changing a table that a socket of
// somebody else owns.
var ErrTableOwned = errors.New("another program owns the table")

// compareProtection says what has to change for a table to have the wanted
// flags. One that was protected and need not be any more is left as it is, its
// bans with it: without an owner the flag means nothing.
func (r *ruleset) compareProtection(have *held, fix *repair) {
	switch {
	case r.table.Flags&protectedTable == 0:
		fix.flags = have.table.Flags & protectedTable // cannot be taken off
	case have.table.Flags&nftables.TableFlagPersist == 0:
		fix.table = tableWrong
		fix.because("table was made without protection, or without what it is now")
	default:
		fix.flags = protectedTable
		fix.adopt = have.table.Flags&nftables.TableFlagOwner == 0
	}
}

// prepareProtected is prepareOnce, and again without protection if it is this
// that the kernel lacks.
func (n *Nftables) prepareProtected() error {
	err := n.prepareOnce()
	if n.flags == 0 || n.made || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	flags := n.flags
	n.flags = 0
	n.disconnect() // replies may be left in it
	if again := n.prepareOnce(); again != nil {
		n.flags = flags
		return again
	}
	n.log.Warn("this kernel cannot protect the table from other programs, going on without", slog.String("needs", "Linux 6.9 or newer"), slog.Any("err", err))
	return nil
}

// checkOwner returns an error if a socket other than ours owns the table.
func (n *Nftables) checkOwner(t *nftables.Table) error {
	if t == nil || t.Flags&nftables.TableFlagOwner == 0 {
		return nil
	}
	port, err := n.conn.GetPortID()
	if err != nil {
		return fmt.Errorf("read the netlink port of our socket: %w", err)
	}
	if t.Owner == port {
		return nil
	}
	return n.explain("change", unix.EPERM)
}

// owner tells by which netlink port another socket than ours owns the table;
// 0: none does. It speaks to the kernel over a connection of its own, as it is
// asked after errors.
func (n *Nftables) owner() uint32 {
	conn, _, err := n.dial()
	if err != nil {
		return 0
	}
	defer closeConn(conn)
	t, err := findTable(conn, n.opt.Table)
	if err != nil || t == nil || t.Flags&nftables.TableFlagOwner == 0 {
		return 0
	}
	return t.Owner
}

// explainOwned takes the kernel's word for a table's owner and says who that
// will be.
func explainOwned(err error, owner uint32) error {
	return fmt.Errorf("%w: %w, most likely a tailban daemon with protect_table = true: stop it first (netlink port %d, as a rule the number of its process)",
		err, ErrTableOwned, owner)
}
