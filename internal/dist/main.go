// Command dist makes the Debian package, and sums of it:
//
//	go run ./internal/dist            by the version that git tells
//	go run ./internal/dist -version 1.2.3 -arch arm64
//
// The same commit gives the same bytes, wherever it is built by the same Go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var b build
	version := flag.String("version", "", "of the package, without Debian's revision; empty: as git describes the commit")
	flag.StringVar(&b.root, "root", ".", "the checkout")
	flag.StringVar(&b.out, "out", "dist", "folder of the package")
	flag.StringVar(&b.arch, "arch", runtime.GOARCH, "architecture, as Go names it")
	flag.StringVar(&b.pgo, "pgo", "auto", "profile that the program is compiled with, as of go build")
	flag.Parse()
	path, err := run(ctx, &b, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println(path)
}

func run(ctx context.Context, b *build, version string) (path string, err error) {
	d, err := describe(ctx, b.root)
	if err != nil && version == "" {
		return "", fmt.Errorf("%w (hint: outside of a git checkout, make dist VERSION=1.2.3)", err)
	}
	// Those have the same name in Go and in Debian, which not all have.
	architectures := []string{"amd64", "arm64"}
	if !slices.Contains(architectures, b.arch) {
		return "", fmt.Errorf("no package is made for %q, but for %s (hint: go build makes the program for others)", b.arch, strings.Join(architectures, " and "))
	}
	b.version, b.date = version, d.date
	if version == "" {
		if b.version, err = d.debian(); err != nil {
			return "", err
		}
	} else if err := checkVersion(version); err != nil {
		return "", err
	}
	if b.date, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH"), b.date); err != nil {
		return "", err
	}
	return b.run(ctx)
}

// sourceDate is the time that files are given: that of the environment, or of the
// commit.
func sourceDate(epoch string, commit time.Time) (time.Time, error) {
	if epoch == "" {
		return commit.UTC(), nil
	}
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || s < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, not seconds since 1970", epoch)
	}
	return time.Unix(s, 0).UTC(), nil
}
