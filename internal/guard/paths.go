package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Paths says where a host tells about itself. What isn't named isn't read.
type Paths struct {
	Resolv   []string // files of the form of resolv.conf(5)
	Links    string   // folder with networkd's files of links
	Sessions string   // folder with logind's files of sessions
	Utmp     string   // file of utmp(5)
}

// HostPaths is where Linux has these things. /run/systemd/resolve/resolv.conf
// is what systemd-resolved asks behind its own 127.0.0.53, the servers of links
// among them. It is read whatever resolv.conf names, as nss-resolve(8) reaches
// systemd-resolved without it. It lacks servers that are asked for some domains
// only (systemd 252); those that networkd has set are in networkd's own files.
// systemd-resolved's (/run/systemd/resolve/netif) are for itself alone.
func HostPaths() Paths {
	return Paths{
		Resolv:   []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"},
		Links:    "/run/systemd/netif/links",
		Sessions: "/run/systemd/sessions",
		Utmp:     "/run/utmp",
	}
}

// readUpTo reads the first bytes of a regular file. Anything else, such as a
// pipe that nobody writes to, is refused without waiting for it. A file that
// isn't there is empty.
func readUpTo(path string, size int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(f, size))
}
