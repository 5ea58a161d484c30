package state

import (
	"bytes"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// someWindows has a bit of everything.
func someWindows() *Windows {
	return &Windows{
		Taken: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Mark: 1 << 60,
		Allowed: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::1/128")},
		Positions: []Position{
			{Log: "site", Path: "/var/log/a.log", Dev: 1, Ino: 1 << 63, Offset: 1 << 40, Head: "abc", HeadLen: 1024},
			{Log: "shop", Path: "/var/log/\ufffd", Offset: 0},
		},
		Rules: []string{"one", ""},
		Rule:  []uint16{0, 1, 1, 0},
		Hi:    []uint64{0, 0x20010db8 << 32, 0x20010db8 << 32, 0},
		Lo:    []uint64{mapped | 0xcb007101, 0, 7, mapped | 1},
		Bits:  []uint8{128, 64, 128, 120},
		Flags: []uint8{0, 1, 2, 15},
		Late:  []uint32{0, 300, 0, 1},
		Room:  []uint32{4, 1, 0, 2_000_000_000},
		Count: []uint32{3, 1, 0, 2},
		Times: []int64{1e18, 1e18, 1e18 + 5e9, 0, -7e9, math.MaxInt64 / 1e9 * 1e9},
		Bans: []WindowBan{
			{netip.MustParsePrefix("203.0.113.1/32"), "", math.MaxInt64},
			{netip.MustParsePrefix("2001:db8::/32"), "one", math.MinInt64},
		},
		Offences: []WindowOffence{
			{"web", netip.MustParsePrefix("203.0.113.0/24"), true, 3, 5},
			{"", netip.MustParsePrefix("2001:db8::1/128"), false, 0, -5},
		},
		Traffic: []LogTraffic{
			{Log: "site", Began: time.Date(2026, 2, 3, 4, 0, 0, 7, time.UTC), Day: 20_487,
				Now:   Tally{Lines: 7, Heavy: []Heavy{{netip.MustParseAddr("10.0.0.5"), 5}}, Few: []netip.Addr{netip.MustParseAddr("2001:db8::1")}},
				Today: Tally{Lines: 1 << 60, Edges: []netip.Addr{netip.MustParseAddr("172.64.1.1")}}, Graces: []Grace{{netip.MustParseAddr("203.0.113.9"), time.Unix(7, 0).UTC()}}},
			{},
		},
	}
}

func encoded(t testing.TB, w *Windows) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeWindows(&b, w); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWindowsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "windows.snap")
	if w, err := LoadWindows(path); w != nil || err != nil {
		t.Fatalf("without a file: %v, %v", w, err)
	}
	want := someWindows()
	for range 2 { // also in the place of another
		if err := SaveWindows(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := LoadWindows(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("came back as\n%+v, want\n%+v", got, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	if left, _ := filepath.Glob(path + ".*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// Any windows come back, in any unit, also more than one buffer of them.
func TestAnyWindowsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &Windows{Taken: time.Unix(5, 0).UTC(), Rules: []string{"a", strings.Repeat("b", rapid.IntRange(0, 200_000).Draw(t, "text"))}}
		unit := rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9}).Draw(t, "unit")
		n := rapid.IntRange(0, 50).Draw(t, "windows") * rapid.SampledFrom([]int{1, 100}).Draw(t, "times")
		w.Rule, w.Hi, w.Lo, w.Bits = make([]uint16, n), make([]uint64, n), make([]uint64, n), make([]uint8, n)
		w.Flags, w.Late, w.Room, w.Count, w.Times = make([]uint8, n), make([]uint32, n), make([]uint32, n), make([]uint32, n), []int64{}
		times := rapid.SliceOfN(rapid.Int64Range(-1e18, 1e18), 1, 4).Draw(t, "first")
		for i := range n {
			w.Rule[i] = uint16(i % 2)
			w.Hi[i], w.Lo[i], w.Bits[i] = uint64(i%3)<<40, uint64(i)<<(i%50), uint8(64+i%65)
			w.Late[i], w.Room[i], w.Flags[i] = uint32(i*i), uint32(2*i), uint8(i%16)
			at := times[i%len(times)] / unit * unit
			for range i % 7 {
				w.Times = append(w.Times, at)
				w.Count[i]++
				at += int64(i%5) * unit
			}
		}
		got, err := decodeWindows(encoded(&testing.T{}, w))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("came back as\n%+v, want\n%+v", got, w)
		}
	})
}

// A file that isn't whole, or not ours, is an error that says why, whatever
// byte of it is wrong.
func TestDamagedWindowsAreRefused(t *testing.T) {
	good := encoded(t, someWindows())
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, err := decodeWindows(bad); err == nil {
			t.Errorf("byte %d was changed, and nobody noticed", i)
		}
		if _, err := decodeWindows(good[:i]); err == nil {
			t.Errorf("cut at %d, and nobody noticed", i)
		}
	}
	newer := bytes.Clone(good)
	newer[len(windowsMagic)]++
	for _, tt := range []struct {
		data []byte
		want string
	}{
		{newer, "version is 4, this tailban knows 3"},
		{append(bytes.Clone(good), 0), "checksum"},
		{nil, "no file of windows"},
		{[]byte("SQLite format 3\x00and more"), "no file of windows"},
	} {
		path := filepath.Join(t.TempDir(), "windows.snap")
		if err := os.WriteFile(path, tt.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadWindows(path); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
		if err := SaveWindows(path, someWindows()); err != nil {
			t.Errorf("can't be replaced: %v", err)
		}
	}
}

func TestWindowsThatCantBeSavedOrRead(t *testing.T) {
	dir := t.TempDir()
	if err := SaveWindows(filepath.Join(dir, "missing", "windows.snap"), someWindows()); err == nil {
		t.Error("saved into a folder that isn't there")
	}
	path := filepath.Join(dir, "windows.snap")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadWindows(path); err == nil {
		t.Error("read a folder")
	}
	if err := SaveWindows(path, someWindows()); err == nil {
		t.Error("replaced a folder")
	}
	if left, _ := filepath.Glob(path + ".*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadWindows(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("followed a link: %v", err)
	}
}

// Whatever the bytes, if their checksum is right: no panic, no more memory than
// some times their length, and what is read is what is written again.
func FuzzWindows(f *testing.F) {
	good := encoded(f, someWindows())
	f.Add(good[:len(good)-sumLen])
	f.Add(append([]byte(windowsMagic), 2, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newSummed(new(bytes.Buffer))
		s.buf = append(s.buf, body...)
		s.flush()
		w, err := decodeWindows(s.sum.Sum(bytes.Clone(body)))
		if err != nil {
			return
		}
		if n := cap(w.Rule) + cap(w.Times); n > len(body) {
			t.Fatalf("room for %d values from %d bytes", n, len(body))
		}
		again, err := decodeWindows(encoded(t, w))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, w) {
			t.Fatalf("came back as\n%+v, want\n%+v", again, w)
		}
	})
}
