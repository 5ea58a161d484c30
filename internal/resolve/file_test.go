package resolve

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A restart without DNS still knows the last good addresses, of the names
// that are still asked for.
func TestRestartWithoutDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1", "2001:db8::1")
		dns.set("b.example", "192.0.2.2")
		o := options(t, dns, log, "a.example", "b.example")
		start(t, dns, o, log).stop()
		if info, err := os.Stat(o.File); err != nil || info.Mode() != 0o600 {
			t.Errorf("file: %v, %v; want one that only its owner reads", info, err)
		}

		dead := newDNS()
		o.Names, o.Lookup = []string{"c.example", "a.example"}, dead.lookup
		r := start(t, dead, o, log)
		pass(time.Hour)
		r.want("as nothing has changed")
		if got, want := text(r.Known()), "a.example=[192.0.2.1 2001:db8::1]"; got != want {
			t.Errorf("known: %s, want %s", got, want)
		}
		r.stop()

		o.Names = []string{"b.example"}
		if h := New(o); h.Load() != nil || len(h.Known()) != 0 {
			t.Errorf("a name that was given up is still stored: %v", h.Known())
		}
		if left, err := filepath.Glob(o.File + "?*"); err != nil || left != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

func TestFileIsWrittenOnlyForChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1")
		o := options(t, dns, log, "a.example")
		r := start(t, dns, o, log)
		if err := os.Remove(o.File); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if _, err := os.Stat(o.File); !os.IsNotExist(err) {
			t.Errorf("written without a change: %v", err)
		}
		dns.set("a.example", "192.0.2.2")
		pass(longest)
		if _, err := os.Stat(o.File); err != nil {
			t.Errorf("not written after a change: %v", err)
		}
		r.stop()
	})
}

func TestFileThatCanNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, log := newDNS(), &journal{}
		dns.set("a.example", "192.0.2.1")
		o := options(t, dns, log, "a.example")
		folder := filepath.Join(t.TempDir(), "not yet")
		o.File = filepath.Join(folder, "hosts.json")
		r := start(t, dns, o, log)
		r.want("although nothing can be stored", "a.example=[192.0.2.1]")
		pass(time.Hour)
		r.said(1, "can't be stored")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		pass(longest)
		r.said(1, "are stored again")
		r.stop()
		if h := New(o); h.Load() != nil || text(h.Known()) != "a.example=[192.0.2.1]" {
			t.Errorf("stored: %v", h.Known())
		}
	})
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct{ name, file, want, err string }{
		{"good", `[{"name":"a.example","addresses":["2001:db8::1","192.0.2.1"]}]`, "a.example=[192.0.2.1 2001:db8::1]", ""},
		{"none of ours", `[{"name":"b.example","addresses":["192.0.2.1"]}]`, "", ""},
		{"untidy", `[{"name":"a.example","addresses":["::ffff:192.0.2.1","192.0.2.1","fe80::1%x",""]}]`, "a.example=[192.0.2.1]", ""},
		{"cut off", `[{"name":"a.exa`, "", "unexpected end of JSON input"},
		{"empty", "", "", "unexpected end of JSON input"},
		{"no address", `[{"name":"a.example","addresses":["x"]}]`, "", "ParseAddr"},
		{"large", strings.Repeat(" ", maxFile+1), "", "is larger than 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hosts.json")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			h := New(Options{Names: []string{"a.example"}, File: path})
			err := h.Load()
			if got := text(h.Known()); got != tt.want {
				t.Errorf("known: %s, want %s", got, tt.want)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
	if err := New(Options{File: filepath.Join(t.TempDir(), "none")}).Load(); err != nil {
		t.Errorf("no file: %v", err)
	}
}

// FuzzDecode checks that whatever a file holds, what is taken from it is what
// Host promises, and survives being written.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`[]`, `[{"name":"a.example","addresses":["192.0.2.1","::ffff:1.2.3.4","fe80::1%x"]}]`, `[{"addresses":null},{}]`, `{`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		hosts, err := decode(data)
		if err != nil {
			return
		}
		for _, h := range hosts {
			if !slices.Equal(tidy(h.Addresses), h.Addresses) || len(h.Addresses) > MaxAddresses {
				t.Errorf("untidy: %v", h)
			}
		}
		text, err := encode(hosts)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(text)
		if err != nil || len(again) != len(hosts) {
			t.Fatalf("written and read again: %v, %v; want %v", again, err, hosts)
		}
		for i := range hosts {
			if again[i].Name != hosts[i].Name || !slices.Equal(again[i].Addresses, hosts[i].Addresses) {
				t.Errorf("written and read again: %v, want %v", again[i], hosts[i])
			}
		}
	})
}
