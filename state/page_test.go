package state

import (
	"encoding/binary"
	"errors"
	"testing"
)

// leafPage returns a page with entries "k0"="v", "k1"="v", … in a row.
func leafPage(n int) []byte {
	b := make([]byte, pageSize)
	binary.NativeEndian.PutUint16(b[8:], flagLeaf)
	binary.NativeEndian.PutUint16(b[10:], uint16(n))
	data := pageHeaderLen + n*elementLen
	for i := range n {
		at := pageHeaderLen + i*elementLen
		binary.NativeEndian.PutUint32(b[at+4:], uint32(data-at))
		binary.NativeEndian.PutUint32(b[at+8:], 2)
		binary.NativeEndian.PutUint32(b[at+12:], 1)
		data += copy(b[data:], []byte{'k', byte('0' + i), 'v'})
	}
	return b
}

func TestElement(t *testing.T) {
	const second = pageHeaderLen + elementLen
	add := func(at int, n uint32) func([]byte) {
		return func(b []byte) {
			binary.NativeEndian.PutUint32(b[at:], binary.NativeEndian.Uint32(b[at:])+n)
		}
	}
	tests := []struct {
		name  string
		spoil func([]byte)
		want  [3]error // of the three entries
	}{
		{"as written", func([]byte) {}, [3]error{}},
		{"position is higher", add(second+4, 1), [3]error{nil, errLayout, errLayout}},
		{"position is lower", add(second+4, ^uint32(0)), [3]error{nil, errLayout, errLayout}},
		{"key is longer", add(second+8, 1), [3]error{nil, nil, errLayout}},
		{"value is longer", add(second+12, 1), [3]error{nil, nil, errLayout}},
		{"value ends outside", add(second+12, 1<<31), [3]error{nil, errElement, errLayout}},
		{"position lies outside", add(second+4, 1<<31), [3]error{nil, errElement, errLayout}},
		{"no key", add(second+8, ^uint32(1)), [3]error{nil, errElement, errLayout}},
		{"one entry fewer than written", func(b []byte) { b[10] ^= 2 ^ 3 }, [3]error{errLayout, nil, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := leafPage(3)
			tt.spoil(b)
			p, err := parsePage(b)
			if err != nil {
				t.Fatal(err)
			}
			end := uint64(pageHeaderLen + p.count*elementLen)
			for i, want := range tt.want {
				e, next, err := p.element(i, end)
				end = next
				if !errors.Is(err, want) || (want == nil) != (err == nil) {
					t.Errorf("entry %d: %v, want %v", i, err, want)
				}
				if want == nil && tt.name == "as written" && (string(e.key) != "k"+string(rune('0'+i)) || string(e.value) != "v") {
					t.Errorf("entry %d is %q = %q", i, e.key, e.value)
				}
			}
		})
	}
}
