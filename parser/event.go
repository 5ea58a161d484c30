// Package parser turns bytes into events: log formats, timestamps, and the
// resolution of the client behind trusted proxies.
//
// It imports nothing of ours, keeps no clock, and is the one place where an
// address enters the program (see [ParseAddr]).
package parser

import (
	"errors"
	"net/netip"
)

// Event is one parsed access-log line.
//
// Byte fields alias the line that was parsed, or a buffer of its [Format]: they
// are valid until the next Parse. They hold the text as logged: escapes of the log format are not undone. A
// field that the format lacks, or that was logged as "-", is nil.
type Event struct {
	Time    int64      // nanoseconds since the Unix epoch, as logged
	Peer    netip.Addr // address of the TCP connection; unmapped, no zone
	Forward []byte     // the forwarding header's value; of Forwarded (RFC 7239) the nodes only, as X-Forwarded-For would have them
	Method  []byte
	Target  []byte // request target as sent, a backslash escaped in any format; see [AppendPath]
	Proto   []byte
	Host    []byte // the name of the host asked for, perhaps with a port
	Status  int    // 0: unknown
	Bytes   int64  // -1: unknown
	Referer []byte
	Agent   []byte
	User    []byte

	// Partial says that the line was longer than the reader's limit and was
	// cut: fields behind the cut are unknown.
	Partial bool
}

// ErrNotMine is returned for lines that are no records at all: empty ones and
// comments.
var ErrNotMine = errors.New("not a record")

// MalformedError says which part of a line could not be parsed. Parsers
// return the same few values again and again, so that a flood of bad lines
// allocates nothing.
type MalformedError struct {
	Field string // "address", "time", "request", …
}

func (e *MalformedError) Error() string { return "malformed " + e.Field }

// Format parses the lines of one log.
//
// A Format remembers the last timestamp it saw and is therefore for one
// goroutine; make one per reader.
type Format interface {
	// Parse reads one line, without its line feed, into ev, overwriting all
	// of it. cut says that line is only the beginning of a longer one. The
	// error is nil, ErrNotMine or a *MalformedError; after an error ev holds
	// nothing of use, except that ev.Peer is valid if the address was read.
	Parse(line []byte, cut bool, ev *Event) error

	// Fields says what the format logs.
	Fields() Fields
}

// Keep appends the event's texts to buf, has the event refer to them there, and
// returns the longer buf: the event is valid for as long as that is then.
func (ev *Event) Keep(buf []byte) []byte {
	for _, text := range [...]*[]byte{&ev.Forward, &ev.Method, &ev.Target, &ev.Proto, &ev.Host, &ev.Referer, &ev.Agent, &ev.User} {
		if *text == nil {
			continue
		}
		from := len(buf)
		buf = append(buf, *text...)
		*text = buf[from:len(buf):len(buf)]
	}
	return buf
}
