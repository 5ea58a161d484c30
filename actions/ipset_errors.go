//go:build linux

package actions

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ipsetErrno is an error number of the kernel's IP sets, which are above those
// of the system (linux/netfilter/ipset/ip_set.h and ip_set_hash.h).
type ipsetErrno int

const (
	errSetBusy     ipsetErrno = nl.IPSET_ERR_BUSY // a rule looks into it
	errSetType     ipsetErrno = nl.IPSET_ERR_FIND_TYPE
	errSetMismatch ipsetErrno = nl.IPSET_ERR_TYPE_MISMATCH
	errSetExist    ipsetErrno = nl.IPSET_ERR_EXIST // or, of a test and a removal, that it does not
	errSetFull     ipsetErrno = nl.IPSET_ERR_TYPE_SPECIFIC
	errSetNull     ipsetErrno = nl.IPSET_ERR_TYPE_SPECIFIC + 1
)

func (e ipsetErrno) Error() string {
	switch e {
	case errSetFull:
		return "hash is full"
	case errSetNull:
		return "the address of only zeros cannot be stored"
	}
	return "ipset: " + nl.IPSetError(e).Error()
}

// ipsetError makes an error of a number that the kernel has answered.
func ipsetError(number int) error {
	switch {
	case number == 0:
		return nil
	case number >= nl.IPSET_ERR_PRIVATE:
		return ipsetErrno(number)
	}
	return unix.Errno(number)
}

// memberError says which of several members has stopped a message. Those
// before it are done, those behind it are not.
type memberError struct {
	index int
	err   error
}

func (e *memberError) Error() string { return fmt.Sprintf("member %d: %v", e.index, e.err) }
func (e *memberError) Unwrap() error { return e.err }
