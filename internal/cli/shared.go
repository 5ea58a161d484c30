package cli

import (
	"os"
	"slices"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
)

// shared warns of files that are there now and that another log reads, too: by
// a pattern, or under another name.
func (f *fileCheck) shared(l *config.Log) {
	for n, pattern := range l.Files {
		count, example, owner := 0, "", ""
		paths, err := source.Match(pattern)
		if err != nil {
			continue // cannot be: it was checked
		}
		for _, path := range paths {
			if other := f.reader(l, path); other != "" {
				if count++; count == 1 {
					example, owner = path, other
				}
			}
		}
		at := f.conf.At(n, "logs", l.Name, "files")
		switch {
		case count == 1:
			f.warn(at, "%s is also in logs.%s: it is read for that log only, as its lines would count twice", example, owner)
		case count > 1:
			f.warn(at, "%s and %d more are also in other logs (it in logs.%s): each is read for one log only, as its lines would count twice",
				example, count-1, owner)
		}
	}
}

// reader returns the other log that a path of a log is read for, if there is
// one. Of those that another log names outright the configuration's own warnings
// tell.
func (f *fileCheck) reader(l *config.Log, path string) string {
	var logs []source.LogFiles
	for i := range f.conf.Logs {
		other := &f.conf.Logs[i]
		if other.Name != l.Name && slices.Contains(other.Files, path) {
			return ""
		}
		logs = append(logs, source.LogFiles{Log: other.Name, Patterns: other.Files})
	}
	if owner := source.OwnerOf(logs, path); owner != l.Name {
		return owner
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	for _, other := range logs { // whoever comes first has it first
		if other.Log == l.Name {
			break
		}
		if slices.ContainsFunc(f.files(logs, other), func(o os.FileInfo) bool { return os.SameFile(o, info) }) {
			return other.Log
		}
	}
	return ""
}

// files are those that a log reads by its patterns, looked up once.
func (f *fileCheck) files(logs []source.LogFiles, l source.LogFiles) []os.FileInfo {
	if infos, known := f.found[l.Log]; known {
		return infos
	}
	var infos []os.FileInfo
	for _, pattern := range l.Patterns {
		paths, err := source.Match(pattern)
		if err != nil {
			continue // cannot be: it was checked
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil && source.OwnerOf(logs, path) == l.Log {
				infos = append(infos, info)
			}
		}
	}
	f.found[l.Log] = infos
	return infos
}
