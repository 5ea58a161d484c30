package guard

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/tailban/tailban/parser"
)

const (
	maxResolv    = 64 << 10 // bytes of a resolv.conf
	maxResolvers = 32       // name servers of a file; glibc asks three
	maxLinks     = 256      // files of links
)

// resolvers lists the name servers that p's files name, each once. A file that
// is not there or can't be read names none: a host can do without.
func resolvers(p Paths) []Entry {
	var out []Entry
	add := func(path string, servers func([]byte) []netip.Addr) {
		data, err := readUpTo(path, maxResolv)
		if err != nil {
			return
		}
		for _, a := range servers(data) {
			e := Entry{netip.PrefixFrom(a, a.BitLen()), "resolver"}
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	for _, path := range p.Resolv {
		add(path, nameServers)
	}
	for _, path := range filesOf(p.Links) {
		add(path, linkServers)
	}
	return out
}

// filesOf lists the first files of a folder.
func filesOf(dir string) []string {
	if dir == "" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(maxLinks)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names
}

// nameServers reads a resolv.conf(5): a keyword begins its line, and what
// follows the address is nobody's. The zone of a scoped address (fe80::1%eth0)
// is cut. Those on this host, as systemd-resolved's 127.0.0.53, are left out.
func nameServers(data []byte) []netip.Addr {
	var out []netip.Addr
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("nameserver"))
		if !ok || len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if out = appendServer(out, words[0]); len(out) == maxResolvers {
			break
		}
	}
	return out
}

// linkServers reads DNS= of a file of /run/systemd/netif/links, as
// sd_network_link_get_dns of systemd does: addresses with blanks between, each
// with a port, an interface and a server's name where it has them (192.0.2.1:53,
// [2001:db8::1]:853%2#ns.example; link_save_dns in networkd-state-file.c).
func linkServers(data []byte) []netip.Addr {
	var out []netip.Addr
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("DNS="))
		if !ok {
			continue
		}
		for word := range bytes.FieldsSeq(rest) {
			word, _, _ = bytes.Cut(word, []byte("#"))
			word, _, _ = bytes.Cut(word, []byte("%"))
			if p, err := netip.ParseAddrPort(string(word)); err == nil {
				word = []byte(p.Addr().String())
			}
			if out = appendServer(out, word); len(out) == maxResolvers {
				return out
			}
		}
	}
	return out
}

// appendServer appends the address of a server on another host.
func appendServer(out []netip.Addr, text []byte) []netip.Addr {
	a, ok := parser.ParseAddr(text)
	if !ok || a.IsLoopback() || a.IsUnspecified() || slices.Contains(out, a) {
		return out
	}
	return append(out, a)
}
