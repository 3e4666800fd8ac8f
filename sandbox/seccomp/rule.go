package seccomp

import "golang.org/x/sys/unix"

// Actions of a filter, seccomp(2).
const (
	actAllow = uint32(unix.SECCOMP_RET_ALLOW)
	actKill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	actEPERM = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	// actENOSYS makes programs fall back to an older call, like for a number that the
	// kernel does not know.
	actENOSYS = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
)

// call is the decision about one system call: the action of the first clause that fits, or
// otherwise its own action.
type call struct {
	clauses []clause
	action  uint32
}

// clause is an action for the calls that pass all tests.
type clause struct {
	tests  []test
	action uint32
}

// test compares the low word of one argument. All arguments that the filter looks at are 32
// bits wide in the kernel, which ignores the bits above (bubblewrap's CVE-2019-10063
// compared all 64 and was bypassed with a high bit in the number of an ioctl).
type test struct {
	arg  int
	mask uint32 // the bits that count; 0 means all of them
	is   uint32
}

func (c call) equal(d call) bool {
	return c.action == d.action && len(c.clauses) == 0 && len(d.clauses) == 0
}

// only allows a call that passes one of the alternatives.
func only(alternatives ...[]test) call { return call{clauses(actAllow, alternatives), actEPERM} }

// but allows a call that passes none of the exceptions.
func but(exceptions ...[]test) call { return call{clauses(actEPERM, exceptions), actAllow} }

func clauses(action uint32, alternatives [][]test) []clause {
	var out []clause
	for _, tests := range alternatives {
		out = append(out, clause{tests, action})
	}
	return out
}

// values returns the alternatives for an argument that has one of some values.
func values(arg int, some ...uint32) [][]test {
	var out [][]test
	for _, v := range some {
		out = append(out, []test{{arg: arg, is: v}})
	}
	return out
}

// without returns a test for an argument in which none of the bits is set.
func without(arg int, bits uint32) []test { return []test{{arg: arg, mask: bits}} }
