package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// nfpm is what writes the package.
	nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
	// revision is that of the package of one version.
	revision = "1"
)

// build is a package to be made.
type build struct {
	root, out     string
	version, arch string
	pgo           string // empty: auto
	date          time.Time
}

// run makes the package and returns where it is.
func (b *build) run(ctx context.Context) (string, error) {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return "", err
	}
	stage, err := os.MkdirTemp(b.out, "stage-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(stage)
	if err := b.compile(ctx, filepath.Join(stage, "usr/bin/tailban")); err != nil {
		return "", err
	}
	if err := b.stage(ctx, stage); err != nil {
		return "", err
	}
	path := filepath.Join(b.out, fmt.Sprintf("tailban_%s-%s_%s.deb", b.version, revision, b.arch))
	if err := b.pack(ctx, stage, path); err != nil {
		return "", err
	}
	return path, b.sums()
}

// tool is a run of Go that doesn't depend on how its user has set Go up. What is
// empty in the environment would be taken from the file of go env -w.
func (b *build) tool(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), append([]string{"GOFLAGS=-trimpath", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off", "CGO_ENABLED=0"}, env...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args[:2], " "), err, out)
	}
	return nil
}

func (b *build) compile(ctx context.Context, to string) error {
	abs, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	// Whether there is git, and what lies about, must make no difference.
	return b.tool(ctx, []string{"GOOS=linux", "GOARCH=" + b.arch, "GOAMD64=v1", "GOARM64=v8.0"},
		"build", "-trimpath", "-buildvcs=false", "-pgo="+cmp.Or(b.pgo, "auto"), "-ldflags", "-s -w -X main.version="+b.version, "-o", abs, ".")
}

func (b *build) pack(ctx context.Context, stage, to string) error {
	var env []string
	for name, path := range map[string]string{"STAGE": stage, "DEB": to} {
		abs, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		env = append(env, name+"="+abs)
		if name == "DEB" {
			to = abs
		}
	}
	// The tool itself runs here.
	env = append(env, "GOOS=", "GOARCH=", "ARCH="+b.arch, "VERSION="+b.version, "REVISION="+revision,
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", b.date.Unix()))
	return b.tool(ctx, env, "run", nfpm, "package", "-f", "packaging/nfpm.yaml", "-p", "deb", "-t", to)
}

// sums writes those of this version's packages, of whatever architecture.
func (b *build) sums() error {
	list, err := filepath.Glob(filepath.Join(b.out, fmt.Sprintf("tailban_%s-%s_*.deb", b.version, revision)))
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, path := range list {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), filepath.Base(path))
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
