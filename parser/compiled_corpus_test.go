package parser

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/corpus"
)

// Lines that real servers wrote, in formats given as text, against what
// happened on the wire: each line gives its peer, time and client.
func TestCompiledRealServers(t *testing.T) {
	dir := corpus.Path(t, "corpus", "access", "real")
	resolver := NewResolver(prefixes("198.51.100.7/32", "10.0.0.0/8", "fd00::/8"))
	truth := readTruth(t, filepath.Join(dir, "truth.jsonl"))
	const apacheCombined = apacheCommon + ` "%{Referer}i" "%{User-Agent}i"`
	for file, spec := range map[string]string{
		"nginx/combined.log":            nginxCombined,
		"nginx/main.log":                nginxMain,
		"nginx/iso.log":                 `$time_iso8601 $remote_addr "$request" $status`,
		"nginx/vhost.log":               `$host ` + nginxCombined,
		"nginx/proxy_protocol.log":      `$proxy_protocol_addr ` + nginxCombined,
		"nginx/realip_recursive.log":    `$remote_addr $realip_remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`,
		"nginx/json_default_escape.log": `{"time":"$time_iso8601","remote_addr":"$remote_addr","request":"$request","status":"$status","ua":"$http_user_agent","xff":"$http_x_forwarded_for"}`,
		"nginx/json.log": `escape=json {"time":"$time_iso8601","msec":$msec,"remote_addr":"$remote_addr","remote_user":"$remote_user","xff":"$http_x_forwarded_for",` +
			`"request":"$request","status":$status,"bytes":$body_bytes_sent,"referer":"$http_referer","ua":"$http_user_agent","host":"$host"}`,
		"apache/combined.log":       apacheCombined,
		"apache/vhost_combined.log": `%v:%p ` + apacheCombined,
		"apache/common.log":         apacheCommon,
		"apache/json.log":           `{"t":"%{%Y-%m-%dT%H:%M:%S%z}t","a":"%h","r":"%r","s":%>s,"ua":"%{User-Agent}i","xff":"%{X-Forwarded-For}i"}`,
		// apache/xff.log has the header without quotes before the user: its
		// format is refused, see TestNewRefuses.
	} {
		t.Run(file, func(t *testing.T) {
			format := mustNew(t, spec, Options{})
			for i, line := range readLines(t, filepath.Join(dir, file)) {
				want, ok := truth[file][i+1]
				if !ok {
					t.Fatalf("no truth for line %d", i+1)
				}
				var ev Event
				if err := format.Parse(line, false, &ev); err != nil {
					t.Errorf("line %d (%s): %v", i+1, want.Desc, err)
					continue
				}
				if ev.Peer.String() != want.Peer {
					t.Errorf("line %d (%s): peer %v, want %s", i+1, want.Desc, ev.Peer, want.Peer)
				}
				// See TestRealServers.
				if d := time.Unix(0, ev.Time).Sub(time.Unix(0, int64(want.Sent*1e9))); d < -2*time.Second || d > 12*time.Second {
					t.Errorf("line %d (%s): time is off by %v", i+1, want.Desc, d)
				}
				if !format.Fields().Has(FieldForward) {
					continue
				}
				wantClient := ""
				if want.Client != nil && canBeClient(mustAddr(t, *want.Client)) {
					wantClient = *want.Client
				}
				got := ""
				if client, how := resolver.Resolve(ev.Peer, ev.Forward); how == Direct || how == Forwarded {
					got = client.String()
				}
				if got != wantClient {
					t.Errorf("line %d (%s): client %q of %q, want %q", i+1, want.Desc, got, ev.Forward, wantClient)
				}
			}
		})
	}
}
