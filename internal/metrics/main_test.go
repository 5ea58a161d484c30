package metrics

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const patience = 20 * time.Second

// at is a time so many seconds after the start of the sample.
func at(seconds int) time.Time {
	return time.Date(2026, 11, 30, 4, 32, 16, 250e6, time.UTC).Add(time.Duration(seconds) * time.Second)
}
