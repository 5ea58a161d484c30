package parser

import "fmt"

// FormatNames lists the presets, the ones with fewer fields first.
func FormatNames() []string { return []string{"common", "combined", "nginx"} }

// NewFormat makes a parser for a preset.
func NewFormat(name string) (Format, error) {
	switch name {
	case "common":
		return &clf{fields: clfCommon}, nil
	case "combined":
		return &clf{fields: clfCombined}, nil
	case "nginx":
		return &clf{fields: clfForward}, nil
	}
	return nil, fmt.Errorf("no log format is called %q", name)
}

// Detect guesses the format of a log from some of its lines: the preset that
// parses most of them and, of several, the one with the most fields. Its
// second result is the number of lines that parse; 0 means that none does.
func Detect(lines [][]byte) (name string, parsed int) {
	names := FormatNames()
	for i := len(names) - 1; i >= 0; i-- {
		f, err := NewFormat(names[i])
		if err != nil {
			continue // cannot be: the names are our own
		}
		n := 0
		for _, l := range lines {
			var ev Event
			if f.Parse(l, false, &ev) == nil {
				n++
			}
		}
		if n > parsed {
			name, parsed = names[i], n
		}
	}
	return name, parsed
}
