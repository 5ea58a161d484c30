package notify

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// everything is an event of each kind.
func everything() (d digest) {
	one := netip.MustParsePrefix("192.0.2.1/32")
	for i, k := range Kinds() {
		ev := Event{Time: noon.Add(time.Duration(i) * time.Second), Kind: k}
		switch k {
		case Ban, Observe, Refuse:
			ev.Target, ev.Client, ev.Jail, ev.Offence = one, one.Addr(), "web", 2
			ev.Count, ev.Limit, ev.Window, ev.Until = 51, 50, time.Minute, noon.Add(time.Hour)
		case Extend, End, Unban, Allow, AllowEnd:
			ev.Target, ev.Until = netip.MustParsePrefix("2001:db8:1:2::/64"), noon.Add(26*time.Hour)
		case Hold, Resume:
			ev.Jail = "web"
		}
		switch k {
		case Refuse:
			ev.Reason = "own address"
		case Unban:
			ev.Jail, ev.By, ev.Reason = "web", "uid 0", "it was <me> & *you*"
		case Alarm:
			ev.Reason = "log web: most lines don't parse"
		case Recover:
			ev.Reason = "action firewall: bans are enforced again"
		}
		d.add(ev)
	}
	d.add(Event{Time: noon.Add(time.Minute), Kind: test})
	return d
}

func TestTextForPeople(t *testing.T) {
	t.Parallel()
	d := everything()
	got := text(d.title("web1"), &d, 10_000, func(s string) string { return s })
	want := `web1: 1 × test, 1 × ban, 1 × observe, 1 × refuse, 1 × extend, 1 × end, 1 × unban, 1 × allow, 1 × allow-end, 1 × hold, 1 × resume, 1 × confirm, 1 × reload, 1 × accept, 1 × alarm, 1 × recover
banned 192.0.2.1 until 2026-05-04 13:00 UTC, jail web (51 in 1m0s, limit 50), offence 2
would have banned 192.0.2.1, jail web (51 in 1m0s, limit 50), offence 2
did not ban 192.0.2.1, jail web (51 in 1m0s, limit 50), offence 2: own address
banned 2001:db8:1:2::/64 for longer until 2026-05-05 14:00 UTC
the ban of 2001:db8:1:2::/64 is over
unbanned 2001:db8:1:2::/64, jail web, by uid 0: it was <me> & *you*
allowed 2001:db8:1:2::/64 until 2026-05-05 14:00 UTC
2001:db8:1:2::/64 is no longer allowed
jail web only observes
jail web bans again
the start is confirmed
configuration reloaded
published ranges accepted
ALARM: log web: most lines don't parse
works again: action firewall: bans are enforced again
a test: messages arrive`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var d digest
	d.add(Event{
		Time: noon, Kind: Ban, Target: netip.MustParsePrefix("192.0.2.1/32"), Client: netip.MustParseAddr("192.0.2.1"), Jail: "deny-all",
		Until: noon.Add(time.Hour), Offence: 1, Count: 1, Window: time.Minute,
	})
	d.add(Event{Time: noon.Add(time.Second), Kind: Alarm, Reason: "odd \u202e <b>"})
	for range 100 {
		d.add(Event{Time: noon.Add(2 * time.Second), Kind: Unban})
	}
	d.listed = d.listed[:2] // the others are counted
	m := newMessage(&Options{Name: "ops", Host: "web1", Format: FormatJSON}, "msg_1", d)
	want := `{"version":1,"id":"msg_1","host":"web1","notifier":"ops","from":"2026-05-04T12:00:00Z","to":"2026-05-04T12:00:02Z",` +
		`"counts":{"alarm":1,"ban":1,"unban":100},"events":[` +
		`{"time":"2026-05-04T12:00:00Z","kind":"ban","target":"192.0.2.1/32","client":"192.0.2.1","jail":"deny-all","until":"2026-05-04T13:00:00Z","offence":1,"count":1,"limit":0,"window_seconds":60,"text":"banned 192.0.2.1 until 2026-05-04 13:00 UTC, jail deny-all (1 in 1m0s, limit 0)"},` +
		`{"time":"2026-05-04T12:00:01Z","kind":"alarm","reason":"odd ` + "\u202e" + ` \u003cb\u003e","text":"ALARM: odd \\u{202e} \u003cb\u003e"}],"omitted":100}`
	if diff := cmp.Diff(want, string(m.body)); diff != "" {
		t.Error(diff)
	}
	if m.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", m.header)
	}
}

