package source

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestContainerReader(t *testing.T) {
	docker := func(text, stream string) string {
		return `{"log":"` + text + `","stream":"` + stream + `","time":"x"}` + "\n"
	}
	for _, tt := range []struct {
		name string
		c    Container
		in   string
		want string
	}{
		{"none", "", "a\nb", "a\nb"},
		{"empty", Docker, "", ""},
		{"whole lines", Docker, docker(`a\n`, "stdout") + docker(`b\n`, "stderr"), "a\nb\n"},
		{"pieces of two streams", Docker, docker("a", "stdout") + docker(`x\n`, "stderr") + docker(`b\n`, "stdout"), "x\nab\n"},
		{"CRI", CRI, "t stdout P a\nt stderr F x\nt stdout F b\n", "x\nab\n"},
		{"the last piece is missing", CRI, "t stdout P a\n", "a\n"},
		{"the last line feed is missing", CRI, "t stdout F a", "a\n"},
		{"not wrapped", Docker, "a\n\nb\n", "a\n\nb\n"},
		{"as long as may be", CRI, "t stdout F " + strings.Repeat("x", 100) + "\n", strings.Repeat("x", 100) + "\n"},
		{"longer", CRI, "t stdout F " + strings.Repeat("x", 1000) + "\nt stdout F a\n", strings.Repeat("x", 101) + "\na\n"},
		{"longer than anything", CRI, "t stdout F " + strings.Repeat("x", 1<<20) + "\nt stdout F a\n", strings.Repeat("x", 101) + "\na\n"},
		{"longer in pieces", CRI, strings.Repeat("t stdout P "+strings.Repeat("x", 60)+"\n", 5) + "t stdout F y\nt stdout F a\n", strings.Repeat("x", 101) + "\na\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
				got, err := io.ReadAll(tt.c.Reader(r, 100))
				must(t, err)
				if string(got) != tt.want {
					t.Errorf("got %q, want %q", shorten(string(got)), shorten(tt.want))
				}
			}
		})
	}
	bad := errors.New("bad disk")
	r := io.MultiReader(strings.NewReader("t stdout F a\n"), iotest.ErrReader(bad))
	if got, err := io.ReadAll(CRI.Reader(r, 100)); !errors.Is(err, bad) || string(got) != "a\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
