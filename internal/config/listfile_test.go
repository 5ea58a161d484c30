package config

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// putList writes a file of addresses.
func putList(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestListFiles(t *testing.T) {
	path := putList(t, "\ufeff# monitors\r\n203.0.113.7\r\n\r\n  2001:db8::/48\t# office\n#203.0.113.8\n::ffff:192.0.2.0/120\n203.0.113.7/32\n198.51.100.1")
	want := prefixes("203.0.113.7/32", "2001:db8::/48", "192.0.2.0/24", "198.51.100.1/32")
	entry := fmt.Sprintf("[\"203.0.113.7\", \"file:%s\"]", path)
	c := accept(t, "allow = "+entry+"\ntrusted_proxies = "+entry+"\n"+base+"[deny]\nban = \"1d\"\nfrom = "+entry+"\n")
	for name, got := range map[string][]netip.Prefix{"allow": c.Allow, "trusted_proxies": c.TrustedProxies, "deny.from": c.Deny.From} {
		if got[0] != want[0] || !slices.Equal(got[1:], want) {
			t.Errorf("%s is %v, want %v behind the first", name, got, want)
		}
	}
	today := time.Now().UTC().Format(time.DateOnly)
	lists := []List{{"trusted_proxies", path, 4, today}, {"allow", path, 4, today}, {"deny.from", path, 4, today}}
	if diff := cmp.Diff(lists, c.Lists); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBadListFiles(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string // P stands for the path
	}{
		{"lines", "203.0.113.7\n\n203.0.113.300 # no\r\n10.0.0.1/8\n0.0.0.0/0\n192.0.2.1:80\nfe80::1%eth0\noffice.example.net\ncloudflare\nfile:/x\n10.0.0.0/7\n\x1b[1m", `P:3: allow = "203.0.113.300": must be an address or a range like "10.0.0.0/8"
P:4: allow = "10.0.0.1/8": has bits set behind the mask, is "10.0.0.0/8" meant?
P:5: allow = "0.0.0.0/0": is every address there is
P:6: allow = "192.0.2.1:80": must be an address without a port
P:7: allow = "fe80::1%eth0": addresses with a zone are not supported
P:8: allow = "office.example.net": host names stand in the configuration itself: a file holds addresses and ranges
P:9: allow = "cloudflare": must be an address or a range like "10.0.0.0/8"
P:10: allow = "file:/x": must be an address or a range like "10.0.0.0/8"
P:11: allow = "10.0.0.0/7": is too wide: /8 at most
P:12: allow = "\x1b[1m": must be an address or a range like "10.0.0.0/8"`},
		{"large", strings.Repeat("#", maxListFile) + "\n", `jails.toml:1: allow = V: is larger than 1MiB`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := putList(t, tt.text)
			want := strings.ReplaceAll(strings.ReplaceAll(tt.want, "V", render(filePrefix+path)), "P", path)
			check(t, fmt.Sprintf("allow = \"file:%s\"\n%s", path, base), nil, want)
		})
	}
}

// A file at its limits is taken, and one entry more is not.
func TestListFileLimits(t *testing.T) {
	var b bytes.Buffer
	for i := range maxListEntries {
		fmt.Fprintf(&b, "%d.%d.%d.%d\n", 1+i%9, i/9%100, i/900%100, 1+i/90_000) // short: they must fit
	}
	path := putList(t, b.String())
	doc := fmt.Sprintf("allow = \"file:%s\"\n%s", path, base)
	if n := len(accept(t, doc).Allow); n != maxListEntries {
		t.Errorf("%d entries, want %d", n, maxListEntries)
	}
	b.WriteString("192.0.2.1\n")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, doc, nil, fmt.Sprintf("jails.toml:1: allow = %s: has 20001 addresses and ranges: 20000 at most\njails.toml:1: allow: has 20001 addresses and ranges: 20000 at most", render(filePrefix+path)))
}

// Of very many bad lines the first are told, and how many more there are.
func TestManyBadLines(t *testing.T) {
	path := putList(t, "203.0.113.7\n"+strings.Repeat("x\n", 1000))
	_, err := Parse("jails.toml", fmt.Appendf(nil, "allow = \"file:%s\"\n%s", path, base), nil)
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxListProblems+1 {
		t.Fatalf("%d problems, want %d", len(lines), maxListProblems+1)
	}
	if got, want := lines[maxListProblems], path+":102: allow: from here on 900 more lines are bad"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWritableListFile(t *testing.T) {
	path := putList(t, "203.0.113.7\n")
	for mode, want := range map[os.FileMode]string{
		0o660: "",
		0o666: fmt.Sprintf("jails.toml:1: allow = %s: anybody can write to this file: chmod o-w takes that away", render(filePrefix+path)),
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, err := Parse("jails.toml", fmt.Appendf(nil, "allow = \"file:%s\"\n%s", path, base), nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("mode %v: got %q, want %q", mode, got, want)
		}
	}
}

// A pipe that nobody writes to must not keep a daemon from starting.
func TestPipeAsListFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no pipe can be made here: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Parse("jails.toml", fmt.Appendf(nil, "allow = \"file:%s\"\n%s", path, base), nil)
		done <- err
	}()
	select {
	case err := <-done:
		if want := fmt.Sprintf("jails.toml:1: allow = %s: is no regular file", render(filePrefix+path)); fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("waits for somebody to write to the pipe")
	}
}

