package guard

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// record is a record of utmp as sshd writes it, changed by edits.
type record struct {
	kind int16
	pid  int32
	line string
	host string
	addr string
}

func (r record) bytes(l utmpLayout) []byte {
	b := make([]byte, l.size)
	binary.NativeEndian.PutUint16(b, uint16(r.kind))
	binary.NativeEndian.PutUint32(b[4:], uint32(r.pid))
	copy(b[8:40], r.line)
	copy(b[44:76], "ann")
	copy(b[76:332], r.host)
	if r.addr != "" {
		copy(b[l.addr:], netip.MustParseAddr(r.addr).AsSlice())
	}
	return b
}

func TestReadUtmp(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    record
		want string
	}{
		{"sshd", record{7, 4711, "pts/0", "203.0.113.5", "203.0.113.5"}, "203.0.113.5"},
		{"IPv6", record{7, 4711, "pts/0", "", "2001:db8:1::5"}, "2001:db8:1::5"},
		{"mapped", record{7, 4711, "pts/0", "", "::ffff:203.0.113.5"}, "203.0.113.5"},
		{"UseDNS: the name doesn't matter", record{7, 4711, "pts/12", "client.example.net", "203.0.113.5"}, "203.0.113.5"},
		{"a host without an address, as of utempter", record{7, 4711, "pts/0", "203.0.113.5", ""}, ""},
		{"local", record{7, 4711, "tty1", "", ""}, ""},
		{"no terminal, as of an FTP server", record{7, 4711, "ftpd4711", "", "203.0.113.5"}, ""},
		{"ended", record{8, 4711, "pts/0", "", "203.0.113.5"}, ""},
		{"about to log in", record{6, 4711, "pts/0", "", "203.0.113.5"}, ""},
		{"no process", record{7, 0, "pts/0", "", "203.0.113.5"}, ""},
		{"all processes", record{7, -1, "pts/0", "", "203.0.113.5"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, l := range []utmpLayout{{384, 348}, {400, 360}} {
				boot := record{2, 0, "~", "6.1.0", ""}.bytes(l)
				var got []string
				for _, x := range readUtmp(slices.Concat(boot, tt.r.bytes(l))) {
					got = append(got, x.from.String())
					if x.pid != 4711 {
						t.Errorf("process %d", x.pid)
					}
				}
				if strings.Join(got, " ") != tt.want {
					t.Errorf("records of %d bytes: got %q, want %q", l.size, got, tt.want)
				}
			}
		})
	}
}

func TestUtmpLayout(t *testing.T) {
	for _, tt := range []struct {
		size int
		arch string
		want int
	}{
		{384, "arm64", 384}, {400, "amd64", 400}, {9600, "amd64", 384}, {9600, "arm64", 400},
		{500, "amd64", 384}, {500, "arm64", 400}, {0, "amd64", 384},
	} {
		if got := layoutOf(tt.size, tt.arch).size; got != tt.want {
			t.Errorf("%d bytes on %s: records of %d bytes, want %d", tt.size, tt.arch, got, tt.want)
		}
	}
}

// A record that is not written to its end yet isn't read.
func TestUtmpCutOff(t *testing.T) {
	r := record{7, 4711, "pts/0", "", "203.0.113.5"}.bytes(utmpLayout{384, 348})
	data := slices.Concat(r, r, r[:383])
	if got := len(readUtmp(data)); got > 2 {
		t.Errorf("%d sessions in two records and a half", got)
	}
}

func FuzzUtmp(f *testing.F) {
	f.Add(record{7, 4711, "pts/0", "", "203.0.113.5"}.bytes(utmpLayout{384, 348}))
	f.Add(record{7, 4711, "pts/0", "", "2001:db8::5"}.bytes(utmpLayout{400, 360}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := readUtmp(data)
		if len(got) > len(data)/384 {
			t.Errorf("%d sessions in %d bytes", len(got), len(data))
		}
		for _, l := range got {
			if !l.from.IsValid() || l.from.Is4In6() || l.pid <= 0 {
				t.Errorf("got %+v", l)
			}
		}
	})
}
