package notify

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const testKey = "c2l4dGVlbiBieXRlcyBhcmUgbm90IGVub3VnaCE=" // base64 of more than that

func posterTo(t *testing.T, url string, change func(*Options)) *poster {
	t.Helper()
	o := Options{Name: "ops", Host: "web1", Format: FormatJSON, URL: Secret{Text: url}}
	if change != nil {
		change(&o)
	}
	p, err := newPoster(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sample(p *poster) message {
	var d digest
	d.add(ban(7))
	return newMessage(&p.o, "msg_x", d)
}

// taker is an endpoint that takes all, and keeps the last request.
func taker(t *testing.T) (url string, got func() (http.Header, []byte)) {
	t.Helper()
	type request struct {
		header http.Header
		body   []byte
	}
	c := make(chan request, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c <- request{r.Header, body}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (http.Header, []byte) { r := <-c; return r.header, r.body }
}

// Whoever uses a library for the specification can check our signatures, and
// forged ones are noticed.
func TestSignatureIsThatOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", keyPrefix} {
		url, got := taker(t)
		p := posterTo(t, url, func(o *Options) { o.Key = Secret{Text: prefix + testKey} })
		if a := p.post(t.Context(), sample(p)); a.err != nil {
			t.Fatal(a.err)
		}
		header, body := got()
		wh, err := standardwebhooks.NewWebhook(testKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(body, header); err != nil {
			t.Errorf("not verified: %v", err)
		}
		if err := wh.Verify(append(body, ' '), header); err == nil {
			t.Error("another body is verified")
		}
		header.Set(headerTimestamp, "1")
		if err := wh.Verify(body, header); err == nil {
			t.Error("another time is verified")
		}
		var j JSON
		if err := json.Unmarshal(body, &j); err != nil || j.ID != "msg_x" || header.Get(headerID) != "msg_x" || j.Counts[Ban] != 1 {
			t.Errorf("%v: %s", err, body)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ key, want string }{
		{testKey, ""},
		{keyPrefix + testKey, ""},
		{"not base64!", "not base64"},
		{base64.StdEncoding.EncodeToString([]byte("short")), "key of 5 bytes"},
		{"", "key of 0 bytes"},
	} {
		_, err := parseKey(test.key)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.key, err, test.want)
		}
	}
}

func TestTokenIsSent(t *testing.T) {
	t.Parallel()
	url, got := taker(t)
	p := posterTo(t, url, func(o *Options) { o.Format, o.Token = FormatNtfy, Secret{Text: "tk_secret"} })
	if a := p.post(t.Context(), sample(p)); a.err != nil {
		t.Fatal(a.err)
	}
	header, body := got()
	if header.Get("Authorization") != "Bearer tk_secret" || header.Get(headerSignature) != "" || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Errorf("%v", header)
	}
	if want := "banned 10.0.0.7, jail web"; string(body) != want {
		t.Errorf("body %q, want %q", body, want)
	}
}

// Neither the message nor what proves who we are goes anywhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(other.URL+"/secret-path-of-theirs", code))
		p := posterTo(t, s.URL, func(o *Options) { o.Token = Secret{Text: "tk_secret"} })
		a := p.post(t.Context(), sample(p))
		s.Close()
		if a.err == nil || a.refused || !strings.Contains(a.err.Error(), "redirect to "+other.URL) || strings.Contains(a.err.Error(), "secret-path") {
			t.Errorf("%d: %+v", code, a)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests followed a redirect", n)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code    int
		header  string // Retry-After
		body    string
		err     string // a part; "": none
		refused bool
		wait    time.Duration
	}{
		{code: 200},
		{code: 204},
		{code: 200, body: strings.Repeat("x", 1<<20)},
		{code: 400, body: "invalid_payload\n<html>", err: "it answers 400 Bad Request: invalid_payload", refused: true},
		{code: 413, err: "413", refused: true},
		{code: 401, err: "is the secret right?"},
		{code: 403, body: "invalid_token", err: "403 Forbidden (is the secret right?): invalid_token"},
		{code: 404, body: "no_service", err: "404 Not Found (is the address right?): no_service"},
		{code: 429, header: "7", err: "429 Too Many Requests", wait: 7 * time.Second},
		{code: 429, header: "0.5", err: "429", wait: 500 * time.Millisecond},
		{code: 503, header: "1e99", err: "503", wait: maxRetryAfter},
		{code: 503, header: "-1", err: "503"},
		{code: 503, header: "NaN", err: "503"},
		{code: 503, header: "Fri, 31 Dec 9999 23:59:59 GMT", err: "503", wait: maxRetryAfter},
		{code: 503, header: "Fri, 31 Dec 1999 23:59:59 GMT", err: "503"},
		{code: 500, body: "bad \x1b[31m\u202e", err: `bad \x1b[31m\u{202e}`},
		{code: 500, body: "no route /services/B0SECRETPART?x", err: "no route /services/…?x"},
		{code: 500, body: strings.Repeat("long ", 1000), err: "…"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if test.header != "" {
				w.Header().Set("Retry-After", test.header)
			}
			w.WriteHeader(test.code)
			io.WriteString(w, test.body) // that the client hangs up is its business
		}))
		p := posterTo(t, s.URL+"/services/B0SECRETPART", nil)
		a := p.post(t.Context(), sample(p))
		s.Close()
		if (a.err == nil) != (test.err == "") || a.err != nil && !strings.Contains(a.err.Error(), test.err) || a.refused != test.refused || a.retryAfter != test.wait {
			t.Errorf("%d %q: %+v", test.code, test.header, a)
		}
		if a.err != nil && (len(a.err.Error()) > 300 || strings.Contains(a.err.Error(), "SECRET")) {
			t.Errorf("%d: says too much: %v", test.code, a.err)
		}
	}
}

