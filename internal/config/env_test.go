package config

import (
	"slices"
	"testing"
	"time"
)

const dashes = "[jails.sign-in]\nlimit = 10\nwindow = \"60s\"\nban = [\"1h\", \"2h\"]\n"

func TestOverride(t *testing.T) {
	c := accept(t, base+dashes,
		"PATH=/bin", "TAILBAN_LIMIT_SIGN_IN=0", "TAILBAN_BAN_SIGN_IN=1d", "TAILBAN_CONFIG=x", "NONSENSE",
		"TAILBAN_LIMIT_WEB=7", "TAILBAN_LIMIT_WEB=8")
	if j := c.Jails[1]; j.Limit != 0 || !slices.Equal(j.Ban, ladder(24*time.Hour)) || j.Window != time.Minute {
		t.Errorf("sign-in: %+v", j)
	}
	if w := c.Warnings(); len(w) != 3 || w[2].String() != "TAILBAN_CONFIG: is ignored: of the environment only TAILBAN_LIMIT_NAME and TAILBAN_BAN_NAME override something" {
		t.Errorf("warnings %v", w)
	}
	if j := c.Jails[0]; j.Limit != 8 || !slices.Equal(j.Ban, ladder(time.Hour)) {
		t.Errorf("web: %+v", j)
	}
}

func TestOverrideBad(t *testing.T) {
	for _, tt := range []struct {
		name, tail, env, want string
	}{
		{"limit", "", "TAILBAN_LIMIT_WEB=fifty", `TAILBAN_LIMIT_WEB = "fifty": must be a whole number, 0 or more`},
		{"high limit", "", "TAILBAN_LIMIT_WEB=1000001", `TAILBAN_LIMIT_WEB = 1000001: must be at most 100000`},
		{"empty", "", "TAILBAN_LIMIT_WEB=", `TAILBAN_LIMIT_WEB = "": must be a whole number, 0 or more`},
		{"ban", "", "TAILBAN_BAN_WEB=10", `TAILBAN_BAN_WEB = "10": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`},
		{"one length only", "", "TAILBAN_BAN_WEB=1h,6h", `TAILBAN_BAN_WEB = "1h,6h": must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`},
		{"long ban", "", "TAILBAN_BAN_WEB=99w", `TAILBAN_BAN_WEB = "99w": must be from 1s to 365d`},
		{"no jail, but near", dashes, "TAILBAN_BAN_SIGNIN=1h", `TAILBAN_BAN_SIGNIN = "1h": there is no such jail, did you mean TAILBAN_BAN_SIGN_IN?`},
		{"lower case", "", "TAILBAN_LIMIT_web=1", `TAILBAN_LIMIT_web = "1": there is no such jail, did you mean TAILBAN_LIMIT_WEB?`},
		{"no jail at all", "", "TAILBAN_LIMIT_SOMETHING_ELSE=1", `TAILBAN_LIMIT_SOMETHING_ELSE = "1": there is no such jail`},
		{"no name", "", "TAILBAN_LIMIT_=1", `TAILBAN_LIMIT_ = "1": there is no such jail`},
		{"deny is no jail", "", "TAILBAN_BAN_DENY=1h", `TAILBAN_BAN_DENY = "1h": there is no such jail`},
		{"two jails", dashes + "[jails.sign_in]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\n", "TAILBAN_LIMIT_SIGN_IN=1",
			`TAILBAN_LIMIT_SIGN_IN = "1": could mean any of the jails sign-in, sign_in: rename all but one`},
		{"a jail that is bad itself", "[jails]\nx = 1\n", "TAILBAN_LIMIT_X=-2",
			"jails.toml:8: jails.x = 1: must be a table: [jails.x]\nTAILBAN_LIMIT_X = -2: must be a whole number, 0 or more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, base+tt.tail, []string{tt.env}, tt.want)
		})
	}
}

// Two jails may share a variable's name as long as nobody sets it.
func TestOverrideUnused(t *testing.T) {
	accept(t, base+dashes+"[jails.sign_in]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\n", "TAILBAN_LIMIT_WEB=1")
}

func TestStateDir(t *testing.T) {
	const own = "state_dir = \"/srv/own\"\n"
	for _, tt := range []struct {
		name, doc, want string
		env             []string
	}{
		{"default", base, "/var/lib/tailban", nil},
		{"file", own + base, "/srv/own", nil},
		{"environment wins", own + base, "/var/lib/private/tailban", []string{"STATE_DIRECTORY=/var/lib/private/tailban"}},
		{"first of several", base, "/a", []string{"STATE_DIRECTORY=/a:/b"}},
		{"empty is unset", own + base, "/srv/own", []string{"STATE_DIRECTORY="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := accept(t, tt.doc, tt.env...).StateDir; got != tt.want {
				t.Errorf("state folder %q, want %q", got, tt.want)
			}
		})
	}
	if got := accept(t, own+base, "RUNTIME_DIRECTORY=/run/own").RuntimeDir; got != "/run/own" {
		t.Errorf("runtime folder %q", got)
	}
	check(t, "admin_group = \"a:b\"\n"+base, nil, `jails.toml:1: admin_group = "a:b": must be the name of a group`)
	check(t, base, []string{"STATE_DIRECTORY=:/b"},
		`STATE_DIRECTORY = ":/b": must be an absolute path, or several separated by colons`)
}
