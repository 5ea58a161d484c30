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
	const most = len("255.255.255.255 ")
	if len(line) < most {
		return 0, 0
	}
	lo, hi := binary.LittleEndian.Uint64(line), binary.LittleEndian.Uint64(line[8:])
	blanks := equal(lo, ' ') | equal(hi, ' ')<<8
	size = bits.TrailingZeros32(blanks | 1<<most)
	before := uint32(1)<<size - 1 // the bytes before the blank
	points := (equal(lo, '.') | equal(hi, '.')<<8) & before
	dots := points
	first := bits.TrailingZeros32(dots)
	dots &= dots - 1
	second := bits.TrailingZeros32(dots)
	dots &= dots - 1
	third := bits.TrailingZeros32(dots)
	others := notDigits(lo) | notDigits(hi)<<8
	if size == most || third == 32 || dots&(dots-1) != 0 || others&before != points {
		return 0, 0
	}
	one, two, three, four := uint32(first), uint32(second-first-1), uint32(third-second-1), uint32(size-third-1)
	if one*two*three*four == 0 || one|two|three|four > 3 {
		return 0, 0
	}
	a, b, c, d := octet(line, 0, one), octet(line, first+1, two), octet(line, second+1, three), octet(line, third+1, four)
	if a|b|c|d > 255 || a < least[one&3] || b < least[two&3] || c < least[three&3] || d < least[four&3] {
		return 0, 0
	}
	return a<<24 | b<<16 | c<<8 | d, size
}

// least is the least number of as many digits that has no zero before it.
var least = [4]uint32{2: 10, 3: 100}

// octet returns the number of up to three digits at line[from:]. There are four
// bytes.
func octet(line []byte, from int, digits uint32) uint32 {
	x := (binary.LittleEndian.Uint32(line[from:]) ^ 0x30303030) << ((4 - digits) * 8 & 31) // the last digit is the highest byte now
	return x>>24 + x>>16&0xff*10 + x>>8&0xff*100
}

// few reads the number of up to eight digits that eight bytes begin with, and
// returns how many there are. Pairs of digits are added to each other, then pairs
// of these, and those (Lemire, 2018: "Quickly parsing eight digits").
func few(eight uint64) (n int64, digits int) {
	x := eight ^ '0'*eachByte
	digits = bits.TrailingZeros64(notDecimal(x)) / 8
	x <<= uint(8-digits) * 8 // the last one is the highest byte now
	x = x*10 + x>>8
	const each2 = 0xff<<32 | 0xff
	return int64((x&each2*(1_000_000<<32|100) + x>>16&each2*(10_000<<32|1)) >> 32), digits
}

// notDecimal returns the high bit of each of eight bytes that is more than 9.
func notDecimal(x uint64) uint64 { return (x&^highBits + 0x76*eachByte | x) & highBits }

// notDigits returns a bit for each of eight bytes that is no digit, the lowest for
// the first; equal for each that is c.
func notDigits(eight uint64) uint32 { return gather(notDecimal(eight ^ '0'*eachByte)) }

func equal(eight uint64, c byte) uint32 {
	x := eight ^ eachByte*uint64(c)
	return gather(^((x&^highBits + ^uint64(highBits)) | x) & highBits)
}

// gather moves the high bit of each of eight bytes to its own of the lowest eight.
func gather(high uint64) uint32 { return uint32(high >> 7 * 0x0102040810204080 >> 56) }
