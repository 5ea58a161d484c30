package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/daemon"
)

// edgeOf makes the action at Cloudflare that a configuration names.
func edgeOf(a *config.Action) (*cloudflare.Action, error) {
	host, err := os.Hostname()
	if err != nil && a.Cloudflare.Instance == "" {
		return nil, fmt.Errorf("action %s: the host has no name, and no instance is configured: %w", a.Name, err)
	}
	return cloudflare.New(daemon.CloudflareOptions(a, host))
}

// clearEdge removes the items of this host at Cloudflare.
func clearEdge(ctx context.Context, p *Process, a *config.Action) error {
	edge, err := edgeOf(a)
	if err != nil {
		return err
	}
	n, err := edge.Clear(ctx)
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	if c := a.Cloudflare; c.AccessRules {
		fmt.Fprintf(p.Out, "%s of action %s removed from %s\n", plural(n, "access rule"), a.Name, c.RulesOf())
		return nil
	}
	fmt.Fprintf(p.Out, "%s of action %s removed from list %s at Cloudflare\n", plural(n, "ban"), a.Name, a.Cloudflare.List)
	return nil
}

// lookPatience is how long Cloudflare may take to answer all that is asked.
const lookPatience = time.Minute

// lookOnline asks Cloudflare what its actions need to know.
func lookOnline(ctx context.Context, p *Process, c *config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	bad := 0
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Cloudflare == nil {
			continue
		}
		edge, err := edgeOf(a)
		if err != nil {
			return err
		}
		found, wrong := edge.Look(ctx)
		fmt.Fprintf(p.Out, "\nAt Cloudflare, for action %s\n", a.Name)
		for _, text := range found {
			fmt.Fprintln(p.Out, " ", text)
		}
		for _, text := range wrong {
			fmt.Fprintln(p.Out, "  problem:", text)
		}
		bad += len(wrong)
	}
	if bad > 0 {
		return fmt.Errorf("%s at Cloudflare", plural(bad, "problem"))
	}
	return nil
}

// checkTokens returns what is wrong with the files of tokens, as far as that can be
// told without asking anybody. user is who must be able to read them; nil: whoever
// runs this.
func checkTokens(c *config.Config, user *access.User) (warnings []config.Problem) {
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Cloudflare == nil {
			continue
		}
		for _, text := range checkToken(a.Cloudflare, user) {
			at := c.At(0, "actions", a.Name, "token_file")
			at.Msg = text
			warnings = append(warnings, at)
		}
	}
	return warnings
}

// hostName is this host's name; "": it has none.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// checkInstances warns of names that other hosts have as well.
func checkInstances(c *config.Config, host string) (warnings []config.Problem) {
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Cloudflare == nil {
			continue
		}
		name, key := a.Cloudflare.Instance, "instance"
		if name == "" {
			name, key = host, "type"
		}
		if first, _, _ := strings.Cut(strings.ToLower(name), "."); first != "" && first != "localhost" {
			continue
		}
		at := c.At(0, "actions", a.Name, key)
		at.Msg = fmt.Sprintf("this host goes by %q at Cloudflare, as others may: two with one name remove each other's bans. Set an instance of its own", name)
		warnings = append(warnings, at)
	}
	return warnings
}

func checkToken(c *config.Cloudflare, user *access.User) (texts []string) {
	_, err := c.Token.Read()
	switch {
	case err != nil && config.IsCredential(c.Token.Path):
		return []string{fmt.Sprintf("bans can be enforced only while the service runs and has this credential (LoadCredential= in its unit): %v", err)}
	case err != nil:
		return []string{fmt.Sprintf("its bans can't be enforced: %v", err)}
	}
	if user != nil && !config.IsCredential(c.Token.Path) {
		if err := user.Read(c.Token.Path); err != nil {
			texts = append(texts, fmt.Sprintf("its bans can't be enforced: %v", err))
		}
	}
	if e := c.Token.Exposed(); e != "" {
		texts = append(texts, fmt.Sprintf("%s %s: it should be only its owner's", c.Token.Path, e))
	}
	return texts
}
