package prove

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/syncbuf"
)

func (p *Prover) proves(client string, name string) {
	p.count(&detector.Answer{Question: question(client), Result: detector.Proved, Names: []string{name}, Until: time.Now().Add(ProvedFor).UnixNano()})
}

func loaded(t *testing.T, o Options) string {
	list, err := New(o).Load()
	if err != nil {
		t.Error(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, fmt.Sprintf("%s %s %v", a.Client, say(a), time.Duration(a.Until-time.Now().UnixNano())))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// A restart knows who is proved, for as long as that holds. Who was disproved
// since is not.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &syncbuf.Buffer{}
		o := options(t, nil, log)
		p := New(o)
		stop := running(t, p)
		p.proves("192.0.2.1", "a.googlebot.com")
		p.proves("2001:db8::1", "b.googlebot.com")
		p.proves("192.0.2.3", "c.googlebot.com")
		<-time.After(saveEvery)
		synctest.Wait()
		p.count(&detector.Answer{Question: question("192.0.2.3"), Result: detector.Disproved})
		stop()
		if got, want := loaded(t, o), "192.0.2.1 proved a.googlebot.com 23h59m0s; 2001:db8::1 proved b.googlebot.com 23h59m0s"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if info, err := os.Stat(o.File); err != nil || info.Mode() != 0o600 {
			t.Errorf("file: %v, %v; want one that only its owner reads", info, err)
		}
		<-time.After(ProvedFor)
		if got := loaded(t, o); got != "" {
			t.Errorf("a day later: %s", got)
		}
		if log.String() != "" {
			t.Errorf("said without need: %s", log)
		}
	})
}

func TestFileIsWrittenOnlyForChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &syncbuf.Buffer{}
		o := options(t, nil, log)
		folder := filepath.Dir(o.File)
		o.File = filepath.Join(folder, "not yet", "proved.json")
		p := New(o)
		stop := running(t, p)
		<-time.After(time.Hour)
		p.proves("192.0.2.1", "a.googlebot.com")
		<-time.After(time.Hour)
		synctest.Wait()
		if n := strings.Count(log.String(), "can't be stored"); n != 1 {
			t.Errorf("said %d times that it can't be stored:\n%s", n, log)
		}
		if err := os.Mkdir(filepath.Dir(o.File), 0o700); err != nil {
			t.Fatal(err)
		}
		<-time.After(saveEvery)
		synctest.Wait()
		if !strings.Contains(log.String(), "is stored again") || loaded(t, o) == "" {
			t.Errorf("not stored when it could be:\n%s", log)
		}
		if err := os.Remove(o.File); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		stop()
		if _, err := os.Stat(o.File); !os.IsNotExist(err) {
			t.Errorf("written without a change: %v", err)
		}
	})
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := func(client, name string, until time.Duration) string {
			return fmt.Sprintf(`{"client":%q,"names":[%s],"until":%q}`, client, name, time.Now().Add(until).Format(time.RFC3339))
		}
		for _, tt := range []struct{ name, file, want, err string }{
			{"good", "[" + entry("192.0.2.1", `"a.x"`, time.Hour) + "]", "192.0.2.1 proved a.x 1h0m0s", ""},
			{"over", "[" + entry("192.0.2.1", `"a.x"`, -time.Hour) + "]", "", ""},
			{"of a clock that was ahead", "[" + entry("192.0.2.1", `"a.x"`, 999*time.Hour) + "]", "192.0.2.1 proved a.x 24h0m0s", ""},
			{"no names, no address, none that could be", "[" + entry("192.0.2.1", ``, time.Hour) + "," + entry("", `"a"`, time.Hour) + "," + entry("::ffff:192.0.2.1", `"a"`, time.Hour) + "," +
				entry("fe80::1%x", `"a"`, time.Hour) + "," + entry("192.0.2.9", `"a\u001b[2J"`, time.Hour) + "]", "", ""},
			{"cut off", `[{"client":`, "", "unexpected end of JSON input"},
			{"empty", "", "", "unexpected end of JSON input"},
			{"large", strings.Repeat(" ", maxFile+1), "", "is larger than 16 MiB"},
		} {
			o := options(t, nil, &syncbuf.Buffer{})
			if err := os.WriteFile(o.File, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.err != "" {
				if list, err := New(o).Load(); err == nil || !strings.Contains(err.Error(), tt.err) || list != nil {
					t.Errorf("%s: %v, %v", tt.name, list, err)
				}
				continue
			}
			if got := loaded(t, o); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
		}
		if got := loaded(t, options(t, nil, nil)); got != "" {
			t.Errorf("no file: %s", got)
		}
	})
}

// However many prove it, those that end soonest make room.
func TestProvedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(options(t, nil, &syncbuf.Buffer{}))
		for i := range 3 * detector.MaxProved {
			if i%100 == 0 {
				<-time.After(time.Second)
			}
			p.proves(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(), "a.googlebot.com")
			if len(p.proved) > 2*detector.MaxProved {
				t.Fatalf("%d are kept", len(p.proved))
			}
		}
		list := p.list(time.Now())
		if len(list) != detector.MaxProved || list[0].Until.Before(time.Now().Add(ProvedFor-time.Second)) {
			t.Errorf("%d are stored, the first until %v", len(list), list[0].Until)
		}
	})
}

// FuzzDecode checks that whatever a file holds, what is taken from it could be an
// answer, and survives being written.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`[]`, `[{"client":"192.0.2.1","names":["a.b"],"until":"2026-03-05T10:00:00Z"}]`, `[{"names":null},{}]`, `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decode(data)
		if err != nil {
			return
		}
		text, err := encode(list)
		if err != nil {
			t.Skip(err) // a year that JSON can't have
		}
		again, err := decode(text)
		if err != nil || len(again) != len(list) {
			t.Fatalf("written and read again: %v, %v; want %v", again, err, list)
		}
	})
}
