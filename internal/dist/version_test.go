package main

import (
	"os/exec"
	"testing"
	"time"
)

// Versions as Debian orders them: the older first.
func TestVersions(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 12, 1, 3, 4, 5, 0, time.FixedZone("", 3600))
	var last string
	for _, x := range []struct {
		d    described
		want string
	}{
		{described{text: "9cc183a", hash: "9cc183a"}, "0~git20261201.020405.9cc183a"},
		{described{text: "9cc183a-dirty", hash: "9cc183a"}, "0~git20261201.020405.9cc183a+dirty"},
		{described{text: "v0.3.0-rc1-0-g9cc183a"}, "0.3.0~rc1"},
		{described{text: "v0.3.0-rc1-12-g9cc183a"}, "0.3.0~rc1+12.g9cc183a"},
		{described{text: "v0.3.0-rc2-0-g9cc183a-dirty"}, "0.3.0~rc2+dirty"},
		{described{text: "v0.3.0-0-g9cc183a"}, "0.3.0"},
		{described{text: "v0.3.0-9-g9cc183a"}, "0.3.0+9.g9cc183a"},
		{described{text: "v0.3.0-12-g0cc183a-dirty"}, "0.3.0+12.g0cc183a+dirty"},
		{described{text: "v0.3.1-0-g9cc183a"}, "0.3.1"},
		{described{text: "v1-0-g9cc183a"}, "1"},
	} {
		x.d.date = date
		got, err := x.d.debian()
		if err != nil || got != x.want {
			t.Errorf("%s: got %q, %v, want %q", x.d.text, got, err, x.want)
		}
		if _, err := exec.LookPath("dpkg"); err == nil && last != "" {
			if exec.Command("dpkg", "--compare-versions", last, "lt", got).Run() != nil {
				t.Errorf("%s is not older than %s", last, got)
			}
		}
		last = got
	}
	for _, text := range []string{"v1.2.x-0-g9cc183a", "v0.3.0-beta_1-0-g9cc183a", "v"} {
		d := described{text: text, date: date}
		if got, err := d.debian(); err == nil {
			t.Errorf("%s: got %q", text, got)
		}
	}
	for _, v := range []string{"", "v1.0", "1.0-1", "1:1.0", "1.0 ", "1_0"} {
		if checkVersion(v) == nil {
			t.Errorf("%q counts as a version", v)
		}
	}
}

func TestSourceDate(t *testing.T) {
	t.Parallel()
	commit := time.Unix(5, 0)
	for epoch, want := range map[string]int64{"": 5, "0": 0, "1767225600": 1767225600} {
		if got, err := sourceDate(epoch, commit); err != nil || got.Unix() != want {
			t.Errorf("%q: %v, %v", epoch, got, err)
		}
	}
	for _, epoch := range []string{"-1", "x", "5x"} {
		if got, err := sourceDate(epoch, commit); err == nil {
			t.Errorf("%q: %v", epoch, got)
		}
	}
}
