// Command firewall is a firewall for tests of actions that run programs. It keeps a
// file for each ban:
//
//	firewall DIR ban|unban|check|list [PREFIX [SECONDS]]
//
// Without PREFIX the targets of ban and unban are on standard input. With
// SECONDS, there or there, a ban ends by itself and the listing tells what is
// left. A file "bad" in DIR holds targets that it fails for.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	f := firewall{dir: os.Args[1]}
	if err := f.run(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		f.status = max(f.status, 1)
	}
	os.Exit(f.status)
}

type firewall struct {
	dir    string
	status int
}

func (f *firewall) run(verb string, args []string) error {
	switch verb {
	case "list":
		return f.list()
	case "check":
		if _, ok := f.left(f.file(args[0])); !ok {
			f.status = 1
		}
		return nil
	}
	if len(args) > 0 {
		args = append(args, "0")
		seconds, err := strconv.ParseInt(args[1], 10, 64)
		return errors.Join(err, f.change(verb, args[0], seconds))
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var l struct {
			Verb, Target string
			Seconds      int64
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.Verb != verb {
			return fmt.Errorf("cannot read %q: %w", lines.Text(), err)
		}
		if err := f.change(verb, l.Target, l.Seconds); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (f *firewall) file(target string) string {
	return filepath.Join(f.dir, "ban "+strings.ReplaceAll(target, "/", "_"))
}

func (f *firewall) change(verb, target string, seconds int64) error {
	bad, _ := os.ReadFile(filepath.Join(f.dir, "bad"))
	if strings.Contains(string(bad), target) {
		f.status = 3
		return fmt.Errorf("no room for \x1b[31m%s", target)
	}
	if verb == "unban" {
		if err := os.Remove(f.file(target)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var until string
	if seconds > 0 {
		until = strconv.FormatInt(time.Now().Add(time.Duration(seconds)*time.Second).UnixNano(), 10)
	}
	temp := filepath.Join(f.dir, "new "+strconv.Itoa(os.Getpid()))
	return errors.Join(os.WriteFile(temp, []byte(until), 0o600), os.Rename(temp, f.file(target)))
}

// left tells the seconds left of a ban, "" for one that has no end.
func (f *firewall) left(file string) (string, bool) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return "", err == nil
	}
	until, err := strconv.ParseInt(string(text), 10, 64)
	left := time.Until(time.Unix(0, until))
	return strconv.FormatFloat(left.Seconds(), 'f', 3, 64), err == nil && left > 0
}

func (f *firewall) list() error {
	files, err := filepath.Glob(filepath.Join(f.dir, "ban *"))
	out := bufio.NewWriter(os.Stdout)
	for _, file := range files {
		if left, ok := f.left(file); ok {
			target := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(file), "ban "), "_", "/")
			fmt.Fprintln(out, target, left)
		}
	}
	return errors.Join(err, out.Flush())
}
