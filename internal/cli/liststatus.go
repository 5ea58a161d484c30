package cli

import (
	"fmt"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

// listsTable is about lists that are refreshed.
func listsTable(st *control.Status) *table {
	t := &table{head: []string{"list", "ranges", "of", "in use", "fetched", "next"}, shrink: []int{0}}
	for _, l := range st.Lists {
		use, next := "built in", "due"
		if l.Fetched {
			use = "fetched"
		}
		if l.Next.After(st.Now) {
			next = "in " + left(st.Now, l.Next)
		}
		t.row(l.Name, words.Thousands(l.Ranges), l.Date, use, ago(st.Now, l.Checked), next)
		if l.Err != "" {
			t.note("can't be fetched (%s, tried %s): %s", ago(st.Now, l.Since), many(l.Failures, "time"), l.Err)
		}
		if w := l.Waiting; w != nil {
			text := "waits to be accepted, id %s: %s; %s added"
			if len(w.Widest) > 0 {
				text += " (" + rangesText(w.Widest) + andMore(w.Added-len(w.Widest)) + ")"
			}
			t.note(text+", %d removed", w.ID, w.Why, many(w.Added, "range"), w.Removed)
		}
	}
	return t
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
