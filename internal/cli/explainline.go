package cli

import (
	"fmt"

	"github.com/tailban/tailban/internal/control"
)

// showLine writes a line's way down the order of exceptions.
func showLine(s *screen, x *control.LineExplanation) {
	s.print(styled{x.Outcome, heading})
	s.printf("It is of the log %s, read as %s, and stops at: %s.", x.Log, x.Format, x.Step)
	if x.Err != "" {
		s.print(styled{"It does not parse: " + x.Err, bad})
	}
	if len(x.Fields) > 0 {
		s.section("Fields")
		t := &table{shrink: []int{1}}
		for _, f := range x.Fields {
			t.row(f.Name, f.Value)
		}
		t.write(s)
	}
	if len(x.Hops) > 0 || x.Client.IsValid() {
		s.section("Client")
		t := &table{}
		for _, h := range x.Hops {
			trusted := "not trusted"
			if h.Trusted {
				trusted = "trusted"
			}
			t.row(h.From, h.Value, trusted, h.Result)
		}
		if x.Client.IsValid() {
			t.row("client", x.Client, "", clientText(x))
		}
		t.write(s)
	}
	if len(x.Steps) > 0 {
		s.section("Exceptions")
		t := &table{}
		for _, st := range x.Steps {
			result := styled{text: st.Result}
			if st.Stops {
				result = styled{st.Result + ": it stops here", odd}
			}
			t.row(st.Number, st.Name, result)
		}
		t.write(s)
	}
	if len(x.Jails) > 0 {
		s.section("Jails")
		for i := range x.Jails {
			showJail(s, &x.Jails[i])
		}
	}
}

// clientText tells by what the client is counted.
func clientText(x *control.LineExplanation) string {
	text := ""
	if x.Target.IsValid() {
		text = "counted as " + x.Target.String()
	}
	if x.Plane != "" {
		text += ", " + x.Plane
	}
	return text
}

func showJail(s *screen, j *control.JailTrace) {
	verdict := styled{"does not match", plain}
	if j.Matches {
		verdict = styled{"matches", odd}
	}
	s.print("  ", styled{j.Jail, heading}, " ", verdict, fmt.Sprintf("; %d of %d in its window without this line", j.Count, j.Limit))
	t := &table{shrink: []int{1, 2}}
	for _, c := range j.Conditions {
		is, holds := " is ", styled{"holds", good}
		if c.Not {
			is = " is not "
		}
		if !c.Holds {
			holds = styled{"fails", bad}
		}
		t.row("  "+c.Field+is, c.Want, "got "+orDash(c.Got), holds)
	}
	t.write(s)
}
