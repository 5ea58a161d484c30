package man_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/tailban/tailban/internal/cli"
	"github.com/tailban/tailban/internal/man"
)

var date = time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC)

func TestCommands(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "shop", Short: "Sell things", Long: "Sell things.\n\n.profile isn't read.\n\n    shop -x"}
	root.PersistentFlags().StringP("config", "c", "/etc/shop", "configuration `file`")
	sell := &cobra.Command{Use: "sell THING [--for PRICE]", Short: "Sell a thing", Example: "  shop sell 'a~b'\n  shop sell é", Run: func(*cobra.Command, []string) {}}
	sell.Flags().Bool("dear", false, "at a high price")
	sell.Flags().Bool("secret", false, "not for you")
	if err := sell.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(sell, &cobra.Command{Use: "test", Hidden: true, Run: func(*cobra.Command, []string) {}})
	pages := man.Commands(root, date, "shop 1.0", "shop.toml(5)")
	want := map[string]string{
		"shop.1": `.TH "SHOP" "1" "2026\-12\-01" "shop 1.0"
.nh
.ad l
.SH "NAME"
shop \- Sell things
.SH "SYNOPSIS"
\fBshop\fR \fIcommand\fR [\fIoptions\fR]
.SH "DESCRIPTION"
Sell things.
.PP
\&.profile isn\(aqt read.
.PP
.RS 4
.nf
  shop \-x
.fi
.RE
.SH "COMMANDS"
.TP
\fBsell\fR
Sell a thing, \fBshop\-sell\fR(1).
.SH "OPTIONS"
.TP
\fB\-c\fR, \fB\-\-config\fR \fIfile\fR
configuration file (default: /etc/shop)
.TP
\fB\-h\fR, \fB\-\-help\fR
help for shop
.SH "SEE ALSO"
\fBshop\-sell\fR(1),
\fBshop.toml\fR(5)
`,
		"shop-sell.1": `.TH "SHOP\-SELL" "1" "2026\-12\-01" "shop 1.0"
.nh
.ad l
.SH "NAME"
shop\-sell \- Sell a thing
.SH "SYNOPSIS"
\fBshop sell\fR THING [\-\-for PRICE] [\fIoptions\fR]
.SH "DESCRIPTION"
Sell a thing.
.SH "OPTIONS"
.TP
\fB\-\-dear\fR
at a high price
.TP
\fB\-h\fR, \fB\-\-help\fR
help for sell
.SH "OPTIONS OF ALL COMMANDS"
.TP
\fB\-c\fR, \fB\-\-config\fR \fIfile\fR
configuration file (default: /etc/shop)
.SH "EXAMPLES"
.PP
.RS 4
.nf
shop sell \(aqa\(tib\(aq
shop sell \[u00E9]
.fi
.RE
.SH "SEE ALSO"
\fBshop\fR(1),
\fBshop.toml\fR(5)
`,
	}
	got := map[string]string{}
	for name, text := range pages {
		got[name] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	const text = "# Title\n\nTo *begin* with **two\nlines**.\n\n## `[a.NAME]`\n\n- one, [see](b.md#c)\n  more\n- [here](#there)\n\n" +
		"| key | default | |\n|---|---|---|\n| `k` | `\"a\\|b\"` | what |\n| `l` | required | |\n\n### Sub\n\n```toml\n.x = 'y' # \\\n```\n\n1. first\n2. `a * b` and `c * d`\n"
	const want = `.TH "X" "5" "2026\-12\-01" "shop 1.0"
.nh
.ad l
.SH "NAME"
x \- it
.SH "DESCRIPTION"
.PP
To \fIbegin\fR with \fBtwo lines\fR.
.SH "\fB[a.NAME]\fR"
.IP \(bu 2
one, see (\fIb.md\fR) more
.IP \(bu 2
here
.TP
\fBk\fR (default: \fB\(dqa|b\(dq\fR)
what
.TP
\fBl\fR (required)
.SS "Sub"
.PP
.RS 4
.nf
\&.x = \(aqy\(aq # \e
.fi
.RE
.IP 1. 4
first
.IP 2. 4
\fBa * b\fR and \fBc * d\fR
.SH "SEE ALSO"
\fBy\fR(1)
`
	p := man.Page{Name: "x", Section: 5, Short: "it", Date: date, Source: "shop 1.0"}
	got, err := man.Markdown(p, text, "y(1)")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, want := range map[string]string{
		"a\n\n> quoted\n":               "line 3",
		"<br>\n":                        "line 1",
		"| a |\n":                       "no head",
		"| a | b |\n|---|---|\n| a |\n": "1 columns",
		"```\nx\n":                      "not closed",
	} {
		if _, err := man.Markdown(p, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Our own pages are made, and roff has nothing to say of them where it is installed.
func TestOurPages(t *testing.T) {
	t.Parallel()
	pages := man.Commands(cli.Commands(), date, "tailban 1.0", "jails.toml(5)")
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := man.Page{Name: "jails.toml", Section: 5, Short: "configuration of tailban", Date: date, Source: "tailban 1.0"}
	if pages[p.File()], err = man.Markdown(p, string(text), "tailban(1)"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tailban.1", "tailban-run.1", "tailban-lists-accept.1"} {
		if pages[name] == nil {
			t.Errorf("there is no page %s", name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff here")
		return
	}
	for name, page := range pages {
		cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
		cmd.Stdin = strings.NewReader(string(page))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%.2000s", name, err, out)
		}
	}
}
