package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

// conclude says in a word and in a sentence what the rest amounts to.
func conclude(x *control.Explanation, allowedBy string, allowed bool) {
	name := x.Address.String()
	enforced := slices.IndexFunc(x.Bans, func(b control.Ban) bool { return !b.Observed })
	switch {
	case enforced >= 0:
		b := &x.Bans[enforced]
		x.Conclusion, x.Text = control.Banned, fmt.Sprintf("%s is banned until %s by %s", name, clock(b.Until), owners(b))
		if b.Waiting {
			x.Text += ", and waits for its turn to be enforced"
		}
		if b.Target.Bits() < b.Target.Addr().BitLen() {
			x.Text += ", as part of " + b.Target.String()
		}
	case len(x.Networks) > 0 && !allowed:
		n := &x.Networks[0]
		x.Conclusion = control.InNetwork
		x.Text = fmt.Sprintf("%s is not banned itself, but turned away as part of %s until %s: %d of its members are banned, and action %s bans the network as one",
			name, n.Network, clock(n.Until), n.Members, n.Action)
	case len(x.Bans) > 0:
		b := &x.Bans[0]
		x.Conclusion, x.Text = control.Observed, fmt.Sprintf("%s would be banned until %s by %s, which enforces nothing", name, clock(b.Until), owners(b))
	case allowed:
		x.Conclusion, x.Text = control.Allowed, fmt.Sprintf("%s is never counted: %s", name, allowedBy)
	case x.Protected != "":
		x.Conclusion, x.Text = control.Protected, fmt.Sprintf("%s is never banned: %s", name, x.Protected)
	case slices.ContainsFunc(x.Forgiven, func(p control.Pardon) bool { return p.Before.After(x.Now) }):
		x.Conclusion, x.Text = control.Forgiven, fmt.Sprintf("%s is not counted for now: it was forgiven", name)
	case x.Named != nil && !x.Named.Due.IsZero():
		x.Conclusion = control.Postponed
		x.Text = fmt.Sprintf("%s is not banned yet: what %s decided waits until %s at most, as it may be a wanted machine, and its names are being looked up",
			name, jails(x.Named.Jails), clock(x.Named.Due))
	case len(x.Fill) > 0:
		f := x.Fill[0]
		for _, other := range x.Fill[1:] {
			if other.Count*max(f.Limit, 1) > f.Count*max(other.Limit, 1) {
				f = other
			}
		}
		x.Conclusion = control.Counted
		x.Text = fmt.Sprintf("%s is not banned: jail %s has counted %d in %s, and bans at %d", name, f.Jail, f.Count, config.FormatDuration(time.Duration(f.Window*float64(time.Second))), f.Limit+1)
	default:
		x.Conclusion, x.Text = unseen(x)
	}
	for _, o := range x.Overdue {
		x.Text += fmt.Sprintf("; but action %s still holds %s, a ban that is over, as it can't be taken out: %s", o.Action, words.Target(o.Target), o.Err)
	}
}

// unseen tells an address that left no trace but lines in a log from one that
// left none at all.
func unseen(x *control.Explanation) (conclusion, text string) {
	lines := 0
	steps := map[string]int{}
	judged := 0
	for _, s := range x.Seen {
		lines += s.Lines
		for step, n := range s.Steps {
			steps[step] += n
			judged += n
		}
	}
	if lines == 0 {
		return control.Unseen, fmt.Sprintf("%s is not banned, and there is no line of it in the ends of the logs", x.Address)
	}
	most := ""
	for step, n := range steps {
		if most == "" || n > steps[most] || n == steps[most] && step < most {
			most = step
		}
	}
	if who := wantedAs(x); most == detector.StepWanted.String() && who != "" {
		most += ": " + who
	}
	return control.Counted, fmt.Sprintf("%s is not banned: of the latest %d of its lines in the ends of the logs, most ended at: %s", x.Address, judged, most)
}

// wantedAs is the machine that most lines of the address passed as, and by which
// proof.
func wantedAs(x *control.Explanation) (who string) {
	lines := map[string]int{}
	for i := range x.Evidence {
		if w := x.Evidence[i].Wanted; w != "" {
			if lines[w]++; lines[w] > lines[who] {
				who = w
			}
		}
	}
	return who
}

// jails names jails in a sentence.
func jails(names []string) string {
	if len(names) == 1 {
		return "jail " + names[0]
	}
	return "jails " + list(names)
}

// clock is a time for a person.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// owners lists who wants a ban.
func owners(b *control.Ban) string {
	var names []string
	for i := range b.Owners {
		names = append(names, "jail "+b.Owners[i].Jail)
		if b.Owners[i].Jail == control.ByHand {
			names[i] = "hand"
		}
	}
	return list(names)
}
