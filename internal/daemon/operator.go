package daemon

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
	"github.com/tailban/tailban/state"
)

var _ control.Operator = (*daemon)(nil)

const (
	maxReason     = 200
	maxAllowances = 1000
	maxAllowance  = 30 * 24 * time.Hour
	maxForgive    = 366 * 24 * time.Hour
)

// startControl opens the control sockets. Without them the daemon does its
// work all the same.
func (d *daemon) startControl() *part {
	if d.Config.RuntimeDir == "" {
		return nil
	}
	s := control.NewServer(control.Options{
		Dir: d.Config.RuntimeDir, Daemon: d, Log: d.Log,
		StatusGroup: d.Config.StatusGroup, ControlGroup: d.Config.AdminGroup, Metrics: d.metricsText,
	})
	if err := s.Listen(); err != nil {
		d.Log.Warn("there are no control sockets: tailban status, bans, unban and the like won't work", "err", err)
		return nil
	}
	d.control = s
	return startPart(d.serving, func(ctx context.Context) {
		if err := s.Run(ctx); err != nil {
			d.Log.Error("the control sockets are closed", "err", err)
		}
	})
}

// Follow implements control.Viewer.
func (d *daemon) Follow(ctx context.Context) (<-chan control.Event, error) {
	return d.hub.follow(ctx, time.Now())
}

// Ban implements control.Operator.
func (d *daemon) Ban(ctx context.Context, c control.Caller, r control.BanRequest) (*control.BanResult, error) {
	target, err := targetOf(r.Target)
	if err != nil {
		return nil, err
	}
	length, err := lengthOf("a ban", r.For, maxManualBan)
	if err != nil {
		return nil, err
	}
	o := order{target: target, length: length, jail: r.Jail, reason: reasonOf(r.Reason), by: by(c), force: r.Force}
	out, err := asked(ctx, d, func(e *engine, now time.Time) (*control.BanResult, error) { return e.ban(o, now) })
	if err == nil {
		out.Notes = append(out.Notes, d.stored(ctx)...)
	}
	return out, err
}

// Unban implements control.Operator.
func (d *daemon) Unban(ctx context.Context, c control.Caller, r control.UnbanRequest) (*control.UnbanResult, error) {
	if !r.Target.IsValid() && r.Jail == "" && !r.All {
		return nil, bad("nothing is named to unban: an address or network, a jail, or all")
	}
	if r.All && (r.Target.IsValid() || r.Jail != "") {
		return nil, bad("all is everything: it goes with no target and no jail")
	}
	out := release{jail: r.Jail, reason: reasonOf(r.Reason), by: by(c)}
	var err error
	if r.Target.IsValid() {
		if out.target, err = targetOf(r.Target); err != nil {
			return nil, err
		}
	}
	if out.forgive, err = lengthOf("forgiveness", r.Forgive, maxForgive); err != nil {
		return nil, err
	}
	result, err := asked(ctx, d, func(e *engine, now time.Time) (*control.UnbanResult, error) { return e.unban(out, now) })
	if err == nil {
		result.Notes = append(result.Notes, d.stored(ctx)...)
	}
	return result, err
}

// Allow implements control.Operator.
func (d *daemon) Allow(ctx context.Context, c control.Caller, r control.AllowRequest) (*control.AllowResult, error) {
	target, err := targetOf(r.Target)
	if err != nil {
		return nil, err
	}
	if r.End {
		return d.endAllowance(ctx, c, target, r.Reason)
	}
	length, err := lengthOf("an allowance", r.For, maxAllowance)
	if err != nil {
		return nil, err
	}
	if length == 0 {
		return nil, bad("say for how long: to allow somebody for good, write it into the configuration")
	}
	if target.Bits() < 8 {
		return nil, &control.Error{Code: control.CodeRefused, Message: target.String() + " is much of the Internet: /8 at most"}
	}
	// The engine may lift bans as soon as the list has changed, before it is asked.
	before, err := asked(ctx, d, func(e *engine, _ time.Time) (int, error) { return e.spared, nil })
	if err != nil {
		return nil, err
	}
	now := time.Now()
	a := state.Allowance{Target: target, Since: now, Until: now.Add(length), Reason: reasonOf(r.Reason), By: by(c)}
	full := false
	list := d.setAllowed(func(l *allowList) {
		l.byHand = slices.DeleteFunc(l.byHand, func(x state.Allowance) bool { return x.Target == target })
		if full = len(l.byHand) >= maxAllowances; !full {
			l.byHand = append(l.byHand, a)
		}
	})
	if full {
		return nil, &control.Error{Code: control.CodeRefused, Message: fmt.Sprintf("%d are allowed by hand already", maxAllowances), Hint: "write them into the configuration"}
	}
	d.writer.Put(state.Update{Allowances: []state.Allowance{a}})
	notes := d.stored(ctx)
	d.Log.Info("allowed by hand", "target", target.String(), "until", until(a.Until), "reason", a.Reason, "by", a.By)
	return asked(ctx, d, func(e *engine, now time.Time) (*control.AllowResult, error) {
		e.hub.publish(control.Event{Time: now, Kind: "allow", Target: target, Until: a.Until, Reason: a.Reason, By: a.By})
		e.setAllow(list, now)
		return &control.AllowResult{Target: target, Until: utc(a.Until), Lifted: e.spared - before, Notes: notes}, nil
	})
}

