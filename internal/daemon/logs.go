package daemon

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// reading is a log that is read.
type reading struct {
	*part
	source source.Source
	began  time.Time
	asking chan struct{} // holds a token while somebody asks source how it does
}

// follow begins to read a log, from the positions stored for it.
func (d *daemon) follow(l *config.Log, positions []state.Position) {
	r := &reading{began: time.Now(), asking: make(chan struct{}, 1), source: d.sourceOf(l, resume(positions, l.Name))}
	name := l.Name
	r.part = startPart(d.reading, func(ctx context.Context) {
		if err := r.source.Run(ctx, d.batches); err != nil {
			d.Log.Error("a log is no longer read", "log", name, "err", err)
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs[name] = r
}

// sourceOf makes what reads a log.
func (d *daemon) sourceOf(l *config.Log, positions []source.Position) source.Source {
	switch {
	case len(l.Journal) > 0:
		return source.NewJournal(source.JournalOptions{
			Log: l.Name, Units: l.Journal, Resume: positions, Counted: d.counted[l.Name], MaxLine: l.MaxLine, Logger: d.Log,
		})
	case l.Syslog != nil:
		return source.NewSyslog(source.SyslogOptions{
			Log: l.Name, Network: l.Syslog.Network, Address: l.Syslog.Address, FromUsers: l.Syslog.FromUsers, AllowFrom: l.Syslog.AllowFrom,
			File: d.Sockets[l.Name], MaxLine: l.MaxLine, Logger: d.Log,
		})
	case l.Stdin:
		return source.NewPipe(source.PipeOptions{Log: l.Name, File: d.Stdin, Resume: positions, MaxLine: l.MaxLine, Logger: d.Log})
	case l.FIFO != "":
		return source.NewPipe(source.PipeOptions{Log: l.Name, Path: l.FIFO, Resume: positions, MaxLine: l.MaxLine, Logger: d.Log})
	}
	return source.NewFiles(source.FilesOptions{
		Log: l.Name, Patterns: l.Files, MaxLine: l.MaxLine, Resume: positions, Logger: d.Log,
		StartAt: startAt(d.current(), l, time.Now),
		Claims:  d.claims, Folders: d.folders, FromStart: l.FromStart, MaxFiles: l.MaxFiles, AllowInsecure: l.AllowInsecure, Container: source.Container(l.Container),
	})
}

// assign says which files are whose.
func (d *daemon) assign(c *config.Config) { d.claims.Assign(filesOf(c)) }

// filesOf lists the logs that read files.
func filesOf(c *config.Config) (logs []source.LogFiles) {
	for i := range c.Logs {
		if l := &c.Logs[i]; len(l.Files) > 0 {
			logs = append(logs, source.LogFiles{Log: l.Name, Patterns: l.Files})
		}
	}
	return logs
}

// sayUnusedSockets says which sockets of the service manager no log takes: their
// senders would wait for nobody.
func (d *daemon) sayUnusedSockets() {
	for name := range d.Sockets {
		if l := logNamed(d.config, name); l == nil || l.Syslog == nil {
			d.Log.Warn("a socket was passed that no log takes: FileDescriptorName= must be the name of a log with syslog", "name", name)
		}
	}
}

// sameSource reports whether a log is read from the same place in the same
// way, so that its reading can go on. From where it begins at a first start
// makes no difference any more.
func sameSource(a, b *config.Log) bool {
	return slices.Equal(a.Files, b.Files) && slices.Equal(a.Journal, b.Journal) && reflect.DeepEqual(a.Syslog, b.Syslog) &&
		a.Stdin == b.Stdin && a.FIFO == b.FIFO && a.MaxLine == b.MaxLine &&
		a.MaxFiles == b.MaxFiles && a.AllowInsecure == b.AllowInsecure && a.Container == b.Container
}

// sources lists what reads logs.
func (d *daemon) sources() []*part {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*part
	for _, r := range d.logs {
		out = append(out, r.part)
	}
	return out
}

// resume picks a log's positions.
func resume(all []state.Position, log string) []source.Position {
	return slices.DeleteFunc(sourcePositions(all), func(p source.Position) bool { return p.Log != log })
}

func sourcePositions(all []state.Position) []source.Position {
	out := make([]source.Position, len(all))
	for i, p := range all {
		out[i] = source.Position(p)
	}
	return out
}

// startFolders has it told what happens in the folders of logs. Without it they
// are looked at each second.
func (d *daemon) startFolders() *part {
	folders, err := source.NewFolders()
	if err != nil {
		d.Log.Warn("new log files are found once a second, not at once", "err", err)
		return nil
	}
	d.folders = folders
	return startPart(d.serving, func(ctx context.Context) {
		if err := folders.Run(ctx); err != nil {
			d.Log.Error("new log files are no longer found at once", "err", err)
		}
	})
}
