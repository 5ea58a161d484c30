package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailban/tailban/internal/cli"
	"github.com/tailban/tailban/internal/man"
)

const (
	docs       = "usr/share/doc/tailban"
	maintainer = "The tailban authors <maintainers@users.noreply.a-seed-0a0e7d8f.example>"
)

// stage writes what the package holds besides the program, below a folder as below
// the root of the system that gets it.
func (b *build) stage(ctx context.Context, to string) error {
	s := &stage{from: b.root, to: to}
	s.chmod("usr/bin/tailban", 0o755)
	for _, unit := range s.list("systemd/*.service", "systemd/*.timer") {
		s.write("usr/lib/systemd/system/"+filepath.Base(unit), bytes.ReplaceAll(s.read(unit), []byte("/usr/local/bin/tailban"), []byte("/usr/bin/tailban")))
	}
	for _, example := range s.list("systemd/*.socket") {
		s.write(docs+"/examples/"+filepath.Base(example), s.read(example))
	}
	s.write("usr/lib/sysusers.d/tailban.conf", s.read("systemd/tailban.sysusers"))

	example := s.read("jails.toml.example")
	s.write(docs+"/examples/jails.toml", example)
	config, err := observing(string(example))
	if err != nil {
		return err
	}
	s.write("etc/tailban/jails.toml", []byte(config))

	s.write(docs+"/README.md", s.read("README.md"))
	for _, page := range s.list("docs/*.md", "docs/*.yml") {
		s.write(docs+"/"+page, s.read(page))
	}
	s.gzip(docs+"/changelog.gz", s.read("CHANGELOG.md"))
	s.gzip(docs+"/changelog.Debian.gz", fmt.Appendf(nil, "tailban (%s-%s) unstable; urgency=medium\n\n  * What has changed is in changelog.gz.\n\n -- %s  %s\n",
		b.version, revision, maintainer, b.date.Format("Mon, 02 Jan 2006 15:04:05 -0700")))
	s.write(docs+"/copyright", s.read("packaging/deb/copyright"))
	s.write("usr/share/lintian/overrides/tailban", s.read("packaging/deb/lintian-overrides"))
	licences, err := b.licences(ctx, filepath.Join(to, "usr/bin/tailban"))
	if err != nil {
		return err
	}
	s.gzip(docs+"/licences.gz", licences)

	if err := b.manual(s); err != nil {
		return err
	}
	if err := completions(s); err != nil {
		return err
	}
	s.fail(filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	}))
	return s.err
}

// manual writes the pages.
func (b *build) manual(s *stage) error {
	source := "tailban " + b.version
	if len(source) > 32 { // it shares a line of 80 columns with the date, which is in the middle
		source = b.version
	}
	for name, page := range man.Commands(cli.Commands(), b.date, source, "jails.toml(5)") {
		s.gzip("usr/share/man/man1/"+name+".gz", page)
	}
	p := man.Page{Name: "jails.toml", Section: 5, Short: "configuration of tailban", Date: b.date, Source: source}
	text := string(s.read("docs/configuration.md")) + "\n## Documentation\n\n" +
		"The pages that are named here, like concepts.md, are in `/usr/share/doc/tailban/docs`.\n"
	page, err := man.Markdown(p, text, "tailban(1)", "tailban-check(1)")
	s.gzip("usr/share/man/man5/"+p.File()+".gz", page)
	return err
}

func completions(s *stage) error {
	var bash, zsh, fish bytes.Buffer
	root := cli.Commands()
	err := errors.Join(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true))
	s.write("usr/share/bash-completion/completions/tailban", bash.Bytes())
	s.write("usr/share/zsh/vendor-completions/_tailban", zsh.Bytes())
	s.write("usr/share/fish/vendor_completions.d/tailban.fish", fish.Bytes())
	return err
}

// observing makes the example what is installed: it bans nobody, and says how to
// go on.
func observing(example string) (string, error) {
	for _, x := range [][2]string{
		{"#   sudo cp jails.toml.example /etc/tailban/jails.toml\n", ""},
		{"#   tailban reload    has the running daemon take up what you changed\n",
			"#   tailban reload    has the running daemon take up what you changed\n#\n" +
				"# jails.toml(5) has every key; what this file was at first is in\n# /usr/share/doc/tailban/examples/jails.toml.\n"},
		{"# Try things out first: decide and record, but ban nobody.\n#mode = \"observe\"\n",
			"# As installed, tailban decides and records, but bans nobody. See whom it would\n" +
				"# have banned (tailban status, tailban events, tailban replay), then put a # before\n" +
				"# the next line and run: tailban check && systemctl reload tailban\nmode = \"observe\"\n"},
	} {
		if strings.Count(example, x[0]) != 1 {
			return "", fmt.Errorf("jails.toml.example has %q not once: what is installed is made from it", x[0])
		}
		example = strings.Replace(example, x[0], x[1], 1)
	}
	return example, nil
}

// stage is a folder that is filled, until the first error.
type stage struct {
	from, to string
	err      error
}

// list returns files of the checkout.
func (s *stage) list(patterns ...string) (names []string) {
	for _, p := range patterns {
		found, err := fs.Glob(os.DirFS(s.from), p)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("there is no %s in %s", p, s.from)
		}
		s.fail(err)
		names = append(names, found...)
	}
	return names
}

func (s *stage) read(name string) []byte {
	data, err := os.ReadFile(filepath.Join(s.from, name))
	s.fail(err)
	return data
}

// write makes a file with the permissions that all have but the program,
// whatever the umask is.
func (s *stage) write(name string, data []byte) {
	path := filepath.Join(s.to, name)
	s.fail(os.MkdirAll(filepath.Dir(path), 0o755))
	if s.err == nil {
		s.fail(os.WriteFile(path, data, 0o644))
	}
	s.chmod(name, 0o644)
}

func (s *stage) chmod(name string, mode fs.FileMode) {
	if s.err == nil {
		s.fail(os.Chmod(filepath.Join(s.to, name), mode))
	}
}

// gzip writes a file compressed, without a time and a name in it.
func (s *stage) gzip(name string, data []byte) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	s.fail(err)
	if err == nil {
		_, err = z.Write(data)
		s.fail(errors.Join(err, z.Close()))
	}
	s.write(name, b.Bytes())
}

func (s *stage) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
