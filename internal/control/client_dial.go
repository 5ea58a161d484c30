package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// dialError says why nobody answers at a socket, and what to do about it.
func dialError(path string, err error) *Error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &Error{
			Code:    CodeUnreachable,
			Message: "no daemon answers: " + path + " does not exist",
			Hint:    "is tailban running? does it run with another runtime_dir?",
		}
	case errors.Is(err, fs.ErrPermission):
		return &Error{
			Code:    CodeDenied,
			Message: "not allowed to connect to " + path,
			Hint:    whoMay(path),
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{
			Code:    CodeUnreachable,
			Message: "no daemon answers: nobody listens at " + path + " any more",
			Hint:    "tailban ended without removing it: start it again, and look at its log",
		}
	case errors.Is(err, syscall.EAGAIN):
		return &Error{
			Code:    CodeBusy,
			Message: "the daemon does not take connections at " + path + " fast enough",
			Hint:    "try again; if it stays so, the daemon hangs",
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno // the rest repeats the path
	}
	return &Error{Code: CodeUnreachable, Message: fmt.Sprintf("no daemon answers: connect to %s: %v", path, err)}
}

// whoMay says who may connect to a socket.
func whoMay(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "the directory is closed to this user; root may"
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "root may"
	}
	may := "root"
	if sys.Uid != 0 {
		may = userName(sys.Uid) + " and root"
	}
	if info.Mode().Perm()&0o020 == 0 {
		return "only " + may + " may: try sudo"
	}
	return fmt.Sprintf("%s may, and members of the group %s: try sudo, or become a member", may, groupName(sys.Gid))
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return "the user " + u.Username
	}
	return "the user with the number " + id
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return "with the number " + id
}
