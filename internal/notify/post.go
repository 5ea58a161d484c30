package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/term"
)

const (
	postTimeout = 10 * time.Second // a try, all of it
	maxAnswer   = 512              // bytes of an answer that are looked at
	maxShown    = 200              // bytes of an error

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
	a, secrets := p.try(ctx, m)
	if a.err != nil { // of which the endpoint, or a proxy, may have written as much as it likes
		a.err = errors.New(clean(a.err.Error(), secrets))
	}
	return a
}

func (p *poster) try(ctx context.Context, m message) (a answer, secrets []string) {
	r, secrets, err := p.request(ctx, m)
	if err != nil {
		return answer{err: err}, secrets
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return answer{err: unaddressed(err)}, secrets
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // half of it will do
	if resp.StatusCode/100 == 2 {
		return answer{}, secrets
	}
	return p.refusal(resp, string(said)), secrets
}

// ready tells why no message can be sent, as far as that is seen without sending
// one.
func (p *poster) ready() error {
	_, secrets, err := p.request(context.Background(), message{})
	if err != nil {
		return errors.New(clean(err.Error(), secrets))
	}
	return nil
}

// request makes a try's request. secrets are not to be shown to anybody.
func (p *poster) request(ctx context.Context, m message) (r *http.Request, secrets []string, err error) {
	address, err := p.o.URL.Read()
	if err != nil {
		return nil, nil, err
	}
	u, err := ParseURL(address)
	if err != nil {
		return nil, []string{address}, fmt.Errorf("the address to post to %w", err)
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
	query, err := url.QueryUnescape(u.RawQuery)
	if err != nil {
		query = u.RawQuery
	}
	all := strings.Join([]string{u.EscapedPath(), u.Path, u.RawQuery, query}, "/")
	for _, s := range strings.FieldsFunc(all, func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
		if len(s) >= guessable {
			parts = append(parts, s)
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return parts
}

// unaddressed is an error of a request without its address.
func unaddressed(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		if e.Timeout() {
			return fmt.Errorf("it took longer than %v", postTimeout)
		}
		return e.Err
	}
	return err
}

// clean makes what others may have written fit to be shown: its first line,
// without secrets.
func clean(s string, secrets []string) string {
	for _, x := range secrets {
		s = strings.ReplaceAll(s, x, "…")
	}
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return clip(term.Escape(clip(s, maxShown)), maxShown)
}

// refusal tells what an answer other than success means.
func (p *poster) refusal(resp *http.Response, said string) answer {
	a := answer{retryAfter: p.retryAfter(resp.Header.Get("Retry-After"))}
	status := "it answers " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	hint := ""
	said, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
	if said = strings.TrimSpace(said); said != "" {
		said = ": " + said
	}
	switch code := resp.StatusCode; {
	case code/100 == 3:
		to := "elsewhere"
		if u, err := resp.Location(); err == nil && u.Host != "" {
			to = u.Scheme + "://" + u.Host
		}
		a.err = fmt.Errorf("it answers %d, a redirect to %s, and redirects are not followed: give the address where it ends", code, to)
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnsupportedMediaType, code == http.StatusUnprocessableEntity:
		a.refused = true
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		hint = " (is the secret right?)"
	case code == http.StatusNotFound, code == http.StatusGone:
		hint = " (is the address right?)"
	}
	if a.err == nil {
		a.err = errors.New(status + hint + said)
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
