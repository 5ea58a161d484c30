package parser

import (
	"encoding/binary"
	"math/bits"
)

const (
	eachByte = 0x0101010101010101 // times a byte: eight of it
	highBits = 0x80 * eachByte
)

// quickQuad reads the dotted quad that a line begins with, if a blank follows, as
// [parse4] does, and returns its length in bytes; 0: there is none, or the line is
// very short. Nothing depends on how many digits the numbers have, which no
// processor foresees: bytes are compared eight at a time.
func quickQuad(line []byte) (quad uint32, size int) {
	const most, lastDot = len("255.255.255.255 "), len("255.255.255")
	if len(line) < most {
		return 0, 0
	}
	lo, hi := binary.LittleEndian.Uint64(line), binary.LittleEndian.Uint64(line[8:])
	blanks := equal(lo, ' ') | equal(hi, ' ')<<8
	size = bits.TrailingZeros32(blanks | 1<<most)
	before := uint32(1)<<size - 1 // the bytes before the blank
	dots := (equal(lo, '.') | equal(hi, '.')<<8) & before
	first := bits.TrailingZeros32(dots)
	dots &= dots - 1
	second := bits.TrailingZeros32(dots)
	dots &= dots - 1
	third := bits.TrailingZeros32(dots)
	if size == most || third > lastDot || dots&(dots-1) != 0 {
		return 0, 0 // there aren't three dots, or they stand too far behind
	}
	a, bad1 := octet(line, 0, first)
	b, bad2 := octet(line, first+1, second)
	c, bad3 := octet(line, second+1, third)
	d, bad4 := octet(line, third+1, size)
	if bad1|bad2|bad3|bad4 != 0 {
		return 0, 0
	}
	return a<<24 | b<<16 | c<<8 | d, size
}

// octet reads the number at line[from:to], and says whether it is none from 0 to
// 255 without leading zeros. There must be four bytes at from.
func octet(line []byte, from, to int) (n, bad uint32) {
	digits := uint32(to - from)
	x := binary.LittleEndian.Uint32(line[from:]) ^ 0x30303030
	leading := (uint32(1) - digits) >> 31 &^ ((0 - x&0xff) >> 31) // more than one digit, the first of them 0
	x <<= (4 - digits) & 31 * 8                                   // the last digit is the highest byte now
	n = x>>24 + x>>16&0xff*10 + x>>8&0xff*100
	bad = (digits - 1) &^ 3 // no digit; wraps around
	bad |= (3 - digits) >> 31
	bad |= (x&0x7f7f7f7f + 0x76767676 | x) & 0x80808080 // one that is more than 9
	return n, bad | (255-n)>>31 | leading
}

// equal returns a bit for each of eight bytes that is c, the lowest for the first.
func equal(eight uint64, c byte) uint32 {
	x := eight ^ eachByte*uint64(c)
	zero := ^((x&^highBits + ^uint64(highBits)) | x | ^uint64(highBits)) // the high bit of each byte that is zero
	return uint32(zero >> 7 * 0x0102040810204080 >> 56)
}
