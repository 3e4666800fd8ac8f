package sandbox

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

//go:generate go run gen_syscalls.go

// Actions of a filter, seccomp(2).
const (
	actAllow = uint32(unix.SECCOMP_RET_ALLOW)
	actKill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	actEPERM = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	// actENOSYS makes programs fall back to an older call, as for a number
	// that the kernel does not know.
	actENOSYS = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
)

// abi is how one architecture numbers its system calls.
type abi struct {
	name  string // as Go and Docker's profile call it
	audit uint32 // AUDIT_ARCH_*, which the kernel shows a filter
	calls []syscallName
}

type syscallName struct {
	number uint32
	name   string
}

// abis are the architectures that belljar runs on. All are in every build, so
// that the tests on one of them read the filters of all.
var abis = []abi{
	{"amd64", unix.AUDIT_ARCH_X86_64, amd64Calls},
	{"arm64", unix.AUDIT_ARCH_AARCH64, arm64Calls},
}

// call is what becomes of one system call: the action of the first clause
// that fits, or else its own.
type call struct {
	clauses []clause
	action  uint32
}

// clause is an action for the calls that pass all tests.
type clause struct {
	tests  []test
	action uint32
}

// test compares the low word of one argument. All arguments that the filter
// looks at are 32 bits wide in the kernel, which ignores what stands above
// (bubblewrap's CVE-2019-10063 compared all 64 and was bypassed with a high
// bit in the number of an ioctl).
type test struct {
	arg  int
	mask uint32 // the bits that count; 0 means all of them
	is   uint32
}

func (c call) equal(d call) bool {
	return c.action == d.action && len(c.clauses) == 0 && len(d.clauses) == 0
}

// filter is the program for this machine: the bytes of a struct sock_filter
// array, seccomp(2).
func filter(opt filterOptions) ([]byte, error) {
	i := slices.IndexFunc(abis, func(a abi) bool { return a.name == runtime.GOARCH })
	if i < 0 {
		return nil, fmt.Errorf("no system call filter for %s", runtime.GOARCH)
	}
	return assemble(compile(abis[i].audit, calls(abis[i], opt)))
}

// Offsets in struct seccomp_data of the fields that the filter reads
// (seccomp(2)). All of abis are little-endian, so the low half of an argument
// comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// compile writes the program for a table. What it answers without looking at
// an argument costs nothing later: the kernel tries each number once, when the
// filter is installed, and remembers those that are always allowed
// (seccomp_cache_prepare_bitmap in kernel/seccomp.c).
func compile(audit uint32, table map[uint32]call) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: audit, SkipTrue: 1},
		bpf.RetConstant{Val: actKill}, // another ABI numbers its calls differently
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	return append(program, search(spans(table))...)
}

// callSpan is a run of numbers with one fate, up to where the next one begins.
type callSpan struct {
	first uint32
	call  call
}

// spans covers all numbers: those of the table, and with ENOSYS those that
// came after it was written, that its architecture leaves out, or that belong
// to x32 (which has bit 30 set).
func spans(table map[uint32]call) []callSpan {
	var out []callSpan
	add := func(first uint32, c call) {
		if len(out) == 0 || !out[len(out)-1].call.equal(c) {
			out = append(out, callSpan{first, c})
		}
	}
	next := uint32(0)
	for _, n := range slices.Sorted(maps.Keys(table)) {
		if n > next {
			add(next, call{action: actENOSYS})
		}
		add(n, table[n])
		next = n + 1
	}
	add(next, call{action: actENOSYS})
	return out
}

// search is a binary search over the spans, with the number in the
// accumulator.
func search(s []callSpan) []bpf.Instruction {
	if len(s) == 1 {
		return decide(s[0].call)
	}
	half := len(s) / 2
	left, right := search(s[:half]), search(s[half:])
	goRight := []bpf.Instruction{
		// A conditional jump reaches 255 instructions only, a plain one any
		// number.
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[half].first, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(left))},
	}
	if len(left) <= math.MaxUint8 {
		goRight = []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[half].first, SkipTrue: uint8(len(left))}}
	}
	return slices.Concat(goRight, left, right)
}

// decide is one call, told apart by its arguments.
func decide(c call) []bpf.Instruction {
	var code []bpf.Instruction
	for _, cl := range c.clauses {
		code = append(code, clauseCode(cl)...)
	}
	return append(code, bpf.RetConstant{Val: c.action})
}

// clauseCode is written from its end, so that each test that fails knows how
// far the next clause is.
func clauseCode(c clause) []bpf.Instruction {
	code := []bpf.Instruction{bpf.RetConstant{Val: c.action}}
	for _, t := range slices.Backward(c.tests) {
		one := []bpf.Instruction{bpf.LoadAbsolute{Off: offArgs + 8*uint32(t.arg), Size: 4}}
		if t.mask != 0 {
			one = append(one, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask})
		}
		one = append(one, bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.is, SkipFalse: uint8(len(code))})
		code = append(one, code...)
	}
	return code
}
