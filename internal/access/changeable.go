package access

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Changeable returns an error if somebody else than root and the user us could
// change a file, or put another one in its place: by its mode, or by that of a
// folder on the way, or as their owner. Whom an access control list lets write
// shows in the mode, as the rights of the group.
func Changeable(path string, us uint32) error {
	trusted := map[uint32]bool{0: true, us: true}
	if root, err := stat("/"); err != nil {
		return err
	} else {
		trusted[root.Uid] = true // who can put anything anywhere; it is not 0 in some containers
	}
	file, err := follow(path, func(dir, name string) error {
		st, err := stat(dir)
		if err != nil {
			return err
		}
		who, hint := changer(st, dir, trusted)
		if who != "" && st.Mode&syscall.S_ISVTX != 0 && trusted[st.Uid] {
			// What is in it can only be replaced by its own owner.
			entry := filepath.Join(dir, name)
			var in syscall.Stat_t
			if err := syscall.Lstat(entry, &in); err != nil {
				return &os.PathError{Op: "lstat", Path: entry, Err: err}
			}
			if trusted[in.Uid] {
				return nil
			}
			who, hint = "user "+userName(in.Uid), "chown root "+entry
		}
		if who == "" {
			return nil
		}
		return fmt.Errorf("the folder %s may be changed by %s, who could put another file in the place of %s (%s)", dir, who, path, hint)
	})
	if err != nil {
		return err
	}
	st, err := stat(file)
	if err != nil {
		return err
	}
	if who, hint := changer(st, file, trusted); who != "" {
		return fmt.Errorf("%s may be changed by %s (%s)", file, who, hint)
	}
	return nil
}

// changer is who may change a file or folder, and what would take that away; "":
// only those who are trusted.
func changer(st *syscall.Stat_t, path string, trusted map[uint32]bool) (who, hint string) {
	switch {
	case st.Mode&0o002 != 0:
		return "every user", "chmod o-w " + path
	case !trusted[st.Uid]:
		return "user " + userName(st.Uid), "chown root " + path
	case st.Mode&0o020 != 0:
		return "group " + groupName(st.Gid), "chmod g-w " + path
	}
	return "", ""
}

func stat(path string) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return &st, nil
}
