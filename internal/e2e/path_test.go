package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// What a jail compares is what nginx serves: for random targets the
// normalised path equals nginx's own $uri.
func TestPathsAsNginxServesThem(t *testing.T) {
	l := newLab(t)
	client := l.join("203.0.113.1", "203.0.113.66")
	l.nginx()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	parts := []string{"/", "/", "//", "/.", "/..", "/./", "/../", "a", "sign-in", "%73", "%2e", "%2E%2e", "%2f", "%2F..%2F", "%25", "%2573",
		"%3f", "%23", "?", "?x=/../y", "#f", ";", "+", "&", "%20", "...", ".b", "b.", "%C3%A9", "~", "x%zz"}
	conn := client.dial(t, "80")
	reader := bufio.NewReader(conn)
	compared, refused := 0, 0
	for i := range 3000 {
		target := ""
		if r.IntN(12) == 0 {
			target = "http://www.example.com"
		}
		target += "/"
		for range r.IntN(7) {
			target += parts[r.IntN(len(parts))]
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: www.example.com\r\n\r\n", target)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("request %d, %q: %v", i, target, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK { // nginx takes the target for an attack, or for nonsense
			refused++
			conn.Close()
			conn = client.dial(t, "80")
			reader = bufio.NewReader(conn)
			continue
		}
		compared++
		want, _, _ := strings.Cut(string(body), "\n")
		if got := string(parser.AppendPath(nil, []byte(target))); got != want {
			t.Errorf("%q: normalised to %q, nginx serves %q", target, got, want)
		}
	}
	t.Logf("%d compared, %d refused by nginx", compared, refused)
	if compared < 500 {
		t.Errorf("only %d compared", compared)
	}
}
