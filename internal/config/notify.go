package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailban/tailban/internal/notify"
)

// defaultCredentials is where systemd puts the credentials of the unit that comes
// with tailban. The daemon's environment says it; others are told here.
const defaultCredentials = "/run/credentials/tailban.service"

// notifyKeys says which formats of messages have a key.
func notifyKeys() map[string][]string {
	return map[string][]string{
		"key_file":   {notify.FormatJSON},
		"token_file": {notify.FormatJSON, notify.FormatNtfy},
	}
}

// readNotify reads the [notify.NAME] tables.
func readNotify(top *section, env []string) (all []notify.Options) {
	tables, _ := top.group("notify", "")
	for _, t := range tables {
		o := notify.Options{
			Name: t.name, Format: notify.FormatJSON, Kinds: notify.DefaultKinds(),
			Interval: notify.DefaultInterval, PerHour: notify.DefaultPerHour,
		}
		known := true
		if n, ok := t.get("format"); ok {
			o.Format, known = n.oneOf(notify.Formats()...)
		}
		o.URL = readURL(t, env)
		for _, x := range []struct {
			key string
			to  *notify.Secret
		}{{"key_file", &o.Key}, {"token_file", &o.Token}} {
			n, ok := t.get(x.key)
			if !ok {
				continue
			}
			if formats := notifyKeys()[x.key]; known && !slices.Contains(formats, o.Format) {
				n.bad("is for format = %s only", orList(formats))
				continue
			}
			*x.to = n.secretFile(env)
		}
		if n, ok := t.get("events"); ok {
			o.Kinds = n.kinds()
		}
		if n, ok := t.get("interval"); ok {
			o.Interval, _ = n.duration(notify.MinInterval, notify.MaxInterval)
		}
		if n, ok := t.get("per_hour"); ok {
			o.PerHour, _ = n.whole(1, notify.MaxPerHour)
		}
		t.finish()
		all = append(all, o)
	}
	return all
}

// readURL reads where to post: url, or url_file.
func readURL(t named, env []string) (s notify.Secret) {
	n, inline := t.get("url")
	file, inFile := t.get("url_file")
	switch {
	case inline && inFile:
		file.bad("stands beside url: one of the two")
	case inFile:
		return file.secretFile(env)
	case !inline:
		t.missing("url", "required: where to post, or url_file with it")
	default:
		text, ok := n.text()
		if !ok {
			return s
		}
		if _, err := notify.ParseURL(text); err != nil {
			t.doc.bad(n.path, "%v", err) // without its value, which may be a secret
			return s
		}
		s.Text = text
	}
	return s
}

// secretFile reads the path of a file with a secret. A bare name is that of a
// credential that systemd has for the daemon.
func (n node) secretFile(env []string) notify.Secret {
	s, ok := n.text()
	switch {
	case !ok:
		return notify.Secret{}
	case filepath.IsAbs(s):
		return notify.Secret{Path: filepath.Clean(s)}
	case strings.Contains(s, "/") || s == "." || s == "..":
		n.bad("must be an absolute path, or the name of a credential (LoadCredential= in the unit)")
		return notify.Secret{}
	}
	dir, _ := lookupEnv(env, "CREDENTIALS_DIRECTORY")
	if !filepath.IsAbs(dir) {
		dir = defaultCredentials
	}
	return notify.Secret{Path: filepath.Join(dir, s)}
}

// IsCredential reports whether a file is one that systemd has for the service,
// while it runs.
func IsCredential(path string) bool { return strings.HasPrefix(path, "/run/credentials/") }

// kinds reads which events to tell of.
func (n node) kinds() (kinds []notify.Kind) {
	var words []string
	for _, k := range notify.Kinds() {
		words = append(words, string(k))
	}
	for _, s := range n.nonEmptyTexts(func(item node, s string) bool {
		_, ok := item.oneOf(words...)
		return ok
	}) {
		kinds = append(kinds, notify.Kind(s))
	}
	return kinds
}

// warnNotify is about messages that others could read or write.
func warnNotify(doc *document, c *Config) {
	for i := range c.Notify {
		o := &c.Notify[i]
		at := keyPath("notify", o.Name, "url")
		if o.URL.Path != "" {
			continue
		}
		u, err := notify.ParseURL(o.URL.Text)
		if err != nil {
			continue // cannot be: it was read
		}
		if o.Format == notify.FormatSlack || o.Format == notify.FormatDiscord {
			doc.warn(at, "whoever knows this address can post there: url_file keeps it out of the configuration")
		}
		if u.Scheme == "http" && !notify.Loopback(u) {
			doc.warn(at, "messages go there unencrypted, and so does what proves who we are: https:// would not")
		}
	}
}
