// Package access tells whether another user could read, run or change a file, by
// what the file system says, without becoming that user.
package access

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
)

// User is somebody who may want to read files.
type User struct {
	Name   string // as it was asked for
	UID    uint32
	Groups []uint32 // the user's own first, then further ones; each once
}

// Lookup finds a user by name or number, with the groups that the system has
// for it; groups are names or numbers of further ones. A number that the
// system doesn't know is a user with the group of the same number, as services
// with a dynamic user have it.
func Lookup(who string, groups []string) (User, error) {
	u := User{Name: who}
	id, numErr := parseID(who)
	known, err := user.Lookup(who)
	if err != nil && numErr == nil {
		known, err = user.LookupId(who)
	}
	switch {
	case err == nil:
		if err := u.take(known); err != nil {
			return u, err
		}
	case numErr == nil:
		u.UID, u.Groups = id, []uint32{id}
	default:
		return u, fmt.Errorf("there is no user %q: that of our unit is made by systemd-sysusers, and one with DynamicUser=yes is there only "+
			"while its service runs; give a number like 65534, and the unit's SupplementaryGroups as groups", who)
	}
	for _, name := range groups {
		id, err := groupID(name)
		if err != nil {
			return u, err
		}
		u.add(id)
	}
	return u, nil
}

// take makes u the user that the system knows.
func (u *User) take(known *user.User) error {
	uid, err1 := parseID(known.Uid)
	gid, err2 := parseID(known.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("look up user %q: %w", u.Name, err)
	}
	u.UID = uid
	u.add(gid)
	ids, err := known.GroupIds()
	if err != nil {
		return fmt.Errorf("look up the groups of user %q: %w", u.Name, err)
	}
	for _, s := range ids {
		id, err := parseID(s)
		if err != nil {
			return fmt.Errorf("look up the groups of user %q: %w", u.Name, err)
		}
		u.add(id)
	}
	return nil
}

func (u *User) add(group uint32) {
	if !slices.Contains(u.Groups, group) {
		u.Groups = append(u.Groups, group)
	}
}

func groupID(name string) (uint32, error) {
	if g, err := user.LookupGroup(name); err == nil {
		return parseID(g.Gid)
	}
	id, err := parseID(name)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q", name)
	}
	return id, nil
}

// groupName is the name of a group, or its number if it has none.
func groupName(id uint32) string {
	s := strconv.FormatUint(uint64(id), 10)
	if g, err := user.LookupGroupId(s); err == nil {
		return g.Name
	}
	return s
}

// userName is likewise that of a user.
func userName(id uint32) string {
	s := strconv.FormatUint(uint64(id), 10)
	if u, err := user.LookupId(s); err == nil {
		return u.Username
	}
	return s
}

func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err
}
