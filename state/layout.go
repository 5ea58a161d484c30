package state

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// The file is a bbolt database with these buckets. In each, a key holds
//
//	CRC-32C of bucket name, 0x00, key and payload (4 bytes, big endian) | payload
//
// and the payload is the JSON of the type named here. The checksum is there
// because one flipped bit in an address would ban a stranger.
//
//	meta       "version"                                   decimal number
//	bans       prefix                                      Ban
//	offences   jail | 0x00 | prefix                        Offence
//	positions  log | 0x00 | dev (8 bytes) | ino (8 bytes)  Position
//	pardons    jail (may be empty) | 0x00 | prefix         Pardon
//	allowances prefix                                      Allowance
//	holds      jail                                        Hold
//	notes      number (8 bytes)                            Note
//
// A prefix is the family (one byte, 4 or 6), the address (4 or 16 bytes) and
// the length (one byte), so that keys sort by family, address and length.
// Numbers in keys are big endian. The sequence number of each bucket is the
// number of records in it: a page that lost some of them without looking
// damaged is noticed by it.
//
// Version 1 had no pardons, allowances and holds, version 2 no notes. Such a file
// becomes one of this version with the first commit.
//
// Every later version must keep meta/version as it is here: by it an older
// tailban knows that it has to leave the file alone.
const (
	bucketMeta      = "meta"
	bucketBans      = "bans"
	bucketOffences  = "offences"
	bucketPositions = "positions"

	bucketPardons    = "pardons"
	bucketAllowances = "allowances"
	bucketHolds      = "holds"

	bucketNotes = "notes"

	keyVersion    = "version"
	schemaVersion = 3
)

// recordBuckets returns the buckets that hold records in a file of a version,
// in the order in which they are read and written.
func recordBuckets(version int) []string {
	names := []string{bucketBans, bucketOffences, bucketPositions}
	if version > 1 {
		names = append(names, bucketPardons, bucketAllowances, bucketHolds)
	}
	if version > 2 {
		names = append(names, bucketNotes)
	}
	return names
}

// MaxName is the longest name of a jail or a log in bytes.
const MaxName = 1024

const (
	family4 = 4
	family6 = 6
)

func appendPrefix(key []byte, p netip.Prefix) []byte {
	family := byte(family6)
	if p.Addr().Is4() {
		family = family4
	}
	key = append(key, family)
	key = append(key, p.Addr().AsSlice()...)
	return append(key, byte(p.Bits()))
}

func (k OffenceKey) appendTo(key []byte) []byte {
	key = append(key, k.Jail...)
	key = append(key, 0)
	return appendPrefix(key, k.Target)
}

func (k PardonKey) appendTo(key []byte) []byte {
	return OffenceKey(k).appendTo(key)
}

func (k PositionKey) appendTo(key []byte) []byte {
	key = append(key, k.Log...)
	key = append(key, 0)
	key = binary.BigEndian.AppendUint64(key, k.Dev)
	return binary.BigEndian.AppendUint64(key, k.Ino)
}

// checkPrefix accepts what a key can be made of without two targets sharing
// one: a valid prefix with no bits beyond its length, IPv4 never in its IPv6
// form.
func checkPrefix(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return fmt.Errorf("no valid prefix")
	case p.Addr().Is4In6():
		return fmt.Errorf("prefix %s is IPv4 in IPv6 form; unmap the address first", p)
	case p != p.Masked():
		return fmt.Errorf("prefix %s has bits set beyond its length; mask it first", p)
	}
	return nil
}

func (k OffenceKey) check() error {
	if err := checkName("jail", k.Jail); err != nil {
		return err
	}
	return checkPrefix(k.Target)
}

func (k PardonKey) check() error {
	if k.Jail == "" {
		return checkPrefix(k.Target)
	}
	return OffenceKey(k).check()
}

func (k PositionKey) check() error {
	return checkName("log", k.Log)
}

// checkName accepts what comes back from JSON as it went in and can stand
// before the 0x00 in a key.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has no name", what)
	case len(name) > MaxName:
		return fmt.Errorf("name of %s has %d bytes; at most %d are allowed", what, len(name), MaxName)
	case !utf8.ValidString(name), strings.ContainsRune(name, 0):
		return fmt.Errorf("name of %s %q is not UTF-8 without zero bytes", what, name)
	}
	return nil
}

const sumLen = 4

// seal returns the value under which a payload is stored.
func seal(bucket string, key, payload []byte) []byte {
	value := make([]byte, sumLen, sumLen+len(payload))
	binary.BigEndian.PutUint32(value, checksum(bucket, key, payload))
	return append(value, payload...)
}

// unseal returns the payload of a stored value.
func unseal(bucket string, key, value []byte) ([]byte, error) {
	if len(value) < sumLen {
		return nil, fmt.Errorf("value has %d bytes, fewer than its checksum", len(value))
	}
	payload := value[sumLen:]
	if want, got := binary.BigEndian.Uint32(value), checksum(bucket, key, payload); got != want {
		return nil, fmt.Errorf("checksum is %08x, should be %08x", got, want)
	}
	return payload, nil
}

func checksum(bucket string, key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, []byte(bucket))
	sum = crc32.Update(sum, table, []byte{0})
	sum = crc32.Update(sum, table, key)
	return crc32.Update(sum, table, payload)
}
