package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Since reports whether the kernel has that version, or a later one. A version that cannot
// be read counts as older.
func Since(major, minor int) bool {
	var u unix.Utsname
	var hasMajor, hasMinor int
	if unix.Uname(&u) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &hasMajor, &hasMinor); n != 2 {
		return false
	}
	return hasMajor > major || hasMajor == major && hasMinor >= minor
}
