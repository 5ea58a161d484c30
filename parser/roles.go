package parser

import (
	"fmt"
	"strings"
)

// role says which part of an event a variable gives.
type role uint8

const (
	roleSkip role = iota
	rolePeer
	roleTime
	roleForward
	roleRequest // method, target and protocol
	roleMethod
	roleTarget
	rolePath // a target of which the server has undone the percent codes
	roleProto
	roleHost
	roleStatus
	roleBytes
	roleReferer
	roleAgent
	roleUser

	roles // how many there are
)

// field returns what the role gives.
func (r role) field() Fields {
	switch r {
	case rolePeer:
		return FieldPeer
	case roleTime:
		return FieldTime
	case roleForward:
		return FieldForward
	case roleRequest:
		return fieldRequest
	case roleMethod:
		return FieldMethod
	case roleTarget, rolePath:
		return FieldPath
	case roleProto:
		return FieldProto
	case roleHost:
		return FieldHost
	case roleStatus:
		return FieldStatus
	case roleBytes:
		return FieldBytes
	case roleReferer:
		return FieldReferer
	case roleAgent:
		return FieldAgent
	case roleUser:
		return FieldUser
	}
	return 0
}

// critical: a wrong value of it bans somebody else or hides somebody.
func (r role) critical() bool {
	switch r {
	case rolePeer, roleTime, roleForward, roleRequest, roleMethod, roleStatus:
		return true
	}
	return false
}

// malformed returns the error for a bad value.
func (r role) malformed() *MalformedError {
	switch r {
	case rolePeer:
		return errAddress
	case roleTime:
		return errTime
	case roleForward:
		return errForward
	case roleRequest, roleMethod, roleTarget, rolePath, roleProto:
		return errRequest
	case roleHost:
		return errHost
	case roleStatus:
		return errStatus
	case roleBytes:
		return errBytes
	case roleReferer:
		return errReferer
	case roleAgent:
		return errAgent
	case roleUser:
		return errUser
	}
	return errText
}

var (
	errHost = &MalformedError{"host"}
	errText = &MalformedError{"text between fields"}
)

// assignRoles leaves each role to one variable, the rest are skipped, and
// gives the forwarding header its role.
func (t *template) assignRoles(o Options) error {
	if err := t.assignForward(o); err != nil {
		return err
	}
	var best [roles]*variable
	for _, v := range t.vars {
		if b := best[v.role]; b == nil || v.rank > b.rank {
			best[v.role] = v
		}
	}
	for _, v := range t.vars {
		inRequest := v.role == roleMethod || v.role == roleTarget || v.role == roleProto
		if v != best[v.role] || inRequest && best[roleRequest] != nil {
			t.drop(v, best[rolePeer], o)
		}
	}
	if v := best[roleTarget]; v != nil && v.role == roleTarget && v.decoded {
		v.role = rolePath
	}
	if best[rolePeer] == nil {
		return &SpecError{Offset: t.size, Msg: "the address of the client's connection is missing",
			Hint: "log $remote_addr (nginx) or %a (Apache)"}
	}
	if best[roleTime] == nil {
		return &SpecError{Offset: t.size, Msg: "the time is missing", Hint: "log [$time_local] (nginx) or %t (Apache)"}
	}
	for _, v := range t.vars {
		if v.some && (v.role == rolePeer || v.role == roleTime || v.role == roleForward) {
			return v.fail("is written for answers with some statuses only: the others would count for nobody", "leave the statuses out")
		}
	}
	return best[roleTime].checkTime(o)
}

// drop makes v a variable that is skipped. The address that the server
// resolved itself, logged beside the peer, is a forwarding header in all but
// name: it is used if there is no other.
func (t *template) drop(v, peer *variable, o Options) {
	resolved := v.role == rolePeer && peer.direct && !v.direct
	v.role = roleSkip
	if resolved && o.Header == "" && !t.has(roleForward) {
		v.role = roleForward
	}
}

func (t *template) has(r role) bool {
	for _, v := range t.vars {
		if v.role == r {
			return true
		}
	}
	return false
}

// assignForward finds the forwarding header.
func (t *template) assignForward(o Options) error {
	if o.Header == NoHeader {
		return nil
	}
	name := "x_forwarded_for"
	if o.Header != "" {
		name = strings.ReplaceAll(strings.ToLower(o.Header), "-", "_")
	}
	found := false
	for _, v := range t.vars {
		if v.header == name {
			v.role, found = roleForward, true
		}
	}
	if !found && o.Header != "" {
		return &SpecError{Offset: t.size, Msg: fmt.Sprintf("the header %s is to be used, but is not logged", o.Header),
			Hint: fmt.Sprintf(`add "$http_%s" (nginx) or "%%{%s}i" (Apache), with the quotes`, name, o.Header)}
	}
	return nil
}

// checkTime refuses a time that is no instant, and gives it its zone.
func (v *variable) checkTime(o Options) error {
	f := v.time
	missing := partsLocal &^ f.has
	if !o.Now.IsZero() {
		missing &^= partYear
	}
	switch {
	case missing != 0:
		return v.fail("this time has no "+missing.first(), "use %{%Y-%m-%dT%H:%M:%S%z}t or %t")
	case f.has&partHour12 != 0 && f.has&partHalf == 0:
		return v.fail("this time has an hour of twelve, without AM or PM", "use %H, or add %p")
	case f.has&partOffset == 0 && o.Zone == nil:
		return v.fail("this time has no offset from UTC", "add %z to it, or set the log's timezone")
	}
	if f.has&partsInstant != partsInstant || f.kind == timeISO && o.Zone != nil {
		f.local = newLocalClock(o.Zone, o.Now)
	}
	return nil
}

// first names the biggest part of the set.
func (p timeParts) first() string {
	for i, name := range [...]string{"year", "month", "day", "hour", "minute", "second"} {
		if p&(1<<i) != 0 {
			return name
		}
	}
	return "offset"
}
