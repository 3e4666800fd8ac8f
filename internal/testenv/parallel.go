package testenv

import (
	"flag"
	"fmt"
	"strconv"
)

// Parallel has a package run n of its parallel tests at once, and not one for each
// processor, unless -parallel says otherwise. It is for a TestMain of tests that wait
// for other processes most of the time, and panics if the tests have begun.
func Parallel(n int) {
	if flag.Parsed() {
		panic("testenv.Parallel: the flags are parsed")
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(fmt.Sprintf("testenv.Parallel: %v", err))
	}
}
