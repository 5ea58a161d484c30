package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/term"
)

const (
	postTimeout = 10 * time.Second // a try, all of it
	maxAnswer   = 512              // bytes of an answer that are looked at
	maxShown    = 120              // of these, in an error

	maxRetryAfter = time.Hour // that an endpoint may ask for
)

// answer is what came of a try.
type answer struct {
	err        error         // nil: the message was taken
	refused    bool          // the message itself was: it won't be taken later either
	retryAfter time.Duration // that the endpoint asked for; 0: nothing
}

// poster posts messages.
type poster struct {
	o      Options
	client *http.Client
	now    func() time.Time
}

func newPoster(o Options) (*poster, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("notify: the default transport is another one")
	}
	t := base.Clone()
	t.DisableKeepAlives = true // messages are far apart
	t.MaxResponseHeaderBytes = 64 << 10
	return &poster{o: o, now: time.Now, client: &http.Client{
		Transport: t,
		Timeout:   postTimeout,
		// Where it leads is the endpoint's word: a signed message, or a token,
		// goes nowhere but where the administrator said.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// post tries once.
func (p *poster) post(ctx context.Context, m message) answer {
	r, secrets, err := p.request(ctx, m)
	if err != nil {
		return answer{err: err}
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return answer{err: unaddressed(err)}
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // half of it will do
	if resp.StatusCode/100 == 2 {
		return answer{}
	}
	return p.refusal(resp, firstLine(string(said), secrets))
}

// request makes a try's request. secrets are not to be shown to anybody.
func (p *poster) request(ctx context.Context, m message) (r *http.Request, secrets []string, err error) {
	address, err := p.o.URL.Read()
	if err != nil {
		return nil, nil, err
	}
	u, err := ParseURL(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address to post to %w", err)
	}
	r, err = http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(string(m.body)))
	if err != nil {
		return nil, nil, errors.New("the address to post to can't be used")
	}
	for k, v := range m.header {
		r.Header[k] = v
	}
	r.Header.Set("User-Agent", "tailban")
	secrets = secretParts(u)
	if p.o.Token.Given() {
		token, err := p.o.Token.Read()
		if err != nil {
			return nil, nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		secrets = append(secrets, token)
	}
	if p.o.Format == FormatJSON {
		now := p.now()
		r.Header.Set(headerID, m.id)
		r.Header.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
		if p.o.Key.Given() {
			text, err := p.o.Key.Read()
			if err != nil {
				return nil, nil, err
			}
			key, err := parseKey(text)
			if err != nil {
				return nil, nil, fmt.Errorf("what is in %s %w", p.o.Key.Path, err)
			}
			r.Header.Set(headerSignature, signature(key, m.id, now, m.body))
			secrets = append(secrets, text)
		}
	}
	return r, secrets, nil
}

// secretParts are what of an address may be a secret: chats have theirs in the
// path.
func secretParts(u *url.URL) (parts []string) {
	const guessable = 10 // characters: shorter ones are words
	for _, s := range strings.FieldsFunc(u.EscapedPath()+"/"+u.RawQuery, func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
		if len(s) >= guessable {
			parts = append(parts, s)
		}
	}
	return parts
}

// unaddressed is an error of a request without its address.
func unaddressed(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		if e.Timeout() {
			return fmt.Errorf("no answer within %v", postTimeout)
		}
		return e.Err
	}
	return err
}

// firstLine is what an endpoint says of what went wrong, fit to be shown.
func firstLine(s string, secrets []string) string {
	for _, x := range secrets {
		s = strings.ReplaceAll(s, x, "…")
	}
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return clip(term.Escape(strings.ToValidUTF8(strings.TrimSpace(s), "")), maxShown)
}

// refusal tells what an answer other than success means.
func (p *poster) refusal(resp *http.Response, said string) answer {
	a := answer{retryAfter: p.retryAfter(resp.Header.Get("Retry-After"))}
	status := "it answers " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	if said != "" {
		status += ": " + said
	}
	switch code := resp.StatusCode; {
	case code/100 == 3:
		to := "elsewhere"
		if u, err := resp.Location(); err == nil && u.Host != "" {
			to = term.Escape(clip(u.Scheme+"://"+u.Host, maxShown))
		}
		a.err = fmt.Errorf("it answers %d, a redirect to %s, and redirects are not followed: give the address where it ends", code, to)
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnsupportedMediaType, code == http.StatusUnprocessableEntity:
		a.err, a.refused = fmt.Errorf("%s", status), true
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		a.err = fmt.Errorf("%s (is the secret right?)", status)
	case code == http.StatusNotFound, code == http.StatusGone:
		a.err = fmt.Errorf("%s (is the address right?)", status)
	default:
		a.err = fmt.Errorf("%s", status)
	}
	return a
}

// retryAfter reads the header of that name, RFC 9110 section 10.2.3.
func (p *poster) retryAfter(s string) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 {
		d = time.Duration(min(n, maxRetryAfter.Seconds()) * float64(time.Second))
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(p.now())
	}
	return max(0, min(d, maxRetryAfter))
}