// Whatever happens on the way, the address isn't in the error.
func TestErrorsOnTheWay(t *testing.T) {
	t.Parallel()
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
		return l.Addr().String()
	}
	says := func(text string) string {
		return listen(func(c net.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, text)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		})
	}
	hung := make(chan struct{})
	t.Cleanup(func() { close(hung) })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, test := range []struct{ name, addr, want string }{
		{"nobody there", closed.Addr().String(), "connection refused"},
		{"reset", listen(func(c net.Conn) {
			c.(*net.TCPConn).SetLinger(0)
			c.Read(make([]byte, 10)) // so that there is something unread
			c.Close()
		}), "reset"},
		{"hangs up", listen(func(c net.Conn) { io.CopyN(io.Discard, c, 20); c.(*net.TCPConn).CloseWrite(); <-hung; c.Close() }), "EOF"},
		{"says nothing", listen(func(c net.Conn) { <-hung; c.Close() }), "it took longer than"},
		{"drips", listen(func(c net.Conn) {
			defer c.Close()
			c.Read(make([]byte, 100))
			io.WriteString(c, "HTTP/1.1 500 Oh\r\nX: ")
			for {
				select {
				case <-hung:
					return
				case <-time.After(10 * time.Millisecond):
				}
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}), "it took longer than"},
		{"no HTTP", listen(func(c net.Conn) {
			c.Read(make([]byte, 100))
			io.WriteString(c, "220 mail.example ESMTP\r\n")
			io.Copy(io.Discard, c)
			c.Close()
		}), "malformed HTTP"},
		{"endless headers", listen(func(c net.Conn) {
			defer c.Close()
			c.Read(make([]byte, 100))
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: "+strings.Repeat("y", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}), "headers exceeded"},
		{"endless status", says("HTTP/1.1 " + strings.Repeat("\x01", 60_000) + "\r\n\r\n"), "malformed HTTP"},
		{"terminal", says("HTTP/1.1 200 OK\r\n\x1b[31mHA\x1b[2J " + strings.Repeat("x", 60_000) + "\r\n\r\n"), `\\x1b[31mHA`},
		{"length", says("HTTP/1.1 200 OK\r\nContent-Length: \x1b[31m" + strings.Repeat("9", 60_000) + "\r\n\r\n"), "Content-Length"},
		{"what it was sent", says("HTTP/1.1 200 OK\r\nPOST /services/B0SECRETPART x tk_SECRETtoken\r\n\r\n"), "POST /services/…"},
		{"redirect", says("HTTP/1.1 302 Found\r\nLocation: http://B0SECRETPART.example/\r\n\r\n"), "http://….example"},
		{"endless redirect", says("HTTP/1.1 302 Found\r\nLocation: http://" + strings.Repeat("9", 60_000) + "/\r\n\r\n"), "a redirect to http://999"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := posterTo(t, "http://"+test.addr+"/services/B0SECRETPART", func(o *Options) { o.Token = Secret{Text: "tk_SECRETtoken"} })
			p.client.Timeout = 500 * time.Millisecond
			a := p.post(t.Context(), sample(p))
			if a.err == nil || !strings.Contains(a.err.Error(), test.want) || strings.Contains(a.err.Error(), "SECRET") || a.refused {
				t.Fatalf("%v, want %q", a.err, test.want)
			}
			if text := a.err.Error(); len(text) > 250 || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("not fit to be shown: %q", text)
			}
		})
	}
}

func TestPostEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	p := posterTo(t, s.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if a := p.post(ctx, sample(p)); a.err == nil {
		t.Error("no error")
	}
}

// Secrets are read for each try, and what is wrong with them is the
// notifier's error.
func TestSecretsAreReadEachTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	p := posterTo(t, "", func(o *Options) { o.URL = Secret{Path: file}; o.Key = Secret{Path: filepath.Join(dir, "key")} })
	try := func(want string) {
		t.Helper()
		a := p.post(t.Context(), sample(p))
		if (a.err == nil) != (want == "") || a.err != nil && !strings.Contains(a.err.Error(), want) || a.refused {
			t.Errorf("%+v, want %q", a, want)
		}
	}
	write := func(name, s string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	try("no such file")
	write("url", "ftp://secret.example/")
	try("the address to post to must begin with https:// or http://")
	url, got := taker(t)
	write("url", url+"\n")
	try("read a secret")
	write("key", "???")
	try("not base64")
	write("key", testKey+"\n")
	try("")
	if header, _ := got(); header.Get(headerSignature) == "" {
		t.Error("not signed")
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, s string, mode os.FileMode) Secret {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return Secret{Path: path}
	}
	for _, test := range []struct {
		name    string
		s       Secret
		want    string
		err     string
		exposed string
	}{
		{"text", Secret{Text: "abc"}, "abc", "", ""},
		{"spaces", write("i", " abc \n", 0o600), "abc", "", ""},
		{"file", write("a", "abc\r\n", 0o600), "abc", "", ""},
		{"of a group", write("b", "abc", 0o640), "abc", "", ""},
		{"of all", write("c", "abc", 0o644), "abc", "", "can be read by everybody"},
		{"changed by all", write("d", "abc", 0o666), "abc", "", "can be changed by others"},
		{"empty", write("e", "\n", 0o600), "", "is empty", ""},
		{"lines", write("f", "a\nb\n", 0o600), "", "one line", ""},
		{"large", write("g", strings.Repeat("a", maxSecret+1), 0o600), "", "larger than", ""},
		{"folder", Secret{Path: dir}, "", "is no file", ""},
		{"none", Secret{Path: filepath.Join(dir, "none")}, "", "no such file", ""},
	} {
		got, err := test.s.Read()
		if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
		if e := test.s.Exposed(); test.s.Path != dir && e != test.exposed {
			t.Errorf("%s: exposed: %q", test.name, e)
		}
		if err != nil && strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: shows it: %v", test.name, err)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, err string }{
		{"https://hooks.example/a?b=c", ""},
		{"http://[::1]:8080", ""},
		{"hooks.example/a", "must begin with"},
		{"//hooks.example", "must begin with"},
		{"https:///path", "names no host"},
		{"https://:443/", "names no host"},
		{"https://u:secret@hooks.example/", "user or password"},
		{"https://hooks.example/#x", "fragment"},
		{"https://hooks.example:0/", "port"},
		{"https://hooks.example:99999/", "port"},
		{"https://hooks.example/%zzsecret", "is not a URL"},
	} {
		_, err := ParseURL(test.in)
		if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q", test.in, err, test.err)
		}
	}
}

func TestDoubts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ format, url, want string }{
		{FormatJSON, "https://hooks.example/x", ""},
		{FormatJSON, "http://127.0.0.1/x", ""},
		{FormatJSON, "http://localhost:8080/x", ""},
		{FormatJSON, "http://hooks.example/x", "unencrypted"},
		{FormatJSON, "https://hooks.slack.com/services/x", "slack"},
		{FormatSlack, "https://hooks.slack.com/services/x", ""},
		{FormatSlack, "https://discord.com/api/webhooks/x", "discord"},
		{FormatNtfy, "https://ntfy.sh/", "no topic"},
		{FormatNtfy, "https://ntfy.sh/t", ""},
		{FormatJSON, "https://ntfy.sh/t", "ntfy"},
	} {
		u, err := ParseURL(test.url)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(Doubts(test.format, u), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s to %s: %q, want %q", test.format, test.url, got, test.want)
		}
	}
}
