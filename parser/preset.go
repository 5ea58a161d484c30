package parser

import (
	"fmt"
	"time"
)

// FormatNames lists the presets, the ones with fewer fields first.
func FormatNames() []string {
	return []string{
		"common", "lighttpd", "gunicorn", "combined", "nginx", "vhost_combined", "ingress-nginx", "traefik-clf",
		"squid", "squid-common", "squid-combined", "haproxy", "nginx-json", "traefik", "caddy",
	}
}

// NewFormat makes a parser for a preset, with the local zone for times
// without an offset.
func NewFormat(name string) (Format, error) { return NewPreset(name, nil) }

// NewPreset makes a parser for a preset. zone is for presets whose times have
// no offset (haproxy); nil is the local zone, which is right for a log that
// was written on this host.
func NewPreset(name string, zone *time.Location) (Format, error) {
	return preset(name, Options{Zone: zone})
}

// preset makes a parser for a preset with the zone and the now of the options.
//
// Where each preset has the peer and the forwarding header from, and how that
// is known, is said at the type or function that makes it.
func preset(name string, o Options) (Format, error) {
	switch name {
	case "common":
		return &clf{fields: clfCommon}, nil
	case "combined":
		return &clf{fields: clfCombined}, nil
	case "nginx":
		return &clf{fields: clfForward}, nil
	case "vhost_combined":
		return &vhostCombined{clf{fields: clfCombined}}, nil
	case "lighttpd":
		return &lighttpd{clf{fields: clfCombined}}, nil
	case "ingress-nginx":
		return &ingressNginx{clf{fields: clfCombined}}, nil
	case "traefik-clf":
		return &traefikCLF{}, nil
	case "gunicorn":
		return &gunicorn{}, nil
	case "squid":
		return newSquid(), nil
	case "squid-common":
		return &squidCLF{}, nil
	case "squid-combined":
		return &squidCLF{combined: true}, nil
	case "haproxy":
		return newHAProxy(o.Zone, o.Now), nil
	case "nginx-json":
		return newNginxJSON()
	case "traefik":
		return newTraefikJSON()
	case "caddy":
		return newCaddyJSON()
	}
	return nil, fmt.Errorf("no log format is called %q", name)
}