func TestChats(t *testing.T) {
	t.Parallel()
	var d digest
	d.add(Event{Time: noon, Kind: Ban, Target: netip.MustParsePrefix("2001:db8::/64"), Jail: "sign-in"})
	d.add(Event{Time: noon, Kind: Unban, Target: netip.MustParsePrefix("192.0.2.1/32"), Reason: "<!channel> *@everyone* [x](http://y) `\\`\n\u202eolleh"})
	body := func(format string) (string, message) {
		m := newMessage(&Options{Host: "web1", Format: format}, "msg_1", d)
		return string(m.body), m
	}
	var slack struct {
		Text   string `json:"text"`
		Mrkdwn *bool  `json:"mrkdwn"`
		Parse  string `json:"parse"`
		Blocks []struct {
			Type string `json:"type"`
			Text struct {
				Type  string `json:"type"`
				Text  string `json:"text"`
				Emoji *bool  `json:"emoji"`
			} `json:"text"`
		} `json:"blocks"`
	}
	s, _ := body(FormatSlack)
	if err := json.Unmarshal([]byte(s), &slack); err != nil || slack.Mrkdwn == nil || *slack.Mrkdwn || slack.Parse != "none" || len(slack.Blocks) != 1 {
		t.Fatalf("%v: %s", err, s)
	}
	if b := slack.Blocks[0]; b.Type != "section" || b.Text.Type != "plain_text" || b.Text.Text != slack.Text || b.Text.Emoji == nil || *b.Text.Emoji {
		t.Errorf("%+v", b)
	}
	want := "web1: 1 × ban, 1 × unban\nbanned 2001:db8::/64, jail sign-in\n" +
		"unbanned 192.0.2.1: &lt;!channel&gt; *@everyone* [x](http:\u200b//y) `\\\\`\\n\\u{202e}olleh"
	if diff := cmp.Diff(want, slack.Text); diff != "" {
		t.Error(diff)
	}
	var discord struct {
		Content  string              `json:"content"`
		Mentions map[string][]string `json:"allowed_mentions"`
		Flags    int                 `json:"flags"`
	}
	s, _ = body(FormatDiscord)
	if err := json.Unmarshal([]byte(s), &discord); err != nil || discord.Mentions["parse"] == nil || len(discord.Mentions["parse"]) != 0 || discord.Flags != 4 {
		t.Errorf("%v: %s", err, s)
	}
	want = "web1: 1 × ban, 1 × unban\nbanned 2001:db8::/64, jail sign\\-in\n" +
		"unbanned 192.0.2.1: \\<!channel\\> \\*\\@everyone\\* \\[x\\]\\(http:\u200b//y\\) \\`\\\\\\\\\\`\\\\n\\\\u{202e}olleh"
	if diff := cmp.Diff(want, discord.Content); diff != "" {
		t.Error(diff)
	}
	s, m := body(FormatNtfy)
	want = "banned 2001:db8::/64, jail sign-in\nunbanned 192.0.2.1: <!channel> *@everyone* [x](http:\u200b//y) `\\\\`\\n\\u{202e}olleh"
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if h := m.header; h.Get("Title") != "=?utf-8?q?web1:_1_=C3=97_ban,_1_=C3=97_unban?=" || h.Get("Priority") != "default" || h.Get("Tags") != "no_entry" {
		t.Errorf("%v", h)
	}
	d.add(Event{Time: noon, Kind: Alarm})
	if _, m := body(FormatNtfy); m.header.Get("Priority") != "high" || m.header.Get("Tags") != "warning" {
		t.Errorf("%v", m.header)
	}
}

// Whatever is in the texts, each message fits, is valid, and has at least one
// event; and what chats take for markup is escaped.
func FuzzFormats(f *testing.F) {
	f.Add("web1", "<@everyone>", uint16(3))
	f.Add(strings.Repeat("h", 64), strings.Repeat("\u202e*", 200), uint16(500))
	f.Add("", "\xff\\", uint16(0))
	f.Fuzz(func(t *testing.T, host, reason string, events uint16) {
		var d digest
		for i := range int(events)%600 + 1 {
			ev := ban(i)
			ev.Reason = reason
			ev.clip()
			d.add(ev)
		}
		if len(host) > 64 {
			host = host[:64] // what the kernel has room for
		}
		for _, format := range Formats() {
			m := newMessage(&Options{Name: "ops", Host: host, Format: format}, "msg_1", d)
			if !utf8.Valid(m.body) || len(m.body) == 0 {
				t.Fatalf("%s: %q", format, m.body)
			}
			var got struct{ Text, Content string }
			if format != FormatNtfy {
				if err := json.Unmarshal(m.body, &got); err != nil {
					t.Fatal(err)
				}
			}
			switch format {
			case FormatSlack:
				if len(got.Text) > 3000 || strings.ContainsAny(got.Text, "<>") || !strings.Contains(got.Text, "\nbanned") {
					t.Errorf("slack: %q", got.Text)
				}
			case FormatDiscord:
				if n := len(utf16.Encode([]rune(got.Content))); n > 2000 || !strings.Contains(got.Content, "\nbanned") {
					t.Errorf("discord: %d of %q", n, got.Content)
				}
				bare := strings.NewReplacer(`\\`, "", `\*`, "", `\_`, "", "\\`", "", `\<`, "", `\>`, "", `\@`, "", `\#`, "", `\-`, "", `\[`, "", `\]`, "", `\(`, "", `\)`, "", `\~`, "", `\|`, "").Replace(got.Content)
				if strings.ContainsAny(bare, "\\*_~`|<>[]()#@") {
					t.Errorf("discord: %q", got.Content)
				}
			case FormatNtfy:
				if len(m.body) > 4096 || !strings.HasPrefix(string(m.body), "banned") {
					t.Errorf("ntfy: %q", m.body)
				}
				for k, v := range m.header {
					if strings.ContainsFunc(v[0], func(r rune) bool { return r < ' ' || r > '~' }) {
						t.Errorf("ntfy: %s: %q", k, v)
					}
				}
			}
		}
	})
}
