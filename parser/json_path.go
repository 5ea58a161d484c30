package parser

import (
	"errors"
	"fmt"
	"strconv"
)

// jsonField is a field of an event, or of the line, that a path leads to.
type jsonField uint8

const (
	jsonNone jsonField = iota
	jsonPeer
	jsonForward
	jsonTimestamp
	jsonRequest
	jsonMethod
	jsonTarget
	jsonProto
	jsonStatus
	jsonBytes
	jsonHost
	jsonReferer
	jsonAgent
	jsonUser
	jsonRecord // which logger of a program wrote the line
	jsonOlder  // the peer, as earlier versions of a program called it
	jsonFieldCount
)

func (f jsonField) String() string {
	return [jsonFieldCount]string{"nothing", "peer", "forward", "time", "request", "method", "target", "proto",
		"status", "bytes", "host", "referer", "agent", "user", "logger", "older peer"}[f]
}

// malformed is the error for a value of f that can't be one.
func (f jsonField) malformed() error {
	switch f {
	case jsonPeer, jsonOlder:
		return errAddress
	case jsonForward:
		return errForward
	case jsonTimestamp:
		return errTime
	case jsonRequest, jsonTarget:
		return errRequest
	case jsonMethod:
		return errMethod
	case jsonProto:
		return errProto
	case jsonStatus:
		return errStatus
	case jsonBytes:
		return errBytes
	case jsonHost:
		return errHost
	case jsonReferer:
		return errReferer
	case jsonAgent:
		return errAgent
	case jsonUser:
		return errUser
	case jsonRecord:
		return errRecord
	}
	return errJSON
}

// set is the parts of an event that f holds.
func (f jsonField) set() Fields {
	return [jsonFieldCount]Fields{
		jsonPeer: FieldPeer, jsonForward: FieldForward, jsonTimestamp: FieldTime,
		jsonRequest: fieldRequest, jsonMethod: FieldMethod, jsonTarget: FieldPath, jsonProto: FieldProto,
		jsonStatus: FieldStatus, jsonBytes: FieldBytes, jsonHost: FieldHost,
		jsonReferer: FieldReferer, jsonAgent: FieldAgent, jsonUser: FieldUser,
	}[f]
}

// jsonNode is a place in the line where something wanted is: the value of a
// field, or an object or array with such a place further in.
type jsonNode struct {
	field jsonField
	all   bool // "[*]": the field is all strings of the array here

	keys    []jsonKey
	lengths uint64 // bit n: some key is n bytes long (63: or longer)
	elems   []jsonElem

	seen uint64 // the scanner's run in which the place was last met
}

type jsonKey struct {
	key  string
	node *jsonNode
}

type jsonElem struct {
	index int
	node  *jsonNode
}

// maxJSONPath is how many steps a path may have, well below what the scanner
// follows.
const maxJSONPath = 16

// add enters a path into the tree below n.
func (n *jsonNode) add(path string, field jsonField) error {
	for steps, rest := 0, path; ; steps++ {
		if n.field != jsonNone {
			return fmt.Errorf("%s is read from there already", n.field)
		}
		if rest == "" {
			break
		}
		if steps == maxJSONPath {
			return fmt.Errorf("more than %d steps", maxJSONPath)
		}
		step, after, err := cutJSONStep(rest, steps == 0)
		if err != nil {
			return err
		}
		rest = after
		switch {
		case step.all:
			if rest != "" {
				return errors.New("[*] must be at the end")
			}
			n.all = true
		case step.index >= 0:
			n = n.elem(step.index)
		default:
			n = n.child(step.key)
		}
		if step.all {
			break
		}
	}
	if n.field != jsonNone {
		return fmt.Errorf("%s is read from there already", n.field)
	}
	if len(n.keys) > 0 || len(n.elems) > 0 {
		return errors.New("another path leads through it")
	}
	n.field = field
	return nil
}

type jsonStep struct {
	key   string
	index int // -1: the step is a key
	all   bool
}

// cutJSONStep splits the first step off a path.
func cutJSONStep(path string, first bool) (step jsonStep, rest string, err error) {
	if path[0] == '[' {
		return cutJSONIndex(path)
	}
	if !first {
		if path[0] != '.' {
			return step, "", errors.New("a dot or a bracket must follow an index")
		}
		path = path[1:]
	}
	var key []byte
	i := 0
	for ; i < len(path) && path[i] != '.' && path[i] != '['; i++ {
		if path[i] == '\\' {
			if i++; i == len(path) {
				return step, "", errors.New("nothing behind the backslash")
			}
		}
		key = append(key, path[i])
	}
	if len(key) == 0 {
		return step, "", errors.New("empty key")
	}
	return jsonStep{key: string(key), index: -1}, path[i:], nil
}

func cutJSONIndex(path string) (step jsonStep, rest string, err error) {
	for i := 1; i < len(path); i++ {
		if path[i] != ']' {
			continue
		}
		text, rest := path[1:i], path[i+1:]
		if text == "*" {
			return jsonStep{all: true}, rest, nil
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return step, "", fmt.Errorf(`%q is no index; to mean a key write \[`, path[:i+1])
		}
		return jsonStep{index: int(n)}, rest, nil
	}
	return step, "", errors.New(`bracket not closed; to mean a key write \[`)
}

// lastJSONKey returns the last key of a path that is one.
func lastJSONKey(path string) (key string) {
	for first := true; path != ""; first = false {
		step, rest, err := cutJSONStep(path, first)
		if err != nil {
			return key
		}
		if step.key != "" {
			key = step.key
		}
		path = rest
	}
	return key
}

func (n *jsonNode) child(key string) *jsonNode {
	for _, k := range n.keys {
		if k.key == key {
			return k.node
		}
	}
	c := &jsonNode{}
	n.keys = append(n.keys, jsonKey{key, c})
	n.lengths |= jsonLengthBit(len(key))
	return c
}

func (n *jsonNode) elem(index int) *jsonNode {
	for _, e := range n.elems {
		if e.index == index {
			return e.node
		}
	}
	c := &jsonNode{}
	n.elems = append(n.elems, jsonElem{index, c})
	return c
}

// find returns the place behind a key of the object at n, or nil.
func (n *jsonNode) find(key []byte) *jsonNode {
	if n.lengths&jsonLengthBit(len(key)) == 0 {
		return nil
	}
	for i := range n.keys {
		if n.keys[i].key == string(key) {
			return n.keys[i].node
		}
	}
	return nil
}

// at returns the place of an element of the array at n, or nil. n may be nil.
func (n *jsonNode) at(index int) *jsonNode {
	if n == nil {
		return nil
	}
	for _, e := range n.elems {
		if e.index == index {
			return e.node
		}
	}
	return nil
}

func jsonLengthBit(n int) uint64 { return 1 << min(n, 63) }
