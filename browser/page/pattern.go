package page

import (
	"regexp"
	"sync"
)

// pattern returns a regular expression that is compiled when it is first used. The long
// ones of this package take milliseconds, which every command of the program would
// otherwise need at its start.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
