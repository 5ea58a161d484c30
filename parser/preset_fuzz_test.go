package parser

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// FuzzPresets feeds bytes as they come: no panic, errors of the known kinds,
// and no address but the one that stands where the preset has it.
func FuzzPresets(f *testing.F) {
	for _, line := range presetLines() {
		f.Add([]byte(line), false)
		f.Add([]byte("<134>1 2026-03-05T10:00:02.5+01:00 lb haproxy 12 - - "+line), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut bool) {
		for _, name := range FormatNames() {
			p := mustPreset(t, name, time.UTC)
			var ev Event
			err := p.Parse(line, cut, &ev)
			var bad *MalformedError
			if err != nil && !errors.Is(err, ErrNotMine) && !errors.As(err, &bad) {
				t.Fatalf("%s: %q: error of an unknown kind: %v", name, line, err)
			}
			if err == nil && !ev.Peer.IsValid() {
				t.Fatalf("%s: %q: no peer", name, line)
			}
		}
	})
}

// FuzzSquid writes what a client sends where Squid does, without the blanks and
// brackets that it encodes: address, time, status and bytes are right, and so
// is the target, in all three formats.
func FuzzSquid(f *testing.F) {
	f.Add("/a", "bob", "x", false)
	f.Add(`" 200 5 A:B`, `b" [`, `" "x" A:B`, true)
	encode := strings.NewReplacer("[", "%5B", "]", "%5D", "\n", "%0A")
	f.Fuzz(func(t *testing.T, url, user, agent string, cut bool) {
		url = strings.NewReplacer(" ", "%20", "\n", "%0A").Replace("http://" + url)
		user, agent = "u"+encode.Replace(user), strings.ReplaceAll(agent, "\n", "")
		const common = `192.0.2.1 - %s [05/Mar/2026:10:00:01 +0100] "GET %s HTTP/1.1" 404 12`
		for name, line := range map[string]string{
			"squid":          fmt.Sprintf(`1772701201.000     12 192.0.2.1 TCP_MISS/404 12 GET %s %s HIER_DIRECT/192.0.2.7 text/html`, url, strings.ReplaceAll(user, " ", "%20")),
			"squid-common":   fmt.Sprintf(common+` TCP_MISS:HIER_DIRECT`, user, url),
			"squid-combined": fmt.Sprintf(common+` "-" "%s" TCP_MISS:HIER_DIRECT`, user, url, agent),
		} {
			var ev Event
			err := mustPreset(t, name, nil).Parse([]byte(line), false, &ev)
			if err != nil || ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 || sent(&ev) != url || ev.Status != 404 || ev.Bytes != 12 {
				t.Fatalf("%s: %q gave %v, %s", name, line, err, show(&ev))
			}
			if cut && mustPreset(t, name, nil).Parse([]byte(line[:len(line)/2]), true, &ev) == nil &&
				(ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 || ev.Status != 0 && ev.Status != 404) {
				t.Fatalf("%s: half of %q gave %s", name, line, show(&ev))
			}
		}
	})
}

// FuzzGunicorn writes what a client sends where gunicorn does, with a backslash
// before quotes only: all of it comes back. Where the referer ends and the agent
// begins can't always be told, as backslashes of the client's stay single.
func FuzzGunicorn(f *testing.F) {
	f.Add("bob", "a", "r", "x")
	f.Add(`] "GET`, `\" 200 5 "`, `\`, `" "`)
	p := mustPreset(f, "gunicorn", nil)
	f.Fuzz(func(t *testing.T, user, query, referer, agent string) {
		write := func(s string) string {
			return strings.ReplaceAll(strings.NewReplacer("\n", "", "\r", "").Replace(s), `"`, `\"`)
		}
		user, query, referer, agent = "u"+write(user), write(query), "r"+write(referer), "a"+write(agent)
		line := `192.0.2.1 - ` + user + ` [05/Mar/2026:10:00:01 +0100] "GET /?` + query + ` HTTP/1.1" 404 12 "` + referer + `" "` + agent + `"`
		var ev Event
		if err := p.Parse([]byte(line), false, &ev); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 || ev.Status != 404 || ev.Bytes != 12 || string(ev.User) != user ||
			sent(&ev) != "/?"+strings.ReplaceAll(query, `\"`, `"`) || string(ev.Referer)+`" "`+string(ev.Agent) != referer+`" "`+agent {
			t.Fatalf("%q gave %s", line, show(&ev))
		}
	})
}

// FuzzTraefikCLF writes lines as Traefik does, with nothing escaped: address
// and tail stay what they are whatever a client sends, and so do time, path
// and status if the user's name and the query are decent.
func FuzzTraefikCLF(f *testing.F) {
	f.Add("r", "x")
	f.Add(`" 200 5 "-" "-" 1 "a" "b" 1ms`, `\`)
	f.Add(`[01/Jan/2020:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "`, `" "`)
	p := mustPreset(f, "traefik-clf", nil)
	f.Fuzz(func(t *testing.T, referer, agent string) {
		line := `192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET /a?b HTTP/1.1" 404 12 "` + referer + `" "` + agent + `" 77 "web@docker" "http://192.0.2.7:80" 2ms`
		var ev Event
		if err := p.Parse([]byte(line), false, &ev); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ev.Peer != netip.MustParseAddr("192.0.2.1") || ev.Time != 1772701201e9 || string(ev.Target) != "/a?b" || ev.Status != 404 || ev.Bytes != 12 {
			t.Fatalf("%q gave %s", line, show(&ev))
		}
		if !strings.Contains(referer, `" "`) && string(ev.Agent) != string(dashNil([]byte(agent))) && !strings.HasSuffix(referer, `" `) && !strings.HasSuffix(referer, `"`) {
			t.Fatalf("%q: agent %q, want %q", line, ev.Agent, agent)
		}
	})
}

// FuzzHAProxy puts what a client sends where HAProxy writes it, encoded as it
// does: the address, the time and the request are right. text is that of a
// captured cookie, or of the TLS server's name of httpslog.
func FuzzHAProxy(f *testing.F) {
	f.Add("/a", "x", "c", true)
	f.Add(`/" 200 `, `} "GET`, `"`, true)
	f.Add("/a", "x", "www.example.com", false)
	f.Add(`/" 200 `, `} "GET`, `" "GET /forged HTTP/1.1"`, false)
	p := mustPreset(f, "haproxy", zoneHAProxy)
	f.Fuzz(func(t *testing.T, target, header, text string, isCookie bool) {
		cookie, tail := "-", " 0/0/0/0/0 "+text+"/TLSv1.3/TLS_AES_256_GCM_SHA384"
		if isCookie {
			cookie, tail = "c="+text, ""
		}
		line := `192.0.2.1:1 [05/Mar/2026:10:00:01.250] web app/a1 0/0/1/2/3 404 12 ` + cookie + ` - ---- 1/1/0/0/0 0/0 {` +
			escapeHAProxy(header) + `} "GET /` + escapeHAProxy(target) + ` HTTP/1.1"` + tail
		var ev Event
		if err := p.Parse([]byte(line), false, &ev); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201250e6 || ev.Status != 404 || sent(&ev) != "/"+target || ev.Partial {
			t.Fatalf("%q gave %s", line, show(&ev))
		}
	})
}

// escapeHAProxy writes a value as HAProxy does: "#" and two hexadecimal
// digits for what could be mistaken.
func escapeHAProxy(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 127 || strings.IndexByte(`"#{|}`, c) >= 0 {
			b.WriteString("#" + hex[c>>4:c>>4+1] + hex[c&15:c&15+1])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
