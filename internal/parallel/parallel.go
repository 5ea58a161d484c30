// Package parallel is for the tests of packages that wait for others most of the
// time: for the kernel, for programs, for clocks.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// Tests has so many of a package's tests run at a time for each core, of those that may,
// unless the flag -parallel says how many. It is called before they are run.
func Tests(perCore int) error {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		return f.Value.Set(strconv.Itoa(perCore * runtime.GOMAXPROCS(0)))
	}
	return nil
}
