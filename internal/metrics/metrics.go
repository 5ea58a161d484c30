// Package metrics tells a daemon's status in the text format of Prometheus.
//
// Everything is made from one control.Status when somebody asks, and nothing is
// counted for it besides. No metric has an address of a client, a path or any
// other text that a client writes: labels are names of the configuration and words
// of the program, so that there are only so many series.
package metrics

import (
	"strconv"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// Snapshot is what all figures of one scrape are made from.
type Snapshot struct {
	Version string
	Started time.Time
	Status  *control.Status // nil: the daemon didn't answer in time
	Waited  time.Duration   // where Status is nil: for how long
	Sockets control.Counters
	Process Process
}

// Types of a Family.
const (
	Gauge   = "gauge"
	Counter = "counter"
)

// Family is a metric: one value for each set of labels.
type Family struct {
	Name   string
	Type   string
	Labels []string // names
	Help   string   // of one line

	read func(*Snapshot, put)
}

// put gives one value, with those of the labels in their order.
type put func(value float64, labels ...string)

// Families are all metrics that there are, in the order in which they are written.
func Families() []Family {
	var all []Family
	for _, part := range [][]Family{daemonFamilies(), banFamilies(), jailFamilies(), logFamilies(), actionFamilies(), edgeFamilies(), otherFamilies(), processFamilies()} {
		all = append(all, part...)
	}
	return all
}

// of makes what reads a value of a snapshot with a status.
func of(value func(*control.Status) float64) func(*Snapshot, put) {
	return func(s *Snapshot, put put) {
		if s.Status != nil {
			put(value(s.Status))
		}
	}
}

// each makes what reads the values of each element of a list of the status.
func each[T any](list func(*control.Status) []T, read func(*T, put)) func(*Snapshot, put) {
	return func(s *Snapshot, put put) {
		if s.Status == nil {
			return
		}
		all := list(s.Status)
		for i := range all {
			read(&all[i], put)
		}
	}
}

// oneOf gives 1 for the word that holds and 0 for all others.
func oneOf(put put, words []string, holds string, labels ...string) {
	for _, w := range words {
		put(truth(w == holds), append(labels[:len(labels):len(labels)], w)...)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unless0 gives a time, unless there is none.
func unless0(put put, t time.Time, labels ...string) {
	if !t.IsZero() {
		put(seconds(t), labels...)
	}
}

// seconds is a time in Unix time, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// appendValue writes a number as the format has it, as short as it is exact.
func appendValue(b []byte, v float64) []byte {
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}
