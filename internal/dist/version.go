package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// described is what git says of a commit.
type described struct {
	text string // git describe --tags --always --long --dirty
	hash string // short
	date time.Time
}

// describe asks git. Without a checkout the date is that of the epoch.
func describe(ctx context.Context, root string) (described, error) {
	d := described{date: time.Unix(0, 0)}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if said := (*exec.ExitError)(nil); errors.As(err, &said) {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(said.Stderr)))
		}
		if err != nil {
			return "", fmt.Errorf("git %s: %w", args[0], err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("show", "-s", "--abbrev=7", "--format=%ct %h", "HEAD")
	if err != nil {
		return d, err
	}
	var seconds int64
	if _, err := fmt.Sscan(commit, &seconds, &d.hash); err != nil {
		return d, fmt.Errorf("git show: %w: %q", err, commit)
	}
	d.date = time.Unix(seconds, 0)
	d.text, err = git("describe", "--tags", "--match", "v[0-9]*", "--always", "--long", "--abbrev=7", "--dirty")
	return d, err
}

// tagged is what git describe says if there is a tag: v1.2.3-rc1-5-g9cc183a-dirty.
var tagged = regexp.MustCompile(`^v([0-9]+(?:\.[0-9]+)*)(?:-((?:alpha|beta|rc)[.0-9]*))?-([0-9]+)-g([0-9a-f]+)(-dirty)?$`)

// debian is the version that Debian orders rightly: what comes after a tag is
// newer, a candidate older than what it is for, and what was never tagged older
// than anything that was.
func (d *described) debian() (string, error) {
	m := tagged.FindStringSubmatch(d.text)
	var v string
	switch {
	case m != nil:
		v = m[1]
		if m[2] != "" {
			v += "~" + m[2]
		}
		if m[3] != "0" {
			v += "+" + m[3] + ".g" + m[4]
		}
	case strings.HasPrefix(d.text, "v"):
		return "", fmt.Errorf("the tag of %q is no version such as v1.2.3 or v1.2.3-rc1", d.text)
	default:
		v = "0~git" + d.date.UTC().Format("20060102.150405") + "." + d.hash
	}
	if strings.HasSuffix(d.text, "-dirty") {
		v += "+dirty"
	}
	return v, checkVersion(v)
}

// version is one of Debian's without an epoch and a revision.
var version = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~]*$`)

func checkVersion(v string) error {
	if !version.MatchString(v) {
		return fmt.Errorf("%q is no version of a Debian package: a digit, then letters, digits, and . + ~", v)
	}
	return nil
}
