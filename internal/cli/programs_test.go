package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
)

// What can't work with the iptables that is there is said before it is tried.
func TestCheckPrograms(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	program := func(name, version string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	said := func(more string, uid uint32) string {
		t.Helper()
		c, err := config.Parse("jails.toml", []byte("[logs.a]\nfiles = \"/a\"\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n[actions.fw]\n"+more), nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, w := range checkPrograms(c, &access.User{UID: uid}) {
			lines = append(lines, w.String())
		}
		return strings.Join(lines, "\n")
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("said\n%s\nwant\n%s", got, want)
		}
	}
	const legacy, nft = "iptables v1.8.9 (legacy)", "iptables v1.8.9 (nf_tables)"
	for _, name := range []string{"iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy"} {
		program(name, legacy)
	}
	want(said("type = \"iptables\"\n", 0), "")
	want(said("type = \"iptables\"\n", 65000), "jails.toml:8: actions.fw.type: its bans can't be enforced: "+
		dir+"/iptables is iptables-legacy, which works only as root, not as user 65000")
	want(said("type = \"iptables\"\nvariant = \"legacy\"\n", 65000), "jails.toml:9: actions.fw.variant: its bans can't be enforced: "+
		dir+"/iptables-legacy is iptables-legacy, which works only as root, not as user 65000")
	want(said("type = \"nftables\"\n", 65000), "")
	program("iptables", nft)
	want(said("type = \"iptables\"\n", 0), "jails.toml:8: actions.fw.type: its bans can't be enforced: "+
		dir+"/iptables is iptables-nft and "+dir+"/ip6tables is iptables-legacy (choose one variant)")
	program("ip6tables", nft)
	want(said("type = \"iptables\"\n", 65000), "")
}

// So is what can't work with the programs of an action, and what their bans do
// while nobody looks after them.
func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ban")
	var user *access.User
	said := func(more string) string {
		t.Helper()
		c, err := config.Parse("jails.toml", []byte("[logs.a]\nfiles = \"/a\"\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n[actions.x]\n"+
			"type = \"command\"\nban = [\""+path+"\"]\nunban = [\""+path+"\"]\n"+more), nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, w := range checkPrograms(c, user) {
			lines = append(lines, w.String())
		}
		return strings.Join(lines, "\n")
	}
	want := func(got, want string) {
		t.Helper()
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("said\n%s\nwant\n%s", got, want)
		}
	}
	const at = "jails.toml:8: actions.x.type: "
	want(said(""), at+"its bans can't be enforced: ban: stat "+path+": no such file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want(said(""), at+"its bans can't be enforced: ban: "+path+" is not executable")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	want(said(""), at+"bans here outlive a dead daemon")
	want(said("expires = true\nlist = [\""+path+"\"]\n"), "")
	if os.Geteuid() != 0 {
		return // only root may look for others, and give files away
	}
	user = &access.User{Name: "tailban", UID: 65001, Groups: []uint32{65001}}
	want(said(""), at+"its bans can't be enforced: ban: user tailban may not look into the folder ")
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want(said(""), at+"bans here outlive a dead daemon")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	want(said(""), at+"its bans can't be enforced: ban: user tailban may not run the file "+path)
	if err := os.Chown(path, 65001, 65001); err != nil {
		t.Fatal(err)
	}
	want(said(""), at+"bans here outlive a dead daemon")
	user = nil
	want(said(""), at+"its bans can't be enforced: ban: it would be run with the rights of tailban, but "+path+" may be changed by user 65001")
}
