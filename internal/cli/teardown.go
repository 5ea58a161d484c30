package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
)

func newTeardown(p *Process, path *string) *cobra.Command {
	var table string
	c := &cobra.Command{
		Use:   "teardown",
		Short: "Remove all bans from the kernel, with our table",
		Long: `Delete the nftables table of every nftables action in the configuration, with
all bans in it; nothing else is touched. If there is no configuration in the
usual place, or one with problems, that is the table "tailban". No daemon is
needed; one that runs would make its table again or, with protect_table, not let
go of it: stop it first.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			tables := []string{table}
			if !c.Flags().Changed("table") {
				var err error
				if tables, err = configuredTables(p, *path, c.Flags().Changed("config")); err != nil {
					return err
				}
			}
			for _, t := range tables {
				warnRunning(p, t)
				existed, err := actions.Teardown(c.Context(), actions.NftablesOptions{Table: t})
				if err != nil {
					return err
				}
				if existed {
					fmt.Fprintf(p.Out, "table inet %s removed\n", t)
				} else {
					fmt.Fprintf(p.Out, "there is no table inet %s\n", t)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&table, "table", actions.DefaultTable, "remove this `table` instead of those configured")
	return c
}

// configuredTables lists the tables of the configuration. One that nobody
// asked for need not be there, or be right: a teardown must always be
// possible.
func configuredTables(p *Process, path string, asked bool) ([]string, error) {
	cfg, err := config.Load(path, p.Env)
	if err != nil {
		if asked {
			return nil, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(p.Err, "warning: %s can't be used, so only the table %s is removed: see tailban check\n", path, actions.DefaultTable)
		}
		return []string{actions.DefaultTable}, nil
	}
	var tables []string
	for _, a := range cfg.Actions {
		if a.Type == config.TypeNftables {
			tables = append(tables, a.Table)
		}
	}
	if len(tables) == 0 {
		tables = []string{actions.DefaultTable}
	}
	return tables, nil
}

// warnRunning says so if a daemon that runs will make the table again.
func warnRunning(p *Process, table string) {
	l, err := actions.LockTable(table)
	if err != nil {
		fmt.Fprintf(p.Err, "warning: the daemon runs and will make the table again; stop it first (%v)\n", err)
		return
	}
	if w := l.Warning(); w != "" {
		fmt.Fprintln(p.Err, "warning:", w)
	}
	if err := l.Close(); err != nil {
		fmt.Fprintln(p.Err, "warning:", err)
	}
}
