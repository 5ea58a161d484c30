package access

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// acl is what a file allows whom: its mode, or a POSIX access control list
// (acl(5)), of which a mode is the short form.
type acl struct {
	owner, group, other rights
	mask                rights // what named users, and all groups, have at most
	users, groups       []named
}

// named is what an entry of a list gives one user or group.
type named struct {
	id     uint32
	rights rights
}

// Layout of the extended attribute that holds a list, and the tags of its
// entries (Linux, include/uapi/linux/posix_acl_xattr.h and posix_acl.h). All
// numbers are little-endian.
const (
	aclAttr    = "system.posix_acl_access"
	aclVersion = 2
	aclHead    = 4 // bytes: the version
	aclEntry   = 8 // bytes: tag, rights, id

	tagOwner  = 0x01
	tagUser   = 0x02
	tagGroup  = 0x04
	tagGroups = 0x08
	tagMask   = 0x10
	tagOther  = 0x20
)

// readACL returns what a file allows. perm is its mode.
func readACL(path string, perm fs.FileMode) (acl, error) {
	a := acl{owner: rights(perm >> 6 & 7), group: rights(perm >> 3 & 7), other: rights(perm & 7), mask: 7}
	if a.group == 0 {
		// Then the mask is empty, and the kernel goes by the mode alone: who has
		// an entry is one of the others (Linux, fs/namei.c, acl_permission_check).
		return a, nil
	}
	buf := make([]byte, 64<<10) // the kernel's limit for an attribute
	n, err := unix.Getxattr(path, aclAttr, buf)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return a, nil
	case err != nil:
		return a, fmt.Errorf("read the access control list of %s: %w", path, err)
	}
	return parseACL(buf[:n])
}

// parseACL reads the attribute.
func parseACL(b []byte) (acl, error) {
	a := acl{mask: 7}
	if len(b) < aclHead || (len(b)-aclHead)%aclEntry != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return a, errors.New("access control list in a form that is not known")
	}
	for b = b[aclHead:]; len(b) > 0; b = b[aclEntry:] {
		r := rights(binary.LittleEndian.Uint16(b[2:]) & 7)
		id := binary.LittleEndian.Uint32(b[4:])
		switch binary.LittleEndian.Uint16(b) {
		case tagOwner:
			a.owner = r
		case tagUser:
			a.users = append(a.users, named{id, r})
		case tagGroup:
			a.group = r
		case tagGroups:
			a.groups = append(a.groups, named{id, r})
		case tagMask:
			a.mask = r
		case tagOther:
			a.other = r
		}
	}
	return a, nil
}

// allows is the algorithm of acl(5): the first class that the user is in
// decides, and of several groups any that gives all of want.
func (a *acl) allows(u *User, owner, group uint32, want rights) bool {
	has := func(r rights) bool { return r&want == want }
	if u.UID == owner {
		return has(a.owner)
	}
	for _, n := range a.users {
		if n.id == u.UID {
			return has(n.rights & a.mask)
		}
	}
	member := false
	for _, n := range append([]named{{group, a.group}}, a.groups...) {
		if slices.Contains(u.Groups, n.id) {
			if has(n.rights & a.mask) {
				return true
			}
			member = true
		}
	}
	return !member && has(a.other)
}
