package state

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is compared here lies on the disks of users: a change needs a new
// schema version and a way to read the old one.
func TestStoredJSON(t *testing.T) {
	ban := testBan(258)
	observed := Ban{
		Target: netip.MustParsePrefix("2001:db8:1:2::/64"),
		Origin: "web2",
		Owners: []Owner{{Jail: "web", Client: netip.MustParseAddr("2001:db8:1:2::9"), Since: noon, Until: noon, Event: noon}},
	}
	explained := observed.Clone()
	explained.Owners[0].Reason, explained.Owners[0].By = "scans", "anna"
	explained.Owners[0].Limit, explained.Owners[0].Window, explained.Owners[0].Plane = 50, time.Minute, "direct"
	explained.Owners[0].Sample = &Sample{Method: "GET", Path: "/.env", Status: 404, Agent: "curl"}
	offence, position := testOffence(1), testPosition(3)
	journal := Position{Log: "nginx", Path: "journal:nginx.service", Offset: 7, Cursor: "s=1;i=2"}
	read := position
	read.Read, read.Left = 4096, 2048
	exposed := position
	exposed.Exposed = true
	finished := position
	finished.Tail, finished.TailLen, finished.Done = "9a7b", 512, true
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"ban", ban, `{"target":"198.51.1.2/32","origin":"web1","owners":[{"jail":"sign-in","client":"198.51.1.2","since":"2031-05-06T11:59:00Z","until":"2031-05-06T13:00:00Z","actions":["firewall"],"offence":1,"count":11,"event":"2031-05-06T11:58:59Z","line":{"path":"/var/log/nginx/access.log","dev":7,"ino":1152921504606846976,"offset":25800}}]}`},
		{"ban in observe mode", observed, `{"target":"2001:db8:1:2::/64","origin":"web2","owners":[{"jail":"web","client":"2001:db8:1:2::9","since":"2031-05-06T12:00:00Z","until":"2031-05-06T12:00:00Z","offence":0,"count":0,"event":"2031-05-06T12:00:00Z","line":{"path":"","dev":0,"ino":0,"offset":0}}]}`},
		{"ban explained", explained, `{"target":"2001:db8:1:2::/64","origin":"web2","owners":[{"jail":"web","client":"2001:db8:1:2::9","since":"2031-05-06T12:00:00Z","until":"2031-05-06T12:00:00Z","offence":0,"count":0,"event":"2031-05-06T12:00:00Z","line":{"path":"","dev":0,"ino":0,"offset":0},"reason":"scans","by":"anna","limit":50,"window":60000000000,"plane":"direct","sample":{"method":"GET","path":"/.env","status":404,"agent":"curl"}}]}`},
		{"pardon", testPardon(3), `{"target":"198.51.0.2/31","jail":"web","since":"2031-05-06T11:59:00Z","before":"2031-05-06T12:30:00Z","keep":"2031-05-06T13:00:00Z","reason":"our own test","by":"anna"}`},
		{"allowance", testAllowance(3), `{"target":"198.51.0.3/32","since":"2031-05-06T11:59:00Z","until":"2031-05-06T13:00:00Z","reason":"load test","by":"anna"}`},
		{"hold", testHold(1), `{"jail":"web1","since":"2031-05-06T11:59:00Z","until":"2031-05-06T13:00:00Z","reason":"sale","by":"ben"}`},
		{"hold without end", testHold(0), `{"jail":"web0","since":"2031-05-06T11:59:00Z","reason":"sale","by":"ben"}`},
		{"note", testNote(1 << 60), `{"n":1152921504606846976,"what":"decided","jail":"web","target":"198.51.0.3/32","client":"198.51.0.3","event":"2031-05-06T11:59:00Z","until":"2031-05-06T13:00:00Z","offence":2,"enforced":true,"observe":true,"allow":["198.51.0.4/32"],"disallow":["198.51.0.5/32"],"reached":[{"log":"nginx","dev":7,"ino":3,"offset":1099511627776,"anew":true,"torn":5,"left":9}]}`},
		{"note of a snapshot", Note{N: 7, What: NoteSnapshot}, `{"n":7,"what":"snapshot"}`},
		{"offence", offence, `{"jail":"web","target":"198.51.0.1/32","count":2,"last":"2031-05-06T11:00:00Z"}`},
		{"position", position, `{"log":"nginx","path":"/var/log/nginx/access.log","dev":7,"ino":3,"offset":25769803776,"head":"5f3c","head_len":512}`},
		{"position of a file that strangers could write to", exposed, `{"log":"nginx","path":"/var/log/nginx/access.log","dev":7,"ino":3,"offset":25769803776,"head":"5f3c","head_len":512,"exposed":true}`},
		{"position of a file of which some was read", read, `{"log":"nginx","path":"/var/log/nginx/access.log","dev":7,"ino":3,"offset":25769803776,"head":"5f3c","head_len":512,"read":4096,"left":2048}`},
		{"position in the journal", journal, `{"log":"nginx","path":"journal:nginx.service","dev":0,"ino":0,"offset":7,"head":"","head_len":0,"cursor":"s=1;i=2"}`},
		{"position of a finished file", finished, `{"log":"nginx","path":"/var/log/nginx/access.log","dev":7,"ino":3,"offset":25769803776,"head":"5f3c","head_len":512,"tail":"9a7b","tail_len":512,"done":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestStoredKeys(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")
	tests := []struct {
		name string
		key  []byte
		want string
	}{
		{"IPv4", appendPrefix(nil, v4), "04c000020018"},
		{"IPv6", appendPrefix(nil, v6), "0620010db800000000000000000000000040"},
		{"offence", OffenceKey{"ab", v4}.appendTo(nil), "616200" + "04c000020018"},
		{"pardon", PardonKey{"ab", v4}.appendTo(nil), "616200" + "04c000020018"},
		{"pardon of all jails", PardonKey{"", netip.MustParsePrefix("0.0.0.0/0")}.appendTo(nil), "00" + "040000000000"},
		{"allowance", allowanceKey(&Allowance{Target: v4}), "04c000020018"},
		{"hold", holdKey(&Hold{Jail: "ab"}), "6162"},
		{"note", noteKey(&Note{N: 258}), "0000000000000102"},
		{"position", PositionKey{"n", 1, 2}.appendTo(nil), "6e00" + "0000000000000001" + "0000000000000002"},
	}
	for _, tt := range tests {
		if got := hex.EncodeToString(tt.key); got != tt.want {
			t.Errorf("%s: key is %s, want %s", tt.name, got, tt.want)
		}
	}
	if got, want := hex.EncodeToString(seal("bans", []byte("k"), []byte("v"))), goldenSeal; got != want {
		t.Errorf("sealed value is %s, want %s", got, want)
	}
}

// The CRC-32C of "bans\x00kv", computed bit by bit and not with hash/crc32.
const goldenSeal = "b87eaa6f76"

func drawPrefix(t *rapid.T) netip.Prefix {
	var addr netip.Addr
	if rapid.Bool().Draw(t, "v4") {
		addr = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.ByteRange(0, 2), 4, 4).Draw(t, "addr")))
	} else {
		addr = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.ByteRange(0, 2), 16, 16).Draw(t, "addr")))
	}
	return netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(t, "bits")).Masked()
}

func TestPrefixKeysSortAndDistinguish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPrefix(t), drawPrefix(t)
		want := a.Addr().Compare(b.Addr()) // IPv4 before IPv6
		if want == 0 {
			want = a.Bits() - b.Bits()
		}
		got := bytes.Compare(appendPrefix(nil, a), appendPrefix(nil, b))
		if got < 0 != (want < 0) || got == 0 != (want == 0) {
			t.Fatalf("keys of %s and %s compare as %d, want the sign of %d", a, b, got, want)
		}
	})
}

func TestKeysOfJailsDistinguish(t *testing.T) {
	draw := func(t *rapid.T) PardonKey {
		return PardonKey{Jail: rapid.StringMatching(`[ab\x04\x06]{0,3}`).Draw(t, "jail"), Target: drawPrefix(t)}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		if same := bytes.Equal(a.appendTo(nil), b.appendTo(nil)); same != (a == b) {
			t.Fatalf("keys of %+v and %+v: equal is %v", a, b, same)
		}
	})
}

func TestUnsealNoticesEveryBit(t *testing.T) {
	key, payload := []byte("key"), []byte(`{"jail":"web"}`)
	value := seal("bans", key, payload)
	if got, err := unseal("bans", key, value); err != nil || !bytes.Equal(got, payload) {
		t.Fatalf("unseal = %q, %v", got, err)
	}
	for bit := range len(value) * 8 {
		bad := bytes.Clone(value)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := unseal("bans", key, bad); err == nil {
			t.Errorf("bit %d flipped: no error", bit)
		}
	}
	for _, other := range []struct {
		name, bucket string
		key, value   []byte
	}{
		{"other key", "bans", []byte("kez"), value},
		{"other bucket", "offences", key, value},
		{"byte moved from key to value", "bans", []byte("ke"), append([]byte("y"), value...)},
		{"short", "bans", key, value[:3]},
		{"empty", "bans", key, nil},
	} {
		if _, err := unseal(other.bucket, other.key, other.value); err == nil {
			t.Errorf("%s: no error", other.name)
		}
	}
}

// What can be read can be stored again, and comes back as it was.
func FuzzBanRecord(f *testing.F) {
	f.Add([]byte(`{"target":"198.51.0.9/32","origin":"a","owners":[{"jail":"web","until":"2031-05-06T12:00:00+02:00"}]}`))
	f.Add([]byte(`{"target":"2001:db8::/64","owners":[{"jail":"\u0000","client":"fe80::1%eth0"}]}`))
	f.Add([]byte(`{"target":"::ffff:1.2.3.4/128","owners":[{}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var key struct {
			Target netip.Prefix `json:"target"`
		}
		if json.Unmarshal(payload, &key) != nil || checkPrefix(key.Target) != nil {
			return
		}
		k := appendPrefix(nil, key.Target)
		b, err := decode(record{bucketBans, k, seal(bucketBans, k, payload)}, banKey)
		if err != nil {
			return
		}
		u := Update{Bans: []Ban{b}}
		changes, err := u.changes()
		if err != nil || len(changes) != 1 {
			t.Fatalf("read %+v, can't store it: %v", b, err)
		}
		again, err := decode(record(changes[0]), banKey)
		if err != nil {
			t.Fatalf("stored %+v, can't read it: %v", b, err)
		}
		if !reflect.DeepEqual(again.utc(), b.utc()) {
			t.Errorf("got  %+v\nwant %+v", again, b)
		}
	})
}
