package parser

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkStages takes the parts of reading a line apart, over lines that
// differ as those of a log do. What a line costs is their sum and, in a replay,
// that it has to be brought from memory.
func BenchmarkStages(b *testing.B) {
	var lines [][]byte
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		peer := fmt.Sprintf("203.%d.%d.%d", i%7, i*31%251, i*17%253)
		if i%7 == 0 {
			peer = fmt.Sprintf("2001:db8:%x:%x::%x", i*7919%65536, i*104729%65536, i)
		}
		lines = append(lines, fmt.Appendf(nil, `%s - - [%s] "GET /page/%d?session=%d HTTP/1.1" 200 %d "https://www.example.com/some/page" "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/140.0" "%s"`,
			peer, at.Add(time.Duration(i)*20*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%1000, i, i%9000, 120+i%20,
			[]string{"-", "198.51.100.4", "198.51.100.4, 203.0.113.9"}[i%3]))
	}
	var ev Event
	f := &clf{fields: clfForward}
	resolver := NewResolver([]netip.Prefix{netip.MustParsePrefix("203.0.0.0/9"), netip.MustParsePrefix("2001:db8::/32")})
	var parsed []Event
	var rest, times [][]byte
	for _, l := range lines {
		if err := f.Parse(l, false, &ev); err != nil {
			b.Fatal(err)
		}
		parsed = append(parsed, ev)
		r, _ := quickPeer(l, &ev)
		times = append(times, r[len("- - ["):][:clfTimeLen])
		rest = append(rest, r[len(`- - [`)+clfTimeLen+len(`] "`):])
	}
	stage := func(name string, do func(i int) bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if !do(n % len(lines)) {
					b.Fatal(name)
				}
			}
		})
	}
	stage("address", func(i int) bool { _, ok := quickPeer(lines[i], &ev); return ok })
	stage("time", func(i int) bool { _, ok := f.clock.parse(times[i]); return ok })
	stage("request and what follows", func(i int) bool {
		r, ok := quickRequest(rest[i], &ev)
		if !ok {
			return false
		}
		if r, ok = quickNumbers(r, &ev); !ok {
			return false
		}
		for range 3 {
			if _, r, ok = quickQuoted(r); !ok {
				return false
			}
			if len(r) > 0 {
				r = r[1:]
			}
		}
		return true
	})
	stage("all of a line", func(i int) bool { return f.Parse(lines[i], false, &ev) == nil })
	stage("resolve", func(i int) bool {
		_, r := resolver.Resolve(parsed[i].Peer, parsed[i].Forward)
		return r != Nobody
	})
}
