package metrics

import (
	"strings"
	"unicode/utf8"
)

// Text writes all metrics of a snapshot. A metric without a value is left out.
// Of two values with the same labels, which no reader would accept, the first
// counts.
func Text(s *Snapshot) []byte {
	var b []byte
	for _, f := range Families() {
		b = f.append(b, s)
	}
	return b
}

func (f *Family) append(b []byte, s *Snapshot) []byte {
	var seen map[string]bool
	f.read(s, func(value float64, labels ...string) {
		if seen == nil {
			seen = map[string]bool{}
			b = append(b, "# HELP "+f.Name+" "+escape(f.Help, false)+"\n# TYPE "+f.Name+" "+f.Type+"\n"...)
		}
		series := f.series(labels)
		if seen[series] {
			return
		}
		seen[series] = true
		b = append(appendValue(append(append(b, series...), ' '), value), '\n')
	})
	return b
}

// series is the name with labels.
func (f *Family) series(values []string) string {
	if len(values) == 0 {
		return f.Name
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = f.Labels[i] + `="` + escape(v, true) + `"`
	}
	return f.Name + "{" + strings.Join(parts, ",") + "}"
}

// escape makes a text one of a line of the format, between quotes or not.
func escape(s string, quoted bool) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\\\n\"") {
		return s
	}
	pairs := []string{`\`, `\\`, "\n", `\n`}
	if quoted {
		pairs = append(pairs, `"`, `\"`)
	}
	return strings.NewReplacer(pairs...).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}
