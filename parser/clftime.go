package parser

import "encoding/binary"

// clfTimeLen is the length of a timestamp such as
// "29/Nov/2026:16:51:36 -0330": nginx's $time_local and Apache's default %t
// without its brackets.
const clfTimeLen = len("29/Nov/2026:16:51:36 -0330")

// clfClock reads timestamps and remembers the last one: most lines of a log
// share their second with the line before.
type clfClock struct {
	last clfStamp
	ns   int64
	ok   bool
}

// clfStamp is the text of a timestamp, in numbers: its bytes are compared in
// registers, not by way of the stack, where they would wait for whatever was
// written before.
type clfStamp struct{ a, b, c, d uint64 }

// newCLFStamp takes the text, of clfTimeLen bytes; the last number overlaps the one
// before it.
func newCLFStamp(b []byte) clfStamp {
	b = b[:clfTimeLen]
	return clfStamp{
		binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
		binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[clfTimeLen-8:]),
	}
}

// parse returns the instant in nanoseconds since the epoch. b is clfTimeLen
// bytes long.
func (c *clfClock) parse(b []byte) (ns int64, ok bool) {
	if len(b) != clfTimeLen {
		return 0, false
	}
	stamp := newCLFStamp(b)
	if c.ok && stamp == c.last {
		return c.ns, true
	}
	ns, ok = parseCLFTime(b)
	if ok {
		c.last, c.ns, c.ok = stamp, ns, true
	}
	return ns, ok
}

func parseCLFTime(b []byte) (ns int64, ok bool) {
	if len(b) != clfTimeLen || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, false
	}
	day, ok1 := digits(b[0:2])
	month := month(b[3:6])
	year, ok2 := digits(b[7:11])
	hour, ok3 := digits(b[12:14])
	minute, ok4 := digits(b[15:17])
	sec, ok5 := digits(b[18:20])
	zh, ok6 := digits(b[22:24])
	zm, ok7 := digits(b[24:26])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month == 0 {
		return 0, false
	}
	// 60: a leap second, which the epoch folds into the next one.
	if day == 0 || day > daysIn(year, month) || hour > 23 || minute > 59 || sec > 60 || zh > 23 || zm > 59 {
		return 0, false
	}
	// The range in which nanoseconds fit 64 bits, with room for windows.
	if year < 1900 || year > 2200 {
		return 0, false
	}
	zone := zh*3600 + zm*60
	switch b[21] {
	case '+':
	case '-':
		zone = -zone
	default:
		return 0, false
	}
	s := int64(daysSinceEpoch(year, month, day))*86400 + int64(hour*3600+minute*60+sec-zone)
	return s * 1e9, true
}

// digits reads an unsigned decimal number that fills b.
func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// month returns 1 to 12 for the English three-letter names that servers write
// whatever the locale, 0 for anything else.
func month(b []byte) int {
	switch binary.BigEndian.Uint32([]byte{0, b[0], b[1], b[2]}) {
	case 'J'<<16 | 'a'<<8 | 'n':
		return 1
	case 'F'<<16 | 'e'<<8 | 'b':
		return 2
	case 'M'<<16 | 'a'<<8 | 'r':
		return 3
	case 'A'<<16 | 'p'<<8 | 'r':
		return 4
	case 'M'<<16 | 'a'<<8 | 'y':
		return 5
	case 'J'<<16 | 'u'<<8 | 'n':
		return 6
	case 'J'<<16 | 'u'<<8 | 'l':
		return 7
	case 'A'<<16 | 'u'<<8 | 'g':
		return 8
	case 'S'<<16 | 'e'<<8 | 'p':
		return 9
	case 'O'<<16 | 'c'<<8 | 't':
		return 10
	case 'N'<<16 | 'o'<<8 | 'v':
		return 11
	case 'D'<<16 | 'e'<<8 | 'c':
		return 12
	}
	return 0
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSinceEpoch counts days of the Gregorian calendar from 1970-01-01, in
// years that begin in March so that the leap day comes last.
func daysSinceEpoch(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	yearDay := (153*(month-3)+2)/5 + day - 1
	return year*365 + year/4 - year/100 + year/400 + yearDay - 719468
}
