package cli

import (
	"fmt"
	"os/user"

	"github.com/tailban/tailban/internal/config"
)

// checkGroups warns of groups for the control sockets that this machine doesn't have:
// the daemon goes on then, without them.
func checkGroups(c *config.Config) (warnings []config.Problem) {
	for _, x := range []struct{ key, group string }{{"status_group", c.StatusGroup}, {"admin_group", c.AdminGroup}} {
		if x.group == "" {
			continue
		}
		if _, err := user.LookupGroup(x.group); err != nil {
			at := c.At(0, x.key)
			at.Msg = fmt.Sprintf("there is no group %q on this machine, so no member of it can ask the daemon (groupadd --system %s)", x.group, x.group)
			warnings = append(warnings, at)
		}
	}
	return warnings
}
