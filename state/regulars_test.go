package state

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func someRegulars() *Regulars {
	return &Regulars{
		Clients: []Regular{
			{netip.MustParsePrefix("203.0.113.1/32"), 20_000, 0b1011, 19_000, 28_800_000, false},
			{netip.MustParsePrefix("2001:db8:1:2::/64"), 65_535, 65_535, 0, 1, true},
		},
		Logs: []LogMajority{{"site", netip.MustParseAddr("10.0.0.5"), 20_000, 7}, {"", netip.MustParseAddr("2001:db8::5"), 0, 1}},
	}
}

func TestRegularsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "regulars.snap")
	if r, err := LoadRegulars(path); r != nil || err != nil {
		t.Fatalf("without a file: %v, %v", r, err)
	}
	for _, want := range []*Regulars{someRegulars(), {}} {
		if err := SaveRegulars(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := LoadRegulars(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("came back as\n%+v, %v, want\n%+v", got, err, want)
		}
	}
}

// Whatever is in the file, it is read whole or not at all.
func TestDamagedRegulars(t *testing.T) {
	var b bytes.Buffer
	if err := writeRegulars(&b, someRegulars()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "regulars.snap")
	for i := range b.Len() {
		damaged := bytes.Clone(b.Bytes())
		damaged[i] ^= 0x55
		for _, data := range [][]byte{damaged, b.Bytes()[:i]} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := LoadRegulars(path); err == nil {
				t.Fatalf("damage at byte %d is read as %+v", i, r)
			}
		}
	}
}

func FuzzRegulars(f *testing.F) {
	var b bytes.Buffer
	if err := writeRegulars(&b, someRegulars()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes()[:b.Len()-sumLen])
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newSummed(new(bytes.Buffer))
		s.buf = append(s.buf, body...)
		s.flush()
		r, err := decodeRegulars(s.sum.Sum(bytes.Clone(body)))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeRegulars(&again, r); err != nil {
			t.Fatal(err)
		}
		back, err := decodeRegulars(again.Bytes())
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%+v comes back as %+v, %v", r, back, err)
		}
	})
}
