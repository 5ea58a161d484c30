// Package corpus finds the test data that lies beside a developer's checkout
// and is not part of the project. Tests that read it skip where it is
// missing.
package corpus

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or folder of the shared data, or skips the
// test.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
	p := filepath.Join(append([]string{dir, "..", "shared"}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("shared test data not here: %v", err)
	}
	return p
}
