package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/prove"
	"github.com/tailban/tailban/state"
)

// provedFile is the name of the file, in the state folder, with who has proved by
// his name to be a wanted machine.
const provedFile = "proved.json"

// proofs is what the engine asks about names. The engine never waits for it: a
// question is handed over when it is taken, an answer when it comes.
type proofs struct {
	questions chan<- detector.Question
	answers   <-chan detector.Answer
	next      detector.Question // to be handed over
	has       bool              // there is one
}

// loadProofs makes what looks names up, with the answers of an earlier run.
func (d *daemon) loadProofs() {
	resolver := d.Resolver
	if resolver == nil {
		resolver = prove.System()
	}
	d.prover = prove.New(prove.Options{Resolver: resolver, File: filepath.Join(d.Config.StateDir, provedFile), Log: d.Log})
	for i := range d.config.Wanted {
		if len(d.config.Wanted[i].Domains) == 0 {
			continue
		}
		var err error
		if d.proved, err = d.prover.Load(); err != nil {
			d.Log.Warn("who can only prove by his name to be a wanted machine is an ordinary client until it is looked up", "err", err)
		}
		return
	}
}

// startProofs begins to answer questions.
func (d *daemon) startProofs() *part {
	return startPart(d.serving, func(ctx context.Context) {
		if err := d.prover.Run(ctx); err != nil {
			d.Log.Error("names of those who claim to be wanted machines are no longer looked up", "err", err)
		}
	})
}

// useProofs has the engine know the answers of an earlier run, and whom to ask.
func (e *engine) useProofs(d *daemon) {
	if d.prover == nil {
		return
	}
	e.proofs = proofs{questions: d.prover.Questions, answers: d.prover.Answers}
	for i := range d.proved {
		e.detect.Answer(d.proved[i])
	}
	d.proved = nil
}

// asking returns where the next question goes; nil if there is none. It must be
// told when that was handed over, by has.
func (e *engine) asking() chan<- detector.Question {
	p := &e.proofs
	if p.questions == nil {
		return nil
	}
	if !p.has {
		p.next, p.has = e.detect.Question()
	}
	if !p.has {
		return nil
	}
	return p.questions
}

// answered takes up what came of a question.
func (e *engine) answered(a detector.Answer, now time.Time) {
	spared, usedUp := e.detect.Answer(a)
	if usedUp {
		e.note(state.Note{What: state.NoteAdopted, Target: e.detect.Target(a.Client)})
	}
	client := a.Client.String()
	switch a.Result {
	case detector.Proved:
		if spared > 0 {
			e.say(now, slog.LevelInfo, "not banned: its name proves that it is a wanted machine", "client", client, "name", a.Names[0], "decisions", spared)
		}
	case detector.Disproved:
		if e.said.once("disproved "+client, now) {
			e.say(now, slog.LevelInfo, "claims to be a wanted machine, and is none", "client", client, "reason", a.Reason)
		}
	case detector.Unknown:
		if e.said.once("names fail", now) {
			e.say(now, slog.LevelWarn, "names of some who claim to be wanted machines can't be looked up: until they can, those are ordinary clients", "client", client, "reason", a.Reason)
		}
	}
}

// sayPostponed says that a decision waits.
func (e *engine) sayPostponed(v *detector.Verdict, now time.Time) {
	e.say(now, slog.LevelInfo, "not banned yet: it may be a wanted machine, and its names are being looked up",
		"client", v.Client.String(), "decisions", v.Postponed, "at_most", detector.MaxPostponement.String())
}

// decideDue makes the decisions that have waited for a proof, and need not or may
// not any longer.
func (e *engine) decideDue(now time.Time) {
	var l *logState
	begin := func(log string) {
		l = e.logs[log] // nil: a reload has let go of it
		e.breaker.log, e.breaker.now = l, now
	}
	for v := e.detect.Due(now.UnixNano(), begin); v != nil; v = e.detect.Due(now.UnixNano(), begin) {
		for i := range v.Decisions {
			e.decided(&v.Decisions[i], now)
		}
		e.breaker.log = nil
		if l != nil {
			e.sayMisread(l, now)
		}
	}
	if l != nil {
		e.handOver()
		e.lookAtAllHits(now)
	}
}

// untilDue is how long it is until decideDue has something to do; at most most.
func (e *engine) untilDue(now time.Time, most time.Duration) time.Duration {
	at, ok := e.detect.NextDue()
	if !ok {
		return most
	}
	return min(most, max(0, time.Duration(at-now.UnixNano())))
}

// proofStatus is how proofs by names stand; nil: there are none to be had. It
// adds what of them is bounded.
func (e *engine) proofStatus(s *control.Status) *control.ProofStatus {
	st := e.detect.ProofStats()
	if !st.On {
		return nil
	}
	s.Budgets = append(s.Budgets,
		control.Budget{Name: "proved by name", Unit: "clients", Used: int64(st.Proved), Limit: detector.MaxProved, Dropped: st.Evicted},
		control.Budget{Name: "disproved by name", Unit: "clients", Used: int64(st.Unproved), Limit: detector.MaxUnproved, Dropped: st.Forgotten},
		control.Budget{Name: "names to look up", Unit: "clients", Used: int64(st.Questions), Limit: detector.MaxQuestions, Dropped: st.Dropped},
		control.Budget{Name: "bans that wait for a proof", Unit: "decisions", Used: int64(st.Postponed), Limit: detector.MaxPostponed, Dropped: st.Refused},
	)
	return &control.ProofStatus{Waiting: st.Questions, Postponed: st.Postponed, Spared: st.Spared}
}

// explainNames fills in what is known of an address by its names.
func (e *engine) explainNames(x *control.Explanation, now time.Time) {
	n, known := e.detect.Named(x.Address, now.UnixNano())
	if !known {
		return
	}
	x.Named = &control.Named{Result: nameResult(&n), Names: n.Names, Reason: n.Reason, Jails: n.Jails}
	if n.Until != 0 {
		x.Named.Until = time.Unix(0, n.Until).UTC()
	}
	if n.Due != 0 {
		x.Named.Due = time.Unix(0, n.Due).UTC()
	}
}

func nameResult(n *detector.Named) string {
	switch {
	case n.Pending:
		return control.NamesAsked
	case n.Result == detector.Proved:
		return control.NamesProve
	case n.Result == detector.Disproved:
		return control.NamesDisprove
	}
	return control.NamesFail
}
