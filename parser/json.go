package parser

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// JSONFields says where the fields of an event stand in a JSON line.
//
// A path is the keys from the outermost object inwards, with a dot between
// them: "request.remote_ip". A backslash takes away the meaning of the
// character behind it, for keys that hold a dot, a bracket or a backslash:
// `request.headers.X\.Y`. An element of an array is "[n]", counted from zero;
// "[*]" at the end stands for all strings of an array, joined by ", " as the
// lines of a repeated header are (RFC 9110, section 5.3):
// "request.headers.X-Forwarded-For[*]". Keys compare byte by byte.
//
// An empty path means that the log lacks the field; Peer and Time must be
// given.
type JSONFields struct {
	Peer    string // address of the TCP connection, bare or with a port; IPv6 with a port in brackets
	Forward string // the forwarding header (Forwarded if the last key is that, perhaps behind "http_" or "request_"; else as X-Forwarded-For), whole: a log that cuts it, as HAProxy's captures do, cuts off the part to be trusted
	Time    string // see TimeForm

	// Request is a whole request line. Where Method, Target or Proto are
	// given and hold something, they win over its parts.
	Request string
	Method  string
	Target  string // request target or only its path
	Proto   string

	Status  string // number, or digits in a string
	Bytes   string // number, or digits in a string
	Host    string
	Referer string
	Agent   string
	User    string

	// TimeForm is how Time is written: "rfc3339" (offset with or without a
	// colon, required), "clf", or since the epoch in "s", "ms", "us" or "ns",
	// as a number or a string, with decimals or without, from the year 2000 on.
	// "epoch" tells these four apart by magnitude. "local" is "rfc3339" of which
	// the offset may be missing: the time is then that of Zone. Empty: whichever
	// of all these it looks like, "local" if there is a Zone.
	TimeForm string

	Zone *time.Location // of times without their offset; nil: there are none
	Now  time.Time      // as in [Options]
}

// The parts of a JSON line that can be wrong, as the errors parsers return.
var (
	errJSON      = &MalformedError{"JSON"}
	errNesting   = &MalformedError{"JSON: nested too deeply"}
	errDuplicate = &MalformedError{"JSON: key twice"}
	errMethod    = &MalformedError{"method"}
	errProto     = &MalformedError{"protocol"}
	errRecord    = &MalformedError{"logger"}
)

// jsonFormat parses JSON lines: one object a line.
//
// What keeps a client from choosing an address:
//
//   - A path is followed from the outermost object. Text that looks like an
//     object inside a string is text, and a key of the same name further in
//     is another path.
//   - A key on a path that comes twice in its object makes the line malformed,
//     without a peer. No server writes one twice; so whoever wrote the second,
//     or the first, got a quote past the server, and neither can be believed.
//   - The peer is a string that is an address from end to end.
//
// A line that ends inside the object, whether our reader cut it or the server
// did (syslog has limits of its own), is what stood before the end if peer
// and time are among it, and Partial: or else a long request would be a way
// to hide. The order of keys decides that, so a format should have the two
// first.
type jsonFormat struct {
	scan   jsonScan
	root   *jsonNode
	time   jsonTime
	fields Fields
	bare   bareTarget
	rfc    *forwarded // the forwarding header is Forwarded; else nil
	whole  bool       // the request line goes before method, target and protocol
	record []byte     // what the jsonRecord field begins with in lines to take
}

// NewJSON makes a parser for JSON lines.
//
// Strings without escapes alias the line, like those of other formats. Others
// are decoded to a buffer of the Format, and hence all byte fields of an
// event are valid only until the next Parse. The buffer never outgrows the
// longest line. Besides JSON's own escapes \xHH and \v are understood, which
// nginx (escape=default) and Apache write into what is meant to be JSON.
func NewJSON(f JSONFields) (Format, error) { return newJSON(f, "", "") }

// newJSON makes a parser that takes only those lines in which the string at
// path record, if there is one, begins with prefix.
func newJSON(f JSONFields, record, prefix string) (*jsonFormat, error) {
	if f.Peer == "" {
		return nil, errors.New("JSON fields: no path for peer; name the key that holds the address of the connection")
	}
	if f.Time == "" {
		return nil, errors.New("JSON fields: no path for time")
	}
	form, ok := parseJSONTimeForm(f.TimeForm)
	if !ok {
		return nil, fmt.Errorf("JSON fields: no time form is called %q; there are rfc3339, local, clf, epoch, s, ms, us and ns", f.TimeForm)
	}
	if form == jsonTimeLocal && f.Zone == nil {
		return nil, errors.New("JSON fields: times of the form local need a time zone: set the log's timezone")
	}
	j := &jsonFormat{root: &jsonNode{}, time: jsonTime{form: form}, record: []byte(prefix)}
	if f.Zone != nil && form != jsonTimeRFC3339 {
		j.time.local = newLocalClock(f.Zone, f.Now)
	}
	paths := [jsonFieldCount]string{
		jsonPeer: f.Peer, jsonForward: f.Forward, jsonTimestamp: f.Time,
		jsonRequest: f.Request, jsonMethod: f.Method, jsonTarget: f.Target, jsonProto: f.Proto,
		jsonStatus: f.Status, jsonBytes: f.Bytes, jsonHost: f.Host,
		jsonReferer: f.Referer, jsonAgent: f.Agent, jsonUser: f.User, jsonRecord: record,
	}
	for field, path := range paths {
		if path == "" {
			continue
		}
		if err := j.root.add(path, jsonField(field)); err != nil {
			return nil, fmt.Errorf("JSON fields: path %q for %s: %w", path, jsonField(field), err)
		}
		j.fields |= jsonField(field).set()
	}
	if isForwarded(lastJSONKey(f.Forward)) {
		j.rfc = new(forwarded)
	}
	return j, nil
}

func (f *jsonFormat) Fields() Fields { return f.fields }

func (f *jsonFormat) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = bytes.TrimLeft(trimLine(line), " \t")
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	switch err := f.scan.run(line, f.root); err {
	case nil:
	case errLineEnd:
		ev.Partial = true
	case errDuplicate:
		return err
	default:
		f.fillPeer(ev)
		return err
	}
	if r := f.scan.got[jsonRecord]; len(r.text) > 0 && !bytes.HasPrefix(r.text, f.record) {
		return ErrNotMine
	}
	return f.fill(ev)
}
