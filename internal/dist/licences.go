package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// licences are those of what is linked into a program: most of them ask for that.
func (b *build) licences(ctx context.Context, program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-json"}
	for _, m := range info.Deps {
		args = append(args, m.Path)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the modules in %s: go list: %w", program, err)
	}
	var text bytes.Buffer
	// Where Go is kept differs, and whether its licence is there.
	text.WriteString("=== Go's standard library: as golang.org/x/sys, below\n\n")
	std := false
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) && std {
			return text.Bytes(), nil
		} else if err != nil {
			return nil, fmt.Errorf("go list, up to golang.org/x/sys: %w", err)
		}
		std = std || m.Path == "golang.org/x/sys"
		if err := licence(&text, m.Path+" "+m.Version, m.Dir); err != nil {
			return nil, err
		}
	}
}

// licence adds the licence and notices in the folder of a module.
func licence(to *bytes.Buffer, what, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", what, err)
	}
	found := false
	for _, e := range entries {
		kind, _, _ := strings.Cut(strings.ToUpper(e.Name()), ".")
		if e.IsDir() || !slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"}, kind) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", what, err)
		}
		found = found || kind != "NOTICE" && kind != "PATENTS"
		fmt.Fprintf(to, "=== %s: %s\n\n%s\n\n", what, e.Name(), bytes.TrimSpace(data))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", what, dir)
	}
	return nil
}
