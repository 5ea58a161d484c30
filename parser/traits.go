package parser

// Traits is what a format says of its fields, beyond that it has them, as far
// as its text or its preset tells.
type Traits struct {
	// Connection: the peer is logged by a variable for the address of the
	// connection, as it is where the server puts a client that a proxy reports
	// in its place ($realip_remote_addr, %{c}a).
	Connection bool

	// HeaderAsPeer: the address is that of a header where there is a proxy, and
	// none of the connection is logged.
	HeaderAsPeer bool

	// Redirected are fields that the server changes when it passes a request on
	// to another page of its own (error_page, try_files, ErrorDocument).
	Redirected Fields
}

// TraitsOf returns what is known of a format of this package.
func TraitsOf(f Format) Traits {
	switch f := f.(type) {
	case *compiled:
		return f.traits
	case *traefikCLF:
		return Traits{HeaderAsPeer: true}
	}
	return Traits{}
}

// setTraits notes what the variables in use say.
func (c *compiled) setTraits(t *template) {
	for _, v := range t.vars {
		if v.role == rolePeer && v.direct {
			c.traits.Connection = true
		}
		if v.redirected {
			c.traits.Redirected |= v.role.field()
		}
	}
}
