package testenv

import (
	"fmt"
	"time"
	"unsafe"
)

// SetClock returns the time that time.Now would return the time steady after t, if the
// clock of the machine was moved by wall, in whole seconds, in that time. t must come from
// time.Now.
func SetClock(t time.Time, wall, steady time.Duration) time.Time {
	// A Time contains both clocks, and no function of package time moves only one of them.
	both := (*struct {
		wall uint64 // a flag, 33 bits of seconds, 30 bits of nanoseconds
		ext  int64  // monotonic clock, which nobody sets
		loc  *time.Location
	})(unsafe.Pointer(&t))
	before := t
	both.wall += uint64(wall/time.Second) << 30
	both.ext += int64(steady)
	if t.Round(0).Sub(before.Round(0)) != wall || t.Sub(before) != steady {
		panic(fmt.Sprintf("the fields of time.Time are not those that SetClock expects: %v became %v", before, t))
	}
	return t
}