func (d *daemon) endAllowance(ctx context.Context, c control.Caller, target netip.Prefix, reason string) (*control.AllowResult, error) {
	gone := false
	list := d.setAllowed(func(l *allowList) {
		n := len(l.byHand)
		l.byHand = slices.DeleteFunc(l.byHand, func(x state.Allowance) bool { return x.Target == target })
		gone = len(l.byHand) < n
	})
	if !gone {
		return nil, &control.Error{Code: control.CodeNotFound, Message: words.Target(target) + " is not allowed by hand"}
	}
	d.writer.Put(state.Update{ForgetAllowances: []netip.Prefix{target}})
	notes := d.stored(ctx)
	return asked(ctx, d, func(e *engine, now time.Time) (*control.AllowResult, error) {
		e.setAllow(list, now)
		e.hub.publish(control.Event{Time: now, Kind: "allow-end", Target: target, By: by(c), Reason: reasonOf(reason)})
		return &control.AllowResult{Target: target, Notes: notes}, nil
	})
}

// Hold implements control.Operator.
func (d *daemon) Hold(ctx context.Context, c control.Caller, r control.HoldRequest) (*control.HoldResult, error) {
	length, err := lengthOf("a hold", r.For, maxForgive)
	if err != nil {
		return nil, err
	}
	if r.Jail == "" {
		return nil, bad("no jail is named")
	}
	out, err := asked(ctx, d, func(e *engine, now time.Time) (*control.HoldResult, error) {
		if r.Resume {
			return e.resume(r.Jail, reasonOf(r.Reason), by(c), now)
		}
		h := state.Hold{Jail: r.Jail, Since: now, Reason: reasonOf(r.Reason), By: by(c)}
		if length > 0 {
			h.Until = now.Add(length)
		}
		return e.hold(h, now)
	})
	if err == nil {
		out.Notes = d.stored(ctx)
	}
	return out, err
}

// storePatience is how long somebody who changes something waits for the disk.
const storePatience = 2 * time.Second

// stored waits until what was changed is durable. What isn't is in force all
// the same, and said.
func (d *daemon) stored(ctx context.Context) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if err := d.writer.Flush(ctx); err != nil {
		return []string{"this is in force, but not stored yet: a restart now would forget it"}
	}
	return nil
}

// targetOf is a target as it is kept: masked, IPv4 never in its IPv6 form.
func targetOf(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return p, bad("no address or network is named")
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return p, bad(p.String() + " is wider than all of IPv4")
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return netip.PrefixFrom(p.Addr().WithZone(""), p.Bits()).Masked(), nil
}

// lengthOf checks a length of time, in seconds.
func lengthOf(what string, s float64, most time.Duration) (time.Duration, error) {
	if math.IsNaN(s) || s < 0 || s > most.Seconds() {
		return 0, bad(fmt.Sprintf("%s can't last %v seconds: from 1 to %.0f", what, s, most.Seconds()))
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond), nil
}

// reasonOf cuts what a person gave as the reason.
func reasonOf(s string) string { return clip([]byte(s), maxReason) }

// by names a caller.
func by(c control.Caller) string { return fmt.Sprintf("uid %d", c.UID) }

func bad(text string) error { return &control.Error{Code: control.CodeBadRequest, Message: text} }
