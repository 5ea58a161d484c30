package config

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/tailban/tailban/internal/notify"
)

// defaultCredentials is where systemd puts the credentials of the unit that comes
// with tailban. The daemon's environment says it; others are told here.
const defaultCredentials = "/run/credentials/tailban.service"

// credentialsVariable is where systemd says it (systemd.exec(5)).
const credentialsVariable = "CREDENTIALS_DIRECTORY"

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
				t.doc.bad(n.path, "is for format = %s only", orList(formats))
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

// readURL reads where to post: url, or url_file. What is wrong is told without
// the value, which may be a secret.
func readURL(t named, env []string) (s notify.Secret) {
	n, inline := t.get("url")
	file, inFile := t.get("url_file")
	switch {
	case inline && inFile:
		t.doc.bad(file.path, "stands beside url: one of the two")
	case inFile:
		return file.secretFile(env)
	case !inline:
		t.missing("url", "required: where to post, or url_file with it")
	default:
		text, ok := n.v.(string)
		if !ok {
			t.doc.bad(n.path, "must be text in quotes")
			return s
		}
		if _, err := notify.ParseURL(text); err != nil {
			t.doc.bad(n.path, "%v", err)
			return s
		}
		s.Text = text
	}
	return s
}

// secretFile reads the path of a file with a secret. A bare name is that of a
// credential that systemd has for the daemon. Who writes the secret itself there
// is told so, without it.
func (n node) secretFile(env []string) notify.Secret {
	s, ok := n.v.(string)
	switch {
	case !ok:
		n.doc.bad(n.path, "must be text in quotes: the path of a file")
		return notify.Secret{}
	case filepath.IsAbs(s) && !strings.ContainsFunc(s, unicode.IsControl):
		return notify.Secret{Path: filepath.Clean(s)}
	case !isCredentialName(s):
		n.doc.bad(n.path, "must be the absolute path of a file with the secret in it, or the name of a credential (LoadCredential= in the unit), not the secret itself")
		return notify.Secret{}
	}
	dir, _ := lookupEnv(env, credentialsVariable)
	if !filepath.IsAbs(dir) {
		dir = defaultCredentials
	}
	return notify.Secret{Path: filepath.Join(dir, s)}
}

// isCredentialName reports whether a text is fit to be the name of a credential, and
// is not likely to be a secret: a signing key or a token.
func isCredentialName(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '-' || c == '_' || c == '.'):
		default:
			return false
		}
	}
	const longest = 32
	return s != "" && len(s) <= longest && !strings.HasPrefix(s, "whsec_") && !strings.HasPrefix(s, "tk_")
}

// IsCredential reports whether a file is one that systemd has for a service, while
// it runs.
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
		for _, text := range notify.Doubts(o.Format, u) {
			doc.warn(at, "%s", text)
		}
	}
}
