package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/notify"
)

func newNotify(p *Process, path *string) *cobra.Command {
	return &cobra.Command{
		Use:   "notify [NAME ...]",
		Short: "Send a test message to those who are told what happens",
		Long: `Send a test message to each [notify.NAME] of the configuration, or to those
named, and say what came of it. No daemon is needed.

Run it as somebody who may read the files with the secrets. The credentials of a
service are there only while it runs.`,
		Example: `  sudo tailban notify
  sudo tailban notify chat`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			cfg, err := config.Load(*path, p.Env)
			if err != nil {
				return err
			}
			for _, name := range names {
				if !slices.ContainsFunc(cfg.Notify, func(o notify.Options) bool { return o.Name == name }) {
					return usageError{fmt.Errorf("there is no [notify.%s] in %s", name, *path)}
				}
			}
			if len(cfg.Notify) == 0 {
				return fmt.Errorf("there is no [notify.NAME] in %s: nobody is told what happens", *path)
			}
			host, _ := os.Hostname() // "" tells as much as there is
			var errs []error
			for _, o := range cfg.Notify {
				if len(names) > 0 && !slices.Contains(names, o.Name) {
					continue
				}
				o.Host = host
				n, err := notify.New(o)
				if err == nil {
					err = n.Test(c.Context(), time.Now())
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(p.Out, "notify %s: taken by %s\n", o.Name, hostOf(&o))
			}
			return errors.Join(errs...)
		},
	}
}

// hostOf is where messages go, without what may be a secret in it.
func hostOf(o *notify.Options) string {
	text, err := o.URL.Read()
	if err != nil {
		return "?"
	}
	u, err := notify.ParseURL(text)
	if err != nil {
		return "?"
	}
	return u.Host
}

// checkNotify returns what is wrong with the secrets of those who are told, as
// far as can be seen. user is who must be able to read them; nil: whoever runs
// this.
func checkNotify(c *config.Config, user *access.User) (warnings []config.Problem) {
	for i := range c.Notify {
		o := &c.Notify[i]
		for _, x := range []struct {
			key    string
			secret notify.Secret
			fit    func(string) (doubts []string, err error)
		}{
			{"url_file", o.URL, func(s string) ([]string, error) {
				u, err := notify.ParseURL(s)
				if err != nil {
					return nil, err
				}
				return notify.Doubts(o.Format, u), nil
			}},
			{"key_file", o.Key, func(s string) ([]string, error) { return nil, notify.CheckKey(s) }},
			{"token_file", o.Token, func(string) ([]string, error) { return nil, nil }},
		} {
			if x.secret.Path == "" {
				continue
			}
			for _, text := range checkSecret(x.secret, x.fit, user) {
				at := c.At(0, "notify", o.Name, x.key)
				at.Msg = text
				warnings = append(warnings, at)
			}
		}
	}
	return warnings
}

// checkSecret returns what is wrong with a file that holds a secret. A
// credential isn't there while the service doesn't run.
func checkSecret(s notify.Secret, fit func(string) ([]string, error), user *access.User) (texts []string) {
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	text, err := s.Read()
	switch {
	case err != nil && config.IsCredential(s.Path):
		add("messages can be sent only while the service runs and has this credential (LoadCredential= in its unit): %v", err)
		return texts
	case err != nil:
		add("messages can't be sent: %v", err)
		return texts
	}
	doubts, err := fit(text)
	if err != nil {
		add("messages can't be sent: what is in %s %v", s.Path, err)
	}
	texts = append(texts, doubts...)
	if user != nil && !config.IsCredential(s.Path) {
		if err := user.Read(s.Path); err != nil {
			add("messages can't be sent: %v", err)
		}
	}
	if e := s.Exposed(); e != "" {
		add("%s %s: it should be only its owner's", s.Path, e)
	}
	return texts
}

// describeNotify writes who is told what.
func describeNotify(w io.Writer, c *config.Config) {
	for i := range c.Notify {
		o := &c.Notify[i]
		to := o.URL.Path
		if to == "" {
			to = hostOf(o)
		}
		kinds := make([]string, len(o.Kinds))
		for i, k := range o.Kinds {
			kinds[i] = string(k)
		}
		fmt.Fprintf(w, "  %s\t%s\tto %s: %s; one message in %s, %d an hour at most\n", o.Name, o.Format, to, strings.Join(kinds, ", "),
			config.FormatDuration(o.Interval), o.PerHour)
	}
}
