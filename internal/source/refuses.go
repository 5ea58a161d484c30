package source

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Refuses returns why a daemon of the user with the number us would not read the
// file that a path leads to, with a hint; nil: it would, as far as can be told,
// or there is none. allowInsecure is as in FilesOptions.
func Refuses(path string, us int, allowInsecure bool) error {
	fi, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if _, err := identify(fi); err != nil {
		return hinted{err, otherHint(fi.Mode())}
	}
	var f *os.File
	if allowInsecure {
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	} else {
		f, err = openVettedFor(path, uint32(us))
	}
	if bad := new(insecure); errors.As(err, &bad) {
		return hinted{err, insecureHint}
	}
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	var begin [64]byte
	n, err := f.ReadAt(begin[:], 0)
	if err != nil && err != io.EOF {
		return nil
	}
	if is := noText(begin[:n]); is != "" {
		return errors.New("it holds no lines of text: it is " + is)
	}
	return nil
}

// insecureHint is how to have a log read that strangers can write to.
const insecureHint = "if nobody untrusted has access to this machine: allow_insecure = true of the log"

// otherHint guesses what was meant by something that is no regular file.
func otherHint(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "files in it are named by a pattern, like *.log"
	case m&os.ModeNamedPipe != 0:
		return "a pipe is read with fifo = in place of files ="
	case m&os.ModeSocket != 0:
		return "a socket is read with syslog = in place of files ="
	}
	return "a log is a regular file"
}
