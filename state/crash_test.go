package state

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const crashEnv = "TAILBAN_TEST_CRASH_STATE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		commitForever(path)
	}
	goleak.VerifyTestMain(m)
}

// commitForever is the process that gets killed: commit n holds the n-th ban
// and a position that says n, and is printed once it is acknowledged.
func commitForever(path string) {
	s, l, err := Open(path, noon)
	if err != nil || l.Why != nil {
		fmt.Println("open:", err, l)
		os.Exit(1)
	}
	for n := len(l.Bans); ; n++ {
		p := testPosition(1)
		p.Offset = int64(n)
		if err := s.Commit(Update{Bans: []Ban{testBan(n)}, Positions: []Position{p}}); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

func TestKilledAnywhereKeepsWhatWasAcknowledged(t *testing.T) {
	path := statePath(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 7))
	for range rounds {
		acked := killAfter(t, path, 20+r.IntN(60), time.Duration(r.IntN(1500))*time.Microsecond)
		s, l := mustOpen(t, path, noon)
		sound(t, l)
		last := -1
		if len(l.Positions) == 1 {
			last = int(l.Positions[0].Offset)
		}
		if last < acked {
			t.Errorf("position says %d, acknowledged was %d", last, acked)
		}
		if len(l.Bans) != last+1 {
			t.Errorf("%d bans with a position of %d: a commit is there in part", len(l.Bans), last)
		}
		mustClose(t, s)
	}
}

// killAfter runs commitForever, kills it some time after so many commits and
// returns the last number it acknowledged.
func killAfter(t *testing.T, path string, commits int, more time.Duration) (acked int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked = -1
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == commits {
			time.AfterFunc(more, func() { cmd.Process.Kill() })
		}
		if acked, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatalf("child: %s", lines.Text())
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("child ended by itself")
	}
	return acked
}
