package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// Whatever bbolt writes must be found sound and read in full; else a healthy
// file would be put aside.
func TestScanReadsWhatBoltWrites(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "state.db")
		os.Remove(path)
		db, err := bolt.Open(path, 0o600, &bolt.Options{
			NoSync:         true,
			PageSize:       rapid.SampledFrom([]int{1024, 4096, 16384}).Draw(t, "page size"),
			NoFreelistSync: rapid.Bool().Draw(t, "no freelist"),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		model := map[string]map[string][]byte{"a": {}, "b": {}}
		for range rapid.IntRange(0, 12).Draw(t, "transactions") {
			if err := db.Update(func(tx *bolt.Tx) error { return randomWrites(t, tx, model) }); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkScan(t, scan(bytes.NewReader(data), int64(len(data))), model)
	})
}

func randomWrites(t *rapid.T, tx *bolt.Tx, model map[string]map[string][]byte) error {
	for name, want := range model {
		b, err := tx.CreateBucketIfNotExists([]byte(name))
		if err != nil {
			return err
		}
		from := rapid.IntRange(0, 400).Draw(t, "from")
		n := rapid.IntRange(0, 150).Draw(t, "n")
		size := rapid.SampledFrom([]int{0, 10, 100, 5000}).Draw(t, "size")
		remove := rapid.Bool().Draw(t, "remove")
		for i := from; i < from+n; i++ {
			key := append([]byte(name), nativeUint64(uint64(i)*0x9E3779B97F4A7C15)...)
			if remove {
				delete(want, string(key))
				err = b.Delete(key)
			} else {
				want[string(key)] = bytes.Repeat([]byte{byte(i)}, size)
				err = b.Put(key, want[string(key)])
			}
			if err != nil {
				return err
			}
		}
		if err := b.SetSequence(uint64(len(want))); err != nil {
			return err
		}
	}
	return nil
}

func checkScan(t *rapid.T, im *image, model map[string]map[string][]byte) {
	if im.damage != nil || im.lost != 0 {
		t.Fatalf("sound file: lost %d, %v", im.lost, im.damage)
	}
	if len(im.buckets) == 0 {
		return // no transaction
	}
	for name, want := range model {
		b := im.buckets[name]
		if b == nil || b.checkCount(name) != nil || len(b.records) != len(want) {
			t.Fatalf("bucket %s: got %+v, want %d records", name, b, len(want))
		}
		for i, r := range b.records {
			if v, ok := want[string(r.key)]; !ok || !bytes.Equal(v, r.value) {
				t.Fatalf("bucket %s: record %x is %x, want %x", name, r.key, r.value, v)
			}
			if i > 0 && bytes.Compare(b.records[i-1].key, r.key) >= 0 {
				t.Fatalf("bucket %s: record %d is out of order", name, i)
			}
		}
	}
}

// A file that scan finds sound must be safe in bbolt's hands.
func FuzzScan(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.db")
	s, _, err := Open(path, noon)
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Commit(Update{Bans: testBans(12), Positions: []Position{testPosition(1)}}); err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, uint32(0), byte(0))
	f.Add(seed, uint32(4096*3+10), byte(0xff))
	f.Add(seed[:8192], uint32(16), byte(1))
	f.Add([]byte{}, uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, flip byte) {
		data = bytes.Clone(data)
		if len(data) > 0 {
			data[int(at)%len(data)] ^= flip
		}
		im := scan(bytes.NewReader(data), int64(len(data)))
		im.contents(int64(len(data)), noon)
		if im.damage != nil || im.format != boltFormat {
			return
		}
		path := filepath.Join(t.TempDir(), "state.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		checkWithBolt(t, path)
	})
}

func checkWithBolt(t *testing.T, path string) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatalf("scan finds nothing wrong, bbolt can't open it: %v", err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("scan finds nothing wrong, bbolt does: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
