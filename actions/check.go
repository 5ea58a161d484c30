//go:build linux

package actions

import (
	"context"
	"errors"
)

var (
	_ Checker = (*Nftables)(nil)
	_ Checker = (*Iptables)(nil)
	_ Checker = (*Command)(nil)
)

// Check implements [Checker].
func (n *Nftables) Check(ctx context.Context) (err error) {
	looker := NewNftables(n.opt)
	defer func() { err = errors.Join(err, looker.Close()) }()
	if err := errors.Join(ctx.Err(), looker.connect()); err != nil {
		return err
	}
	_, err = findTable(looker.conn, looker.opt.Table)
	return looker.explain("look for", err)
}

// Check implements [Checker]. It looks whether the programs are there and fit to
// be run.
func (c *Command) Check(ctx context.Context) error { return c.Prepare(ctx) }

// Check implements [Checker].
func (t *Iptables) Check(ctx context.Context) (err error) {
	looker := NewIptables(t.opt)
	looker.hasIPv6 = t.hasIPv6
	defer func() { err = errors.Join(err, looker.Close()) }()
	if err := errors.Join(ctx.Err(), looker.opt.check()); err != nil {
		return err
	}
	if err := looker.findTools(ctx); err != nil {
		return err
	}
	if err := looker.connect(); err != nil {
		return err
	}
	return inNetNS(looker.opt.NetNS, func() error {
		for _, tool := range looker.tools {
			if err := tool.mayLookUp(ctx, looker.opt); err != nil {
				return err
			}
		}
		return nil
	})
}