func TestWideRangeInAListFile(t *testing.T) {
	path := putList(t, "192.0.2.1\n10.0.0.0/8\n")
	c := accept(t, fmt.Sprintf("allow = \"file:%s\"\n%s%s[deny]\nban = \"1d\"\nfrom = \"11.0.0.0/8\"\n", path, base, fw))
	got := ""
	for _, w := range c.Warnings() {
		got += w.String() + "\n"
	}
	if want := path + ":2: allow: 10.0.0.0/8 is wide: nobody in it is ever banned\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What publishers offer for download is taken as it is, with its date.
func TestPublishedListFiles(t *testing.T) {
	path := putList(t, `{
  "creationTime": "2026-10-09T14:46:27.000000",
  "prefixes": [
    {"ipv6Prefix": "2001:db8:10::/64"},
    {"ipv4Prefix": "203.0.113.0/27"}
  ]
}`)
	c := accept(t, fmt.Sprintf("allow = \"file:%s\"\n%s", path, base))
	if want := prefixes("2001:db8:10::/64", "203.0.113.0/27"); !slices.Equal(c.Allow, want) {
		t.Errorf("got %v, want %v", c.Allow, want)
	}
	if want := (List{"allow", path, 2, "2026-10-09"}); c.Lists[0] != want {
		t.Errorf("got %+v, want %+v", c.Lists[0], want)
	}
	for text, want := range map[string]string{
		"{\"prefixes\": [\n{\"ipv4Prefix\": \"0.0.0.0/0\"}, {\"ipv6Prefix\": \"2001::/8\"},\n{\"ipv4Prefix\": \"x\"}]}": `P:2: allow = "0.0.0.0/0": is every address there is
P:2: allow = "2001::/8": is too wide: /16 at most
P:3: allow = "x": must be an address or a range like "10.0.0.0/8"`,
		"[\n\"203.0.113.7\",\n": "P:2: allow: is no valid JSON: it ends too early",
		"{\"prefixes\": [{\"ipv4Prefix\": \"203.0.113.0/27\"},\n{\"ip\": \"203.0.113.32/27\"}]}": "P:2: allow: one of its prefixes has neither ipv4Prefix nor ipv6Prefix",
		"{\"error\": \"not found\"}": `P: allow: has no ranges in a form that is known here: {"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}, ["192.0.2.0/24"], or as Cloudflare, Fastly or Pingdom write them`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, fmt.Sprintf("allow = \"file:%s\"\n%s", path, base), nil, strings.ReplaceAll(want, "P:", path+":"))
	}
}

// A download that failed must not empty a list; who wants it empty says so.
func TestEmptyListFiles(t *testing.T) {
	path := putList(t, "# nobody yet\n")
	entry := fmt.Sprintf("\"file:%s\"", path)
	doc := "allow = " + entry + "\ntrusted_proxies = " + entry + "\n" + base + "[deny]\nban = \"1d\"\nfrom = " + entry + "\n"
	accept(t, doc)
	for _, text := range []string{"", "\n", " \r\n\t\n", "\ufeff\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		const why = "is empty, as a download that failed leaves it: a file that shall hold no addresses yet has a comment"
		v := render(filePrefix + path)
		check(t, doc, nil, fmt.Sprintf("jails.toml:1: allow = %[1]s: %[2]s\njails.toml:2: trusted_proxies = %[1]s: %[2]s\njails.toml:11: deny.from = %[1]s: %[2]s", v, why))
	}
}

// FuzzListFile checks that a line gives at most one entry or one problem, in
// JSON all of it at most one for each two bytes, and that entries are usable as
// they are.
func FuzzListFile(f *testing.F) {
	for _, s := range []string{"203.0.113.7\n", "\ufeff# x\r\n2001:db8::/48 # y\r\nfile:/x", "::ffff:1.2.3.4/120\n10.0.0.1/8", "a.b\n\x00\n", `["203.0.113.7", "x"]`, `{"prefixes": [{"ipv4Prefix": "203.0.113.0/27"}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc := &document{name: "jails.toml", pos: &positions{}}
		entries, date := node{doc: doc}.parseList("/list", text, addressList{key: "allow", allowed: true})
		published := strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "{") ||
			strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(text, "\ufeff"), " \t\r\n"), "[")
		if date != "" && !published {
			t.Errorf("date %q", date)
		}
		last := 0
		for _, p := range doc.problems {
			if p.File != "/list" || p.Line < last || p.Line == last && !published || p.Line > 1+strings.Count(text, "\n") || p.Value == "" && !published || p.Msg == "" {
				t.Errorf("bad problem: %#v", p)
			}
			last = p.Line
		}
		for i, e := range entries {
			if !e.IsValid() || e != e.Masked() || e.Addr().Is4In6() || slices.Contains(entries[:i], e) {
				t.Errorf("bad entry: %v of %v", e, entries)
			}
		}
		lines := 1 + strings.Count(text, "\n")
		if published {
			lines = len(text)/2 + 1
		}
		if len(entries)+len(doc.problems) > lines {
			t.Errorf("%d entries and %d problems of %d lines", len(entries), len(doc.problems), lines)
		}
	})
}
