package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/prove"
	"github.com/tailban/tailban/internal/replay"
)

func newReplay(p *Process, path *string) *cobra.Command {
	var log string
	var asJSON, raw, dns bool
	c := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Show whom past logs would have banned; enforces nothing",
		Long: `Run past logs through the jails, with time taken from the lines. Nothing is
enforced, and no privilege is needed. "-" is standard input; compressed files
(gzip) are read as they are. Several files are read in the order of time,
those that overlap at the same time.

Without --config, a built-in jail is used: more than 50 requests in 60 seconds
ban for an hour, and the log's format is found out from its lines.`,
		Example: `  tailban replay /var/log/nginx/access.log*
  tailban replay -c jails.toml --log nginx --json access.log | jq 'select(.refused == null) | .target'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("replay needs at least one file; \"-\" is standard input")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg := config.Builtin()
			if c.Flags().Changed("config") {
				var err error
				if cfg, err = config.Load(*path, p.Env); err != nil {
					return err
				}
				noteFetched(p.Err, cfg)
			}
			o := replay.Options{
				Config: cfg, Log: log, Files: args, In: p.In, Out: p.Out, Notes: p.Err, JSON: asJSON, Raw: raw, Now: time.Now,
			}
			if dns {
				o.Resolver = prove.System()
			}
			return replay.Run(c.Context(), o)
		},
	}
	c.Flags().StringVar(&log, "log", "", "which `log` of the configuration the files are")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line for each decision")
	c.Flags().BoolVar(&raw, "raw", false, "show the text of lines that don't parse; it can hold names and queries")
	c.Flags().BoolVar(&dns, "dns", false, "look up the names of clients that claim to be wanted machines with domains")
	return c
}
