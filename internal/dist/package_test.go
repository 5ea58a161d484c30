package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailban/tailban/internal/config"
)

const root = "../.."

// What is installed is the example, but that it observes.
func TestInstalledConfiguration(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile(filepath.Join(root, "jails.toml.example"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := observing(string(example))
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse("jails.toml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range got.Jails {
		if !j.Observe {
			t.Errorf("jail %s enforces", j.Name)
		}
	}
	// What it says of how to go on.
	enforcing, err := config.Parse("jails.toml", []byte(strings.Replace(text, "\nmode = \"observe\"\n", "\n#mode = \"observe\"\n", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range enforcing.Jails {
		if j.Observe {
			t.Errorf("jail %s observes", j.Name)
		}
	}
	if _, err := observing(strings.Replace(string(example), "mode = ", "mode= ", 1)); err == nil {
		t.Error("an example that has changed is taken")
	}
}

// Debian has other names for some architectures, and none for some.
func TestNoPackageForOtherArchitectures(t *testing.T) {
	for _, arch := range []string{"arm", "386", "", "x86_64"} {
		out := filepath.Join(t.TempDir(), "dist")
		_, err := run(t.Context(), &build{root: "../..", out: out, arch: arch}, "1.2.3")
		if err == nil || !strings.Contains(err.Error(), "amd64 and arm64") {
			t.Errorf("%q: %v", arch, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: a folder is made", arch)
		}
	}
}

// The same sources give the same bytes, from whichever folder, with whichever
// umask, times and settings of Go's; and they are what a package has to be.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb: ", err)
	}
	date := time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	elsewhere := filepath.Join(t.TempDir(), "else where")
	checkout(t, elsewhere)
	// With the profile all is compiled anew for each folder.
	first := build{root: root, out: t.TempDir(), version: "1.2.3~rc1", arch: "amd64", pgo: "off", date: date}
	second := first
	second.root, second.out = elsewhere, filepath.Join(t.TempDir(), "made", "here")
	var bytesOf [2][]byte
	var path string
	settings := filepath.Join(t.TempDir(), "env") // as go env -w writes it
	if err := os.WriteFile(settings, []byte("GOFLAGS=-tags=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, b := range []build{first, second} {
		if i > 0 {
			t.Setenv("GOENV", settings)
			t.Setenv("GOFIPS140", "latest")
		}
		before := syscall.Umask(0o022 + i*0o055) // the second time: 077
		p, err := b.run(t.Context())
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		if bytesOf[i], err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
		path = p
	}
	if !bytes.Equal(bytesOf[0], bytesOf[1]) {
		t.Error("two builds differ")
	}
	if name := filepath.Base(path); name != "tailban_1.2.3~rc1-1_amd64.deb" {
		t.Errorf("the package is called %s", name)
	}
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = second.out
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the sums: %v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(second.out, "stage*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if diff := cmp.Diff(contents, listed(deb(t, "--contents", path))); diff != "" {
		t.Errorf("contents (-want +got)\n%s", diff)
	}

	dir := t.TempDir()
	deb(t, "--raw-extract", path, dir)
	text := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := text("DEBIAN/conffiles"); got != "/etc/tailban/jails.toml\n" {
		t.Errorf("conffiles: %q", got)
	}
	for _, line := range []string{"Package: tailban\n", "Version: 1.2.3~rc1-1\n", "Architecture: amd64\n", "Depends: systemd\n"} {
		if !strings.Contains(text("DEBIAN/control"), line) {
			t.Errorf("control lacks %q:\n%s", line, text("DEBIAN/control"))
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if out, err := exec.Command("sh", "-n", filepath.Join(dir, "DEBIAN", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	// Each unit that can be enabled is forgotten when the package is purged.
	units, _ := filepath.Glob(filepath.Join(dir, "usr/lib/systemd/system/*"))
	for _, u := range units {
		unit := text(strings.TrimPrefix(u, dir))
		if strings.Contains(unit, "/usr/local") {
			t.Errorf("%s has the path of make install", u)
		}
		if name := filepath.Base(u); strings.Contains(unit, "[Install]") && (!strings.Contains(text("DEBIAN/postrm"), name) || !strings.Contains(text("DEBIAN/postinst"), name)) {
			t.Errorf("the scripts don't know %s", name)
		}
	}
	if got := text("usr/lib/systemd/system/tailban.service"); !strings.Contains(got, "ExecStart=/usr/bin/tailban run\n") {
		t.Errorf("the unit is\n%s", got)
	}
	out, err := exec.Command(filepath.Join(dir, "usr/bin/tailban"), "version").CombinedOutput()
	if err != nil || string(out) != "tailban 1.2.3~rc1\n" {
		t.Errorf("version: %q, %v", out, err)
	}
	licences, err := exec.Command("gzip", "-dc", filepath.Join(dir, docs, "licences.gz")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"Go's standard library", "github.com/google/nftables v", "go.etcd.io/bbolt v", "github.com/nxadm/tail v"} {
		if !strings.Contains(string(licences), "=== "+of) {
			t.Errorf("there is no licence of %s", of)
		}
	}
}

// contents is what the package has, but for pages of commands and of docs/, of which
// one stands for all.
var contents = []string{
	"-rw-r--r-- root/root /etc/tailban/jails.toml",
	"-rwxr-xr-x root/root /usr/bin/tailban",
	"-rw-r--r-- root/root /usr/lib/systemd/system/tailban-sweep.service",
	"-rw-r--r-- root/root /usr/lib/systemd/system/tailban-sweep.timer",
	"-rw-r--r-- root/root /usr/lib/systemd/system/tailban.service",
	"-rw-r--r-- root/root /usr/lib/sysusers.d/tailban.conf",
	"-rw-r--r-- root/root /usr/share/bash-completion/completions/tailban",
	"-rw-r--r-- root/root /usr/share/doc/tailban/README.md",
	"-rw-r--r-- root/root /usr/share/doc/tailban/changelog.Debian.gz",
	"-rw-r--r-- root/root /usr/share/doc/tailban/changelog.gz",
	"-rw-r--r-- root/root /usr/share/doc/tailban/copyright",
	"-rw-r--r-- root/root /usr/share/doc/tailban/docs/concepts.md",
	"-rw-r--r-- root/root /usr/share/doc/tailban/examples/jails.toml",
	"-rw-r--r-- root/root /usr/share/doc/tailban/examples/tailban.socket",
	"-rw-r--r-- root/root /usr/share/doc/tailban/licences.gz",
	"-rw-r--r-- root/root /usr/share/fish/vendor_completions.d/tailban.fish",
	"-rw-r--r-- root/root /usr/share/lintian/overrides/tailban",
	"-rw-r--r-- root/root /usr/share/man/man1/tailban-run.1.gz",
	"-rw-r--r-- root/root /usr/share/man/man1/tailban.1.gz",
	"-rw-r--r-- root/root /usr/share/man/man5/jails.toml.5.gz",
	"-rw-r--r-- root/root /usr/share/zsh/vendor-completions/_tailban",
}

// listed are the files of a list by dpkg-deb. Folders are only those of others.
func listed(list string) (files []string) {
	others := regexp.MustCompile(`/tailban-.*\.1\.gz$|/doc/tailban/docs/.*`)
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		name := strings.TrimPrefix(f[len(f)-1], ".")
		if strings.HasPrefix(line, "drwxr-xr-x root/root ") ||
			others.MatchString(name) && name != "/usr/share/man/man1/tailban-run.1.gz" && name != "/usr/share/doc/tailban/docs/concepts.md" {
			continue
		}
		files = append(files, f[0]+" "+f[1]+" "+name)
	}
	return files
}

func deb(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("dpkg-deb", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg-deb %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkout copies what a build needs, with other times.
func checkout(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if rel == ".git" || rel == "dist" {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
