package notify

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailban/tailban/internal/term"
)

// message is what is posted. However often it is tried, it stays the same.
type message struct {
	id     string
	digest digest
	body   []byte
	header http.Header
}

// newMessage writes a digest as an endpoint wants it.
func newMessage(o *Options, id string, d digest) message {
	m := message{id: id, digest: d, header: http.Header{"Content-Type": {"application/json"}}}
	switch o.Format {
	case FormatSlack:
		m.body = encode(slackBody(o.Host, &d))
	case FormatDiscord:
		m.body = encode(discordBody(o.Host, &d))
	case FormatNtfy:
		m.body, m.header = ntfyBody(o.Host, &d)
	default:
		m.body = encode(jsonBody(o, id, &d))
	}
	return m
}

// encode is JSON; only what always can be written is given to it.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("notify: " + err.Error())
	}
	return b
}

// JSON is the body of a message of FormatJSON.
type JSON struct {
	Version  int          `json:"version"` // 1; more keys may come with it
	ID       string       `json:"id"`      // as in the header: the same for each try
	Host     string       `json:"host"`
	Notifier string       `json:"notifier"` // its name in the configuration
	From     time.Time    `json:"from"`     // of the first event
	To       time.Time    `json:"to"`       // of the last one
	Counts   map[Kind]int `json:"counts"`   // all events, by kind
	Events   []JSONEvent  `json:"events"`   // the first of them
	Omitted  int          `json:"omitted"`  // that are counted only
}

// JSONEvent is an event of a message, with the keys of GET /v1/events.
type JSONEvent struct {
	Time    time.Time  `json:"time"`
	Kind    Kind       `json:"kind"`
	Target  string     `json:"target,omitempty"` // with its length: 192.0.2.1/32
	Client  netip.Addr `json:"client,omitzero"`
	Jail    string     `json:"jail,omitempty"`
	Until   time.Time  `json:"until,omitzero"`
	Offence int        `json:"offence,omitempty"`
	Count   int        `json:"count,omitempty"`
	Limit   *int       `json:"limit,omitempty"` // missing: nothing was counted
	Window  float64    `json:"window_seconds,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	By      string     `json:"by,omitempty"`
	Text    string     `json:"text"` // the event for people
}

func jsonBody(o *Options, id string, d *digest) *JSON {
	j := &JSON{
		Version: 1, ID: id, Host: o.Host, Notifier: o.Name, From: d.from.UTC(), To: d.to.UTC(),
		Counts: d.counts, Events: make([]JSONEvent, 0, len(d.listed)), Omitted: d.total() - len(d.listed),
	}
	for i := range d.listed {
		ev := &d.listed[i]
		x := JSONEvent{
			Time: ev.Time.UTC(), Kind: ev.Kind, Client: ev.Client, Jail: ev.Jail, Offence: ev.Offence,
			Count: ev.Count, Window: ev.Window.Seconds(), Reason: ev.Reason, By: ev.By, Text: term.Escape(ev.text()),
		}
		if ev.Target.IsValid() {
			x.Target = ev.Target.String()
		}
		if !ev.Until.IsZero() {
			x.Until = ev.Until.UTC()
		}
		if ev.Window > 0 {
			x.Limit = &ev.Limit
		}
		j.Events = append(j.Events, x)
	}
	return j
}

// What the services take, in characters or bytes, less some room.
const (
	slackRoom   = 2900 // of 3000 characters
	discordRoom = 1900 // of 2000 characters, counted as UTF-16 units
	ntfyRoom    = 3800 // of 4096 bytes

	maxLine = 700 // bytes of an event: one always has room
)

// text is a digest for people: a title and a line per event, each escaped by
// mark, and no longer than room.
func text(title string, d *digest, room int, mark func(string) string) string {
	lines, omitted := d.lines()
	fit := func(s string) string { return mark(unlinked(clip(term.Escape(s), maxLine))) }
	out := fit(title)
	for i, l := range lines {
		line := "\n" + fit(l)
		if len(out)+len(line) > room {
			omitted += len(lines) - i
			break
		}
		out += line
	}
	if omitted > 0 {
		out += mark(fmt.Sprintf("\nand %d more", omitted))
	}
	return out
}

// unlinked keeps addresses in text from becoming links by themselves.
func unlinked(s string) string { return strings.ReplaceAll(s, "://", ":\u200b//") }

// slackBody is for incoming webhooks. Plain text in a block has no formatting,
// mentions, links or emoji; what stands beside it is for where no blocks are
// shown. See https://docs.slack.dev/reference/block-kit/composition-objects/text-object/
func slackBody(host string, d *digest) any {
	all := text(d.title(host), d, slackRoom, slackEscape)
	plain := map[string]any{"type": "plain_text", "text": all, "emoji": false}
	return map[string]any{
		"text":         all,
		"mrkdwn":       false, // or * _ ~ ` would format
		"parse":        "none",
		"unfurl_links": false,
		"unfurl_media": false,
		"blocks":       []any{map[string]any{"type": "section", "text": plain}},
	}
}

// slackEscape keeps text from mentioning anybody and from being a link.
func slackEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// discordBody is for webhooks of channels:
// https://docs.discord.com/developers/resources/webhook#execute-webhook
func discordBody(host string, d *digest) any {
	const suppressEmbeds = 1 << 2
	return map[string]any{
		"content":          text(d.title(host), d, discordRoom, discordEscape),
		"allowed_mentions": map[string]any{"parse": []string{}}, // nobody is pinged, whatever the text says
		"flags":            suppressEmbeds,
	}
}

// discordEscape keeps text from being Markdown.
func discordEscape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\*_~`|<>[]()#-@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// ntfyBody is for topics: https://docs.ntfy.sh/publish/. Its text is plain as
// long as no header asks for Markdown.
func ntfyBody(host string, d *digest) ([]byte, http.Header) {
	priority, tag := "default", "no_entry"
	switch {
	case d.counts[Alarm] > 0:
		priority, tag = "high", "warning"
	case d.counts[Ban] == 0:
		tag = "information_source"
	}
	title := term.Escape(d.title(host))
	body := text("", d, ntfyRoom, func(s string) string { return s })
	return []byte(strings.TrimPrefix(body, "\n")), http.Header{
		"Content-Type": {"text/plain; charset=utf-8"},
		"Title":        {mime.QEncoding.Encode("utf-8", clipRunes(title, 200))},
		"Priority":     {priority},
		"Tags":         {tag},
	}
}

// clipRunes cuts a text to n characters.
func clipRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
