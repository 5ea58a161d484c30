package source

import (
	"errors"
	"fmt"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
)

// Activated returns the sockets that systemd has made for this process, by name:
// FileDescriptorName= in the socket unit, for SyslogOptions.File that of the
// log (sd_listen_fds_with_names(3)). They must stay open as long as the process
// runs. It takes them out of the environment, so it is called once, before
// anything else is opened.
//
// Of several sockets with one name the first is returned; the others are closed,
// and the error is about them.
func Activated() (map[string]*os.File, error) {
	out := map[string]*os.File{}
	var errs []error
	for _, f := range activation.Files(true) {
		if out[f.Name()] != nil {
			errs = append(errs, fmt.Errorf("systemd has passed two sockets named %q: each log takes one, name it with FileDescriptorName=", f.Name()), f.Close())
			continue
		}
		out[f.Name()] = f
	}
	return out, errors.Join(errs...)
}
