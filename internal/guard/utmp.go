package guard

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"runtime"
)

// Where struct utmp of glibc (bits/utmp.h) has what is read here, in bytes. The
// C library writes it in the host's order of bytes.
const (
	utType    = 0 // int16
	utPid     = 4 // int32
	utLine    = 8 // filled up with zeros
	utLineEnd = 40

	userProcess = 7 // a ut_type
)

// utmpLayout is what differs between machines. Where __WORDSIZE_TIME64_COMPAT32
// is set (x86-64: sysdeps/x86/bits/wordsize.h) the session and the time before
// the address are as on 32 bits; where it isn't (arm64:
// sysdeps/aarch64/bits/wordsize.h) they are of 64.
type utmpLayout struct {
	size int // of a record
	addr int // where ut_addr_v6 is, 16 bytes
}

// layoutOf goes by the size of the file, and by the machine where that leaves
// it open.
func layoutOf(size int, arch string) utmpLayout {
	of32, of64 := utmpLayout{384, 348}, utmpLayout{400, 360}
	fits32, fits64 := size%of32.size == 0, size%of64.size == 0
	switch {
	case fits32 && !fits64:
		return of32
	case fits64 && !fits32:
		return of64
	case arch == "arm64":
		return of64
	}
	return of32
}

// readUtmp lists the sessions with an address in a file of utmp(5).
//
// Those on a pseudo terminal are counted: sshd writes no others. The address
// comes from ut_addr_v6 only, which sshd fills from the connection
// (construct_utmp in its loginrec.c). ut_host isn't looked at: it may be a name,
// and everybody with a terminal of their own can have utempter(8) write any text
// there.
func readUtmp(data []byte) []login {
	l := layoutOf(len(data), runtime.GOARCH)
	var out []login
	for ; len(data) >= l.size; data = data[l.size:] {
		kind := int16(binary.NativeEndian.Uint16(data[utType:]))
		pid := int32(binary.NativeEndian.Uint32(data[utPid:]))
		if kind != userProcess || pid <= 0 || !bytes.HasPrefix(data[utLine:utLineEnd], []byte("pts/")) {
			continue
		}
		if from := utmpAddr([16]byte(data[l.addr : l.addr+16])); from.IsValid() {
			out = append(out, login{from, int(pid)})
		}
	}
	return out
}

// utmpAddr reads ut_addr_v6: an IPv4 address is in the first four bytes, and the
// others are zero. A local session has none at all.
func utmpAddr(b [16]byte) netip.Addr {
	if [12]byte(b[4:]) != [12]byte{} {
		return netip.AddrFrom16(b).Unmap()
	}
	if a := netip.AddrFrom4([4]byte(b[:4])); !a.IsUnspecified() {
		return a
	}
	return netip.Addr{}
}
