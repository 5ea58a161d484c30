package parser

import "strings"

// Fields is a set of the parts of an [Event] that a format logs.
type Fields uint16

const (
	FieldTime Fields = 1 << iota
	FieldPeer
	FieldForward
	FieldMethod
	FieldPath // the request's target, perhaps without its query
	FieldProto
	FieldHost
	FieldStatus
	FieldBytes
	FieldReferer
	FieldAgent
	FieldUser
)

// fieldRequest is what a whole request line holds.
const fieldRequest = FieldMethod | FieldPath | FieldProto

// Has reports whether all of want are in the set.
func (f Fields) Has(want Fields) bool { return f&want == want }

// String lists the fields, as in "time, peer, method".
func (f Fields) String() string {
	var names []string
	for i, name := range [...]string{"time", "peer", "forwarding header", "method", "path", "protocol",
		"host", "status", "bytes", "referer", "agent", "user"} {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
