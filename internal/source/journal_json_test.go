package source

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestJournalEntries(t *testing.T) {
	tests := []struct {
		name, in string
		want     string // message, or an error
		cursor   string
	}{
		{"text", `{"__CURSOR":"s=1","MESSAGE":"hello"}`, "hello", "s=1"},
		{"cursor last", `{"MESSAGE":"hello","_PID":"7","__CURSOR":"s=1"}`, "hello", "s=1"},
		{"spaces", ` { "__CURSOR" : "c" , "MESSAGE" : "m" } `, "m", "c"},
		{"escapes", `{"__CURSOR":"c","MESSAGE":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, "\"\\/\b\f\n\r\té😀", "c"},
		{"half a pair", `{"__CURSOR":"c","MESSAGE":"\ud83dx\ud83d\u0041"}`, "\ufffdx\ufffdA", "c"},
		{"bytes", `{"__CURSOR":"c","MESSAGE":[104,105,255,0,10]}`, "hi\xff\x00\n", "c"},
		{"bytes with spaces", `{"__CURSOR":"c","MESSAGE":[ 104 , 105 ]}`, "hi", "c"},
		{"no bytes", `{"__CURSOR":"c","MESSAGE":[]}`, "", "c"},
		{"several", `{"__CURSOR":"c","MESSAGE":["first","second"]}`, "first", "c"},
		{"several, the first too long", `{"__CURSOR":"c","MESSAGE":[null,[104,105],"x"]}`, "hi", "c"},
		{"null", `{"__CURSOR":"c","MESSAGE":null}`, "none", "c"},
		{"none", `{"__CURSOR":"c"}`, "none", "c"},
		{"other kinds", `{"A":{"MESSAGE":"inner"},"B":[[1],{}],"C":1.5e3,"D":true,"__CURSOR":"c","MESSAGE":"m"}`, "m", "c"},
		{"a key as a value", `{"A":"MESSAGE","__CURSOR":"c","MESSAGE":"m"}`, "m", "c"},
		{"no cursor", `{"MESSAGE":"m"}`, "error", ""},
		{"empty cursor", `{"__CURSOR":"","MESSAGE":"m"}`, "error", ""},
		{"cursor without end", `{"__CURSOR":"` + strings.Repeat("x", maxJournalCursor+1) + `","MESSAGE":"m"}`, "error", ""},
		{"no entries", `-- No entries --`, "error", ""},
		{"not a byte", `{"__CURSOR":"c","MESSAGE":[256]}`, "error", ""},
		{"bytes and text", `{"__CURSOR":"c","MESSAGE":[1,"x"]}`, "error", ""},
		{"ends early", `{"__CURSOR":"c","MESSAGE":"m`, "error", ""},
		{"more behind it", `{"__CURSOR":"c","MESSAGE":"m"} x`, "m", "c"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const good = `{"__CURSOR":"next","MESSAGE":"next"}` + "\n"
			j := newJournalReader(iotest.OneByteReader(strings.NewReader(tt.in+"\n"+good)), 100)
			err := j.next()
			got := string(j.message.buf)
			switch {
			case errors.Is(err, errRecord):
				got = "error"
			case err != nil:
				t.Fatal(err)
			case !j.has:
				got = "none"
			}
			if got != tt.want || err == nil && string(j.cursor.buf) != tt.cursor {
				t.Errorf("message %q, cursor %q; want %q, %q", got, j.cursor.buf, tt.want, tt.cursor)
			}
			// Whatever it was, the entry behind it is read.
			if err := j.next(); err != nil || string(j.message.buf) != "next" {
				t.Errorf("behind it: %v, %q", err, j.message.buf)
			}
			if err := j.next(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// An entry takes no more memory than the limit, however it is written.
func TestJournalEntryIsBounded(t *testing.T) {
	const size = 3 << 20
	for name, in := range map[string]io.Reader{
		"text":  io.MultiReader(strings.NewReader(`{"MESSAGE":"`), io.LimitReader(endless("x"), size), strings.NewReader(`","__CURSOR":"c"}`+"\n")),
		"bytes": io.MultiReader(strings.NewReader(`{"MESSAGE":[1`), io.LimitReader(endless(",65"), size/3*3), strings.NewReader(`],"__CURSOR":"c"}`+"\n")),
		"other": io.MultiReader(strings.NewReader(`{"X":"`), io.LimitReader(endless("x"), size), strings.NewReader(`","MESSAGE":"m","__CURSOR":"c"}`+"\n")),
	} {
		j := newJournalReader(in, 1000)
		if err := j.next(); err != nil || string(j.cursor.buf) != "c" {
			t.Errorf("%s: %v, cursor %q", name, err, j.cursor.buf)
		}
		if name != "other" && (len(j.message.buf) != 1000 || !j.message.over) {
			t.Errorf("%s: %d bytes, more: %v", name, len(j.message.buf), j.message.over)
		}
		if c := cap(j.message.buf) + cap(j.key.buf) + cap(j.cursor.buf); c > 8<<10 {
			t.Errorf("%s: takes %d bytes", name, c)
		}
	}
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	n := len(p) / len(e) * len(e)
	for i := 0; i < n; i += len(e) {
		copy(p[i:], e)
	}
	return n, nil
}

// What encoding/json understands is read as it does; nothing makes two entries
// of one line.
func FuzzJournalEntry(f *testing.F) {
	for _, s := range []string{
		`{"__CURSOR":"s=1","MESSAGE":"a\nb"}`, `{"MESSAGE":[1,2,3],"__CURSOR":"c"}`, `{"MESSAGE":["a",null],"__CURSOR":"c"}`,
		`{"__CURSOR":"c","MESSAGE":"\ud83d\ud83d\ude00"}`, `{"a":{"b":[1,{"c":"]"}]},"__CURSOR":"c"}`, `{`, `[]`, `{"__CURSOR":"c","MESSAGE":[[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if strings.ContainsAny(string(in), "\n") {
			return
		}
		j := newJournalReader(strings.NewReader(string(in)+"\n"), 1<<20)
		err := j.next()
		if end := j.next(); end != io.EOF {
			t.Fatalf("after %v there is another entry, or %v", err, end)
		}
		j = newJournalReader(strings.NewReader(string(in)+"\n"), 1<<20)
		err = j.next()
		var want struct {
			Cursor  *string `json:"__CURSOR"`
			Message *string `json:"MESSAGE"`
		}
		// Keys that differ in case, or are there twice, are no journal's.
		if !utf8.Valid(in) || strings.Count(strings.ToUpper(string(in)), "MESSAGE")+strings.Count(strings.ToUpper(string(in)), "__CURSOR") > 2 ||
			strings.Contains(string(in), `\u`) && strings.Contains(string(in), `__`) && !strings.Contains(string(in), `"MESSAGE"`) ||
			json.Unmarshal(in, &want) != nil || want.Cursor == nil || want.Message == nil ||
			!strings.Contains(string(in), `"__CURSOR"`) || !strings.Contains(string(in), `"MESSAGE"`) ||
			*want.Cursor == "" || len(*want.Cursor) > maxJournalCursor {
			return
		}
		if err != nil || !j.has || string(j.message.buf) != *want.Message || string(j.cursor.buf) != *want.Cursor {
			t.Fatalf("%s: %v, %q, %q; want %q, %q", in, err, j.message.buf, j.cursor.buf, *want.Message, *want.Cursor)
		}
	})
}
