package metrics

import (
	"bytes"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process are figures of this process. What can't be found out is 0.
type Process struct {
	CPU        float64 // seconds
	Resident   uint64  // bytes
	OpenFDs    int
	MaxFDs     uint64
	Goroutines int
}

// ReadProcess asks the kernel. It reads nothing that is on a disk.
func ReadProcess() Process {
	p := Process{Goroutines: runtime.NumGoroutine(), Resident: resident(), OpenFDs: openFDs()}
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		p.CPU = float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.MaxFDs = limit.Cur
	}
	return p
}

// resident is the second number of /proc/self/statm, in pages: proc(5).
func resident() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize())
}

// openFDs counts what is open, but for the folder that lists it.
func openFDs() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1
}

// processFamilies have the names that other programs use, too.
func processFamilies() []Family {
	value := func(v func(*Process) float64) func(*Snapshot, put) {
		return func(s *Snapshot, put put) { put(v(&s.Process)) }
	}
	return []Family{
		{"process_start_time_seconds", Gauge, nil, "When the process started, in Unix time.", func(s *Snapshot, put put) { put(seconds(s.Started)) }},
		{"process_cpu_seconds_total", Counter, nil, "CPU time that was used.", value(func(p *Process) float64 { return p.CPU })},
		{"process_resident_memory_bytes", Gauge, nil, "Memory in use.", value(func(p *Process) float64 { return float64(p.Resident) })},
		{"process_open_fds", Gauge, nil, "Open file descriptors.", value(func(p *Process) float64 { return float64(p.OpenFDs) })},
		{"process_max_fds", Gauge, nil, "How many there may be.", value(func(p *Process) float64 { return float64(p.MaxFDs) })},
		{"go_goroutines", Gauge, nil, "Goroutines.", value(func(p *Process) float64 { return float64(p.Goroutines) })},
	}
}
