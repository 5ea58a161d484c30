package source

import (
	"path/filepath"
	"sync"
	"time"
)

// Claims says which log reads which file. A file is read for one log only, also
// if several lead to it: its lines would count once for each of them. A path
// belongs to the log that names it outright, else to the first whose patterns it
// matches; a file, which may have several paths, to the log that has it open.
//
// All methods may be called at any time, from any goroutine. The nil Claims lets
// everybody read everything.
type Claims struct {
	mu     sync.Mutex
	logs   []LogFiles
	open   map[identity]string    // which log has a file open
	wanted map[identity]time.Time // open files that another log would read: when it last asked
	left   map[identity]Position
	order  []identity // of left, oldest first
}

// LogFiles is a log that reads files.
type LogFiles struct {
	Log      string
	Patterns []string // as in FilesOptions
}

// NewClaims takes the positions stored for all logs: who reads a file that was
// another log's goes on where that one was.
func NewClaims(stored []Position) *Claims {
	c := &Claims{open: make(map[identity]string), wanted: make(map[identity]time.Time), left: make(map[identity]Position)}
	for _, p := range stored {
		if !isMark(p) && p.Ino != 0 && p.Offset >= c.left[p.identity()].Offset {
			c.leave(p)
		}
	}
	return c
}

// Assign says which logs there are from now on. Earlier ones go before later
// ones. What is open stays with its log.
func (c *Claims) Assign(logs []LogFiles) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs = logs
}

// owner returns the log that a path belongs to, if that isn't the given one.
func (c *Claims) owner(path, log string) string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := OwnerOf(c.logs, path); owner != log {
		return owner
	}
	return ""
}

// OwnerOf returns the log that a path belongs to; none: no pattern leads to it.
func OwnerOf(logs []LogFiles, path string) string {
	first := ""
	for _, l := range logs {
		for _, pattern := range l.Patterns {
			if pattern = filepath.Clean(pattern); pattern == path {
				return l.Log
			}
			if ok, _ := filepath.Match(pattern, path); ok && first == "" && !compressed(path) {
				first = l.Log
			}
		}
	}
	return first
}

// take makes an open file one of a log's, unless it is another's: that one is
// returned. left is where another log has stopped reading it, if one has.
func (c *Claims) take(id identity, log string) (owner string, left *Position) {
	if c == nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.open[id]; owner != "" && owner != log {
		c.wanted[id] = time.Now()
		return owner, nil
	}
	c.open[id] = log
	if p, ok := c.left[id]; ok && p.Log != log {
		p.Read = 0 // for the other log
		return "", &p
	}
	return "", nil
}

// wantedFor is how long a file is taken for wanted after a log has asked for it.
// One that waits asks every few seconds; it may be gone, or lead elsewhere.
const wantedFor = 20 * time.Second

// isWanted reports whether another log waits for a file.
func (c *Claims) isWanted(id identity) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, asked := c.wanted[id]
	return asked && time.Since(at) < wantedFor
}

// release gives back a file that is still open; at is how far it was read, if it
// was.
func (c *Claims) release(id identity, at *Position) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
	delete(c.wanted, id)
	if at != nil {
		c.leave(*at)
	}
}

func (c *Claims) leave(p Position) {
	id := p.identity()
	if _, known := c.left[id]; !known {
		c.order = append(c.order, id)
	}
	c.left[id] = p
	if len(c.order) > maxRemembered {
		delete(c.left, c.order[0])
		c.order = c.order[1:]
	}
}

// shared says that a file is read for another log.
type shared struct{ owner string }

func (e *shared) Error() string {
	return "it is read for log " + e.owner + ": for two, every line would count twice"
}
