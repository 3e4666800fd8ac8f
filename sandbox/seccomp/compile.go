package seccomp

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/net/bpf"
)

// Offsets in struct seccomp_data of the fields that the filter reads
// (seccomp(2)). All of abis are little-endian, so the low half of an argument
// comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// compile returns the program for a table. A call that the program answers without a look
// at its arguments costs nothing later: the kernel tries each number once, when the filter
// is installed, and remembers the numbers that are always allowed
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

// callSpan is a run of numbers with the same decision, up to the beginning of the next
// span.
type callSpan struct {
	first uint32
	call  call
}

// spans covers all numbers: those of the table, and, with ENOSYS, those that were added
// after the table was written, that its architecture leaves out, or that belong to x32
// (which has bit 30 set).
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

// search returns a binary search over the spans, with the number in the accumulator.
func search(s []callSpan) []bpf.Instruction {
	if len(s) == 1 {
		return decide(s[0].call)
	}
	half := len(s) / 2
	left, right := search(s[:half]), search(s[half:])
	goRight := []bpf.Instruction{
		// A conditional jump reaches only 255 instructions, a plain jump any number.
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[half].first, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(left))},
	}
	if len(left) <= math.MaxUint8 {
		goRight = []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[half].first, SkipTrue: uint8(len(left))}}
	}
	return slices.Concat(goRight, left, right)
}

// decide returns the code for one call, which decides by the arguments.
func decide(c call) []bpf.Instruction {
	var code []bpf.Instruction
	for _, cl := range c.clauses {
		code = append(code, clauseCode(cl)...)
	}
	return append(code, bpf.RetConstant{Val: c.action})
}

// clauseCode is built from its end, so that each test that fails knows how far the next
// clause is.
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

// assemble encodes a program for the kernel: struct sock_filter, seccomp(2).
func assemble(program []bpf.Instruction) ([]byte, error) {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble system call filter: %w", err)
	}
	var out []byte
	for _, in := range raw {
		out = binary.NativeEndian.AppendUint16(out, in.Op)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out, nil
}
