package wholefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read reads a file that Write has made, of at most limit bytes. What else
// somebody may have put in its place is refused, as it could lead elsewhere, or
// never end: links, pipes, devices. Who may write to it is not looked at.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link, which no daemon makes there", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// One without a name was replaced while it was opened, and is as whole as the next.
	if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && st.Nlink > 1 {
		return nil, fmt.Errorf("%s is no regular file with one name, as a daemon makes it", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %s", path, size(limit))
	}
	return data, nil
}

func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
