//go:build linux

package actions

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// Teardown deletes our table with all bans in it, and nothing else. existed
// says whether there was one. It needs no daemon; one that runs would make the
// table again.
func Teardown(ctx context.Context, opt NftablesOptions) (existed bool, err error) {
	n := NewNftables(opt)
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := n.connect(); err != nil {
		return false, err
	}
	table, err := findTable(n.conn, n.opt.Table)
	if err != nil {
		return false, n.explain("look for", err)
	}
	if table == nil {
		return false, nil
	}
	if n.opt.OursOnly {
		if err := n.oursOnly(table); err != nil {
			return false, n.explain("look at", err)
		}
	}
	n.conn.DelTable(table)
	err = n.conn.Flush()
	if errors.Is(err, unix.ENOENT) { // somebody was faster
		return false, nil
	}
	return err == nil, n.explain("delete", err)
}
