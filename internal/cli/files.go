package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/replay"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/parser"
)

// maxFileWarnings is how many files of one pattern are told one by one.
const maxFileWarnings = 3

// fileCheck looks at the files that a configuration names: those that it can't
// know, as they change without it.
type fileCheck struct {
	conf     *config.Config
	user     *access.User // who must be able to read; nil: whoever runs this
	warnings []config.Problem
	found    map[string][]os.FileInfo // by log, what its patterns lead to
	bad      map[string]bool          // files that would be refused
	said     map[string]bool          // what keeps a user out, so that each is told once
}

// checkFiles returns what will likely go wrong with the files of a
// configuration, which is itself in the file path.
func checkFiles(c *config.Config, path string, user *access.User) []config.Problem {
	f := fileCheck{conf: c, user: user, found: map[string][]os.FileInfo{}, bad: map[string]bool{}, said: map[string]bool{}}
	if user != nil {
		if abs, err := filepath.Abs(path); err == nil {
			f.reads(config.Problem{File: path}, []string{abs})
		}
	}
	for i := range c.Logs {
		for n, pattern := range c.Logs[i].Files {
			f.pattern(c.At(n, "logs", c.Logs[i].Name, "files"), &c.Logs[i], pattern)
		}
		f.shared(&c.Logs[i])
		f.content(&c.Logs[i])
		f.source(&c.Logs[i])
	}
	if user != nil {
		for _, l := range c.Lists {
			f.reads(c.At(0, strings.Split(l.Key, ".")...), []string{l.Path})
		}
	}
	return f.warnings
}

// source checks what a log reads that is no file.
func (f *fileCheck) source(l *config.Log) {
	if s := l.Syslog; s != nil {
		for n, name := range s.FromUsers {
			if _, err := access.Lookup(name, nil); err != nil {
				f.warn(f.conf.At(n, "logs", l.Name, "from_users"), "there is no user %q here: until there is, messages of that user are refused", name)
			}
		}
	}
	if l.FIFO == "" {
		return
	}
	at := f.conf.At(0, "logs", l.Name, "fifo")
	switch info, err := os.Stat(l.FIFO); {
	case errors.Is(err, fs.ErrNotExist):
		f.warn(at, "%s isn't there yet: mkfifo makes it", l.FIFO)
	case err != nil:
		f.warn(at, "%s can't be looked at: %v; run this check as root", l.FIFO, err)
	case info.Mode()&fs.ModeNamedPipe == 0:
		f.warn(at, "%s is no named pipe", l.FIFO)
	case info.Mode().Perm()&0o002 != 0:
		f.warn(at, "every user of this machine can write to %s, and have anybody banned", l.FIFO)
	}
}

func (f *fileCheck) warn(at config.Problem, format string, args ...any) {
	at.Msg = fmt.Sprintf(format, args...)
	f.warnings = append(f.warnings, at)
}

// pattern checks what one of a log's paths or patterns stands for.
func (f *fileCheck) pattern(at config.Problem, l *config.Log, pattern string) {
	found, err := source.Match(pattern)
	if err != nil {
		f.warn(at, "%s: %v", pattern, err) // cannot be: it was checked
		return
	}
	f.folders(at, pattern)
	if len(found) > 0 {
		f.reads(at, found)
		f.refused(at, l, found)
		return
	}
	if source.Compressed(pattern) {
		return // of which the configuration alone tells
	}
	if f.user != nil {
		f.denied(at, f.user.Read(pattern)) // once it is there
	}
	switch folder, err := firstMissing(pattern); {
	case err != nil:
		f.warn(at, "%s can't be looked for: %v; run this check as root", pattern, err)
	case folder != "":
		f.warn(at, "no file matches %s, and there is no folder %s: files are read as soon as they appear", pattern, folder)
	default:
		f.warn(at, "no file matches %s: files are read as soon as they appear", pattern)
	}
}

// firstMissing returns the first folder on the way to a file that isn't there,
// as far as no pattern begins; an error if it can't be told.
func firstMissing(pattern string) (folder string, err error) {
	fixed := filepath.Dir(pattern)
	if i := strings.IndexAny(pattern, source.Wildcards); i >= 0 {
		fixed = filepath.Dir(pattern[:i] + "x")
	}
	at := "/"
	for name := range strings.SplitSeq(strings.Trim(fixed, "/"), "/") {
		at = filepath.Join(at, name)
		_, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return at, nil
		case err != nil:
			return "", err
		}
	}
	if strings.ContainsAny(pattern, source.Wildcards) {
		dir, err := os.Open(at)
		if err != nil {
			return "", err
		}
		return "", dir.Close()
	}
	if _, err := os.Lstat(pattern); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return "", nil
}

