package source

import (
	"context"
	"os"
	"strings"
)

// boot returns the argument that --follow needs to show the running boot: none
// where journalctl finds that out itself. It can't in a unit with ProcSubset=pid,
// and takes the wrong one in a systemd-nspawn container if the unit has a /proc
// or a /proc/sys of its own (ProtectProc=, ProtectKernelTunables=): the host's
// number is there then, and of that boot nothing ever comes.
func (j *Journal) boot(ctx context.Context) ([]string, error) {
	if b, err := os.ReadFile(j.bootID); err == nil {
		id := strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
		// journald itself writes something in each boot.
		switch cursor, err := j.last(ctx, "--output=json", "--output-fields=_BOOT_ID", "_BOOT_ID="+id); {
		case err != nil:
			return nil, err
		case cursor != "":
			return nil, nil
		}
	}
	cursor, err := j.last(ctx, "--output=json", "--output-fields=_BOOT_ID")
	if id := strings.TrimPrefix(bootOf(cursor), "b="); err == nil && id != "" {
		return []string{"--boot=" + id}, nil
	}
	return nil, err
}

// bootOf returns the part of a cursor that names the boot.
func bootOf(cursor string) string {
	for part := range strings.SplitSeq(cursor, ";") {
		if strings.HasPrefix(part, "b=") {
			return part
		}
	}
	return ""
}
