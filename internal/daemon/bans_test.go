package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// modelOwner is what of an owner matters to the table.
type modelOwner struct {
	jail   string
	offset int64
	until  time.Time
}

// bansModel is the table done naively.
type bansModel map[netip.Prefix][]modelOwner

func (m bansModel) end(target netip.Prefix) (end time.Time) {
	for _, o := range m[target] {
		if o.until.After(end) {
			end = o.until
		}
	}
	return end
}

func (m bansModel) soonestEnd() (end time.Time) {
	for target := range m {
		if e := m.end(target); end.IsZero() || e.Before(end) {
			end = e
		}
	}
	return end
}

// next is when the first of all owners lets go.
func (m bansModel) next() (next time.Time, ok bool) {
	for _, owners := range m {
		for _, o := range owners {
			if !ok || o.until.Before(next) {
				next, ok = o.until, true
			}
		}
	}
	return next, ok
}

func TestBanTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cap = 4
		table, model := newBanTable(cap), bansModel{}
		now := time.Unix(1_000_000, 0)
		target := rapid.Custom(func(t *rapid.T) netip.Prefix {
			return pfx(fmt.Sprintf("192.0.2.%d/32", rapid.IntRange(1, 7).Draw(t, "host")))
		})
		jail := rapid.SampledFrom([]string{"a", "b", "c"})
		length := rapid.IntRange(1, 20)
		evicted := uint64(0)

		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				d := &detector.Decision{
					Jail: jail.Draw(t, "jail"), Target: target.Draw(t, "target"),
					Ban:  time.Duration(length.Draw(t, "seconds")) * time.Second,
					Line: detector.Line{Dev: 1, Ino: 1, Offset: rapid.Int64Range(0, 3).Draw(t, "offset")},
				}
				o := modelOwner{d.Jail, d.Line.Offset, now.Add(d.Ban)}
				owners := model[d.Target]
				i := slices.IndexFunc(owners, func(x modelOwner) bool { return x.jail == o.jail })
				known := i >= 0 && owners[i].offset == o.offset

				ban, full, isNew := table.add(d.Target, "here", owner(d, now))
				if isNew == known {
					t.Fatalf("new: %v, known to the model: %v", isNew, known)
				}
				if mustEvict := owners == nil && len(model) == cap; mustEvict != (full != nil) {
					t.Fatalf("made room: %v, want %v", full != nil, mustEvict)
				}
				if full != nil {
					evicted++
					if end := model.end(full.Target); !end.Equal(model.soonestEnd()) {
						t.Fatalf("%v made room, which ends at %v; one ends at %v", full.Target, end, model.soonestEnd())
					}
					delete(model, full.Target)
				}
				switch {
				case known:
				case i >= 0:
					owners[i] = o
				default:
					model[d.Target] = append(owners, o)
				}
				if ban.Target != d.Target {
					t.Fatalf("got the ban of %v", ban.Target)
				}
			},
			"expire": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "later")) * time.Second)
				var changed, ended []netip.Prefix
				table.expire(now,
					func(b *state.Ban) { changed = append(changed, b.Target) },
					func(b *state.Ban) { ended = append(ended, b.Target) })
				for target, owners := range model {
					left := slices.DeleteFunc(slices.Clone(owners), func(o modelOwner) bool { return !o.until.After(now) })
					if got, want := slices.Contains(ended, target), len(left) == 0; got != want {
						t.Fatalf("%v ended: %v, want %v", target, got, want)
					}
					if got, want := slices.Contains(changed, target), len(left) > 0 && len(left) < len(owners); got != want {
						t.Fatalf("%v changed: %v, want %v", target, got, want)
					}
					if model[target] = left; len(left) == 0 {
						delete(model, target)
					}
				}
			},
			"restore": func(t *rapid.T) {
				p := target.Draw(t, "target")
				if model[p] != nil {
					t.Skip("restoring is for targets without a ban")
				}
				b := state.Ban{Target: p}
				for _, j := range rapid.SliceOfNDistinct(jail, 1, 3, rapid.ID[string]).Draw(t, "jails") {
					until := now.Add(time.Duration(length.Draw(t, "seconds")) * time.Second)
					b.Owners = append(b.Owners, state.Owner{Jail: j, Until: until, Line: state.LineID{Dev: 1, Ino: 1}})
					model[p] = append(model[p], modelOwner{j, 0, until})
				}
				table.restore(b, now)
				for table.overfull() {
					evicted++
					victim := table.evict()
					if end := model.end(victim.Target); !end.Equal(model.soonestEnd()) {
						t.Fatalf("%v made room, which ends at %v; one ends at %v", victim.Target, end, model.soonestEnd())
					}
					delete(model, victim.Target)
				}
			},
			"": func(t *rapid.T) {
				compareBans(t, table, model)
				if table.evicted != evicted {
					t.Fatalf("evicted %d, counted %d", evicted, table.evicted)
				}
			},
		})
	})
}

// compareBans compares all that the table holds, and its queues with its map.
func compareBans(t *rapid.T, table *banTable, model bansModel) {
	if len(table.bans) != len(model) {
		t.Fatalf("%d bans, want %d", len(table.bans), len(model))
	}
	for target, owners := range model {
		h := table.bans[target]
		if h == nil {
			t.Fatalf("%v is missing", target)
		}
		var got []modelOwner
		for _, o := range h.Owners {
			got = append(got, modelOwner{o.Jail, o.Line.Offset, o.Until})
		}
		same := func(a, b modelOwner) bool {
			return a.jail == b.jail && a.offset == b.offset && a.until.Equal(b.until)
		}
		if !slices.EqualFunc(got, owners, same) {
			t.Fatalf("owners of %v are %v, want %v", target, got, owners)
		}
	}
	next, ok := table.next()
	if wantNext, want := model.next(); ok != want || !next.Equal(wantNext) {
		t.Fatalf("next is %v, %v; want %v, %v", next, ok, wantNext, want)
	}
	for _, q := range []*queue[heldBan]{table.changes, table.ends} {
		if len(q.heap.items) != len(table.bans) {
			t.Fatalf("%d in a queue, %d in the map", len(q.heap.items), len(table.bans))
		}
		for i, h := range q.heap.items {
			if *q.place(h) != i || table.bans[h.Target] != h {
				t.Fatalf("item %d of a queue is %v, which believes to be at %d", i, h.Target, *q.place(h))
			}
			if i > 0 && q.less(h, q.heap.items[(i-1)/2]) {
				t.Fatalf("item %d of a queue is due before its parent", i)
			}
		}
	}
}
