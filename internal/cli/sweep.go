package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/notify"
)

func newCloudflare(p *Process, path *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "cloudflare",
		Short: "Look after lists at Cloudflare",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newSweep(p, path))
	return c
}

func newSweep(p *Process, path *string) *cobra.Command {
	var o sweepOptions
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Remove bans from Cloudflare that are over, whichever host put them in",
		Long: `Remove bans from lists and access rules at Cloudflare that are over, whichever host put them in, and
exit. Nothing else is touched. A daemon does this by itself; this is for another
machine, run by a timer, in case that all daemons are gone.

The lists are those of the actions in the configuration or, with --account, the one
that is named; no configuration is needed then. With --access-rules it is the access
rules of that account or, with --zone, of zones.`,
		Example: `  tailban cloudflare sweep
  tailban cloudflare sweep --account 0a0b0c0d0e0f00112233445566778899 --token-file /etc/tailban/cloudflare-token
  tailban cloudflare sweep --account 0a0b0c0d0e0f00112233445566778899 --token-file /etc/tailban/cloudflare-token --access-rules`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := o.actions(p, *path)
			if err != nil {
				return err
			}
			var errs []error
			for i := range list {
				a := &list[i]
				edge, err := edgeOf(a)
				n := 0
				if err == nil {
					n, err = edge.Sweep(c.Context())
				}
				if n > 0 || err == nil {
					fmt.Fprintln(p.Out, swept(a.Cloudflare, n))
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().StringVar(&o.account, "account", "", "`id` of the account")
	c.Flags().StringVar(&o.token, "token-file", "", "`file` with the API token")
	c.Flags().StringVar(&o.list, "list", config.DefaultList, "`name` of the list")
	c.Flags().BoolVar(&o.rules, "access-rules", false, "sweep access rules, not a list")
	c.Flags().StringSliceVar(&o.zones, "zone", nil, "`id` of a zone with access rules, as often as there are some (default: those of the account)")
	c.Flags().StringVar(&o.api, "api-base", cloudflare.DefaultAPI, "`address` of the API")
	return c
}

// sweepOptions are flags.
type sweepOptions struct {
	account, token, list, api string
	rules                     bool
	zones                     []string
}

// swept tells what was removed.
func swept(c *config.Cloudflare, n int) string {
	if c.AccessRules {
		return fmt.Sprintf("%s that were over removed from %s", plural(n, "access rule"), c.RulesOf())
	}
	return fmt.Sprintf("%s that were over removed from list %s of account %s", plural(n, "ban"), c.List, c.Account)
}

// actions are those whose lists are swept.
func (o *sweepOptions) actions(p *Process, path string) (list []config.Action, err error) {
	if (o.account == "") != (o.token == "") {
		return nil, usageError{errors.New("--account and --token-file belong together")}
	}
	if o.rules && o.account == "" || len(o.zones) > 0 && !o.rules {
		return nil, usageError{errors.New("--zone is for --access-rules, and that for --account and --token-file")}
	}
	if o.account != "" {
		c, err := config.NewCloudflare(o.account, o.list, o.api, notify.Secret{Path: o.token})
		if err == nil && o.rules {
			err = c.UseRules(o.zones)
		}
		if err != nil {
			return nil, usageError{err}
		}
		c.Instance = "sweep"
		return []config.Action{{Name: "sweep", Type: config.TypeCloudflare, Cloudflare: c}}, nil
	}
	cfg, err := config.Load(path, p.Env)
	if err != nil {
		return nil, err
	}
	for _, a := range cfg.Actions {
		if a.Cloudflare != nil {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no action of type %q: name the list by --account and --token-file", path, config.TypeCloudflare)
	}
	return list, nil
}
