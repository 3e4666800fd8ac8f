package testenv

import (
	"flag"
	"fmt"
	"strconv"
)

// Parallel makes a package run n of its parallel tests at the same time instead of one for
// each processor, unless -parallel is set. It is for a TestMain of tests that mostly wait
// for other processes. It panics if the flags are already parsed.
func Parallel(n int) {
	if flag.Parsed() {
		panic("testenv.Parallel: the flags are parsed")
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(fmt.Sprintf("testenv.Parallel: %v", err))
	}
}