// folders checks that the folders can be listed in which names are looked for.
func (f *fileCheck) folders(at config.Problem, pattern string) {
	if f.user == nil {
		return
	}
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if !strings.ContainsAny(part, source.Wildcards) {
			continue
		}
		dirs, err := filepath.Glob("/" + strings.Join(parts[:i], "/"))
		if err != nil {
			return // cannot be: it was checked
		}
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				f.denied(at, f.user.List(dir))
			}
		}
	}
}

// reads checks that files can be read.
func (f *fileCheck) reads(at config.Problem, files []string) {
	before := len(f.warnings)
	for _, name := range files {
		if f.user != nil {
			f.denied(at, f.user.Read(name))
			continue
		}
		r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block
		switch {
		case err == nil:
			r.Close()
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENXIO): // or it has gone meanwhile, or is a socket
			f.warn(at, "you can't read it: %v; --user tells whether the service can", err)
		}
	}
	f.shorten(at, before)
}

// refused checks that the daemon would read what is there.
func (f *fileCheck) refused(at config.Problem, l *config.Log, files []string) {
	us := os.Geteuid()
	if f.user != nil {
		us = int(f.user.UID)
	}
	before := len(f.warnings)
	for _, name := range files {
		if err := source.Refuses(name, us, l.AllowInsecure); err != nil {
			f.bad[name] = true
			f.warn(at, "%s will not be read: %v", name, err)
		}
	}
	f.shorten(at, before)
}

// shorten leaves some of the warnings since there were before.
func (f *fileCheck) shorten(at config.Problem, before int) {
	if more := len(f.warnings) - before - maxFileWarnings; more > 1 {
		f.warnings = f.warnings[:before+maxFileWarnings]
		f.warn(at, "the same is true of %d more", more)
	}
}

// denied notes why a user can't read or list something. One that has gone
// meanwhile is none of this check's business.
func (f *fileCheck) denied(at config.Problem, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || f.said[err.Error()] {
		return
	}
	f.said[err.Error()] = true
	f.warn(at, "%v", err)
}

// content compares what a log holds now with what the configuration says of
// it: the first lines of its first file that can be read and has some.
func (f *fileCheck) content(l *config.Log) {
	name, lines := f.first(l)
	p, err := l.Parser()
	if err != nil || len(lines) == 0 {
		return
	}
	parsed, records, quic := 0, 0, 0
	var header headerSample
	for _, line := range lines {
		var ev parser.Event
		switch err := p.Parse(line, false, &ev); {
		case errors.Is(err, parser.ErrNotMine):
			continue
		case err == nil:
			parsed++
			header.add(&ev)
			if bytes.HasPrefix(ev.Proto, []byte("HTTP/3")) {
				quic++
			}
		}
		records++
	}
	if 2*parsed < records {
		at := f.conf.At(0, "logs", l.Name, "format")
		like := ""
		if guess, n := parser.Detect(lines); 2*n > records {
			like = fmt.Sprintf(" (they look like %q)", guess)
		} else if container, guess := replay.WrappedAs(lines); container != "" {
			like = fmt.Sprintf(" (they look like %q, wrapped by %s: container = %q)", guess, container, container)
		}
		f.warn(at, "only %d of the first %d lines of %s parse as %s%s: see tailban probe", parsed, records, name, l.FormatName(), like)
	}
	if !parser.TraitsOf(p).Connection { // of which the configuration alone tells
		f.header(l, name, &header)
	}
	if quic > 0 {
		f.quic(l, name)
	}
}

func (f *fileCheck) first(l *config.Log) (name string, lines [][]byte) {
	for _, pattern := range l.Files {
		found, err := source.Match(pattern)
		if err != nil {
			continue // cannot be: it was checked
		}
		for _, name := range found {
			if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || f.bad[name] {
				continue // a pipe would block
			}
			lines, err := replay.Sample(name, l)
			if err == nil && len(lines) > 0 && len(lines[0]) > 0 {
				return name, lines
			}
		}
	}
	return "", nil
}

// quic warns of rules that ban for requests over HTTP/3, whose address the
// sender can choose.
func (f *fileCheck) quic(l *config.Log, name string) {
	for i := range f.conf.Jails {
		j := &f.conf.Jails[i]
		if j.Observe || j.Passive || !slices.Contains(j.Logs, l.Name) || !countsQUIC(&j.Where) {
			continue
		}
		f.warn(f.conf.At(0, "jails", j.Name, "where"), "%s has requests over HTTP/3, whose sender can give a false address: "+
			"read about HTTP/3 in docs/concepts.md, or leave them out with where.not = { protocol = \"HTTP/3.0\" }", name)
	}
}

func countsQUIC(w *detector.Where) bool {
	const quic = "HTTP/3.0"
	return (len(w.Match.Protocols) == 0 || detector.HasProtocol(w.Match.Protocols, []byte(quic))) &&
		!detector.HasProtocol(w.Not.Protocols, []byte(quic))
}
