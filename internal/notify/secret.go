package notify

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
)

// maxSecret is how large the file of a secret may be, in bytes.
const maxSecret = 4096

// Secret is a text, or the file that holds it. It never shows itself in what is
// printed.
type Secret struct {
	Text string
	Path string // absolute; read each time it is needed, so that it can be changed
}

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s.Path != "" {
		return "secret in " + s.Path
	}
	return "secret"
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// Given reports whether there is one.
func (s Secret) Given() bool { return s != Secret{} }

// Read returns the secret, without space around it. No error says what
// is in it.
func (s Secret) Read() (string, error) {
	if s.Path == "" {
		return s.Text, nil
	}
	// Nobody's named pipe holds us up.
	f, err := os.OpenFile(s.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	defer f.Close()
	wrong := func(what string) (string, error) { return "", fmt.Errorf("read a secret: %s %s", s.Path, what) }
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("read a secret: %w", err)
	case !info.Mode().IsRegular():
		return wrong("is no file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	text := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxSecret:
		return wrong(fmt.Sprintf("is larger than %d bytes", maxSecret))
	case text == "":
		return wrong("is empty")
	case strings.ContainsFunc(text, unicode.IsControl):
		return wrong("must hold one line, without control characters")
	}
	return text, nil
}

// Exposed says who else may read or change the file of a secret; "": nobody, as
// far as can be told, or it can't be looked at.
func (s Secret) Exposed() string {
	info, err := os.Stat(s.Path)
	if s.Path == "" || err != nil {
		return ""
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o022 != 0:
		return "can be changed by others"
	case mode&0o004 != 0:
		return "can be read by everybody"
	}
	return ""
}
