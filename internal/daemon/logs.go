package daemon

import (
	"context"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// reading is a log that is read.
type reading struct {
	*part
	files *source.Files
}

// follow begins to read a log, from the positions stored for it.
func (d *daemon) follow(l *config.Log, positions []state.Position) {
	r := &reading{files: source.NewFiles(source.FilesOptions{
		Log: l.Name, Patterns: l.Files, MaxLine: l.MaxLine,
		Resume: resume(positions, l.Name), Logger: d.Log,
		FromStart: l.FromStart, MaxFiles: l.MaxFiles, AllowInsecure: l.AllowInsecure, Container: source.Container(l.Container),
	})}
	name := l.Name
	r.part = startPart(d.reading, func(ctx context.Context) {
		if err := r.files.Run(ctx, d.batches); err != nil {
			d.Log.Error("a log is no longer read", "log", name, "err", err)
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs[name] = r
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
	var out []source.Position
	for _, p := range all {
		if p.Log == log {
			out = append(out, source.Position(p))
		}
	}
	return out
}
