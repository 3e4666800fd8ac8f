package boxinit

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

// Script says how a box is built: system calls, one after the other, that its init makes
// before it is ready. The supervisor makes all decisions, in ordinary Go; the init only
// calls the kernel and stops at the first error.
//
// Arguments are numbers, a Ref to bytes of the script, or a Slot that contains the result
// of an earlier call.
type Script struct {
	steps  []string // names of the steps, for errors
	ops    []op
	data   []byte
	slots  int
	score  int32
	domain int32
	ours   uint64
	// Nested is the script that runs in the new pid and mount namespace of each command,
	// before the command. It is nil if commands have no namespaces of their own.
	Nested *Script
}

// op is one system call.
type op struct {
	number uint32
	step   uint16
	save   int16     // slot of the result, or -1
	ignore uint16    // errno to ignore; AnyError ignores all
	skip   uint16    // number of calls to leave out after an ignored error
	kinds  [6]uint8  // kinds of the arguments
	_      [6]uint8  //
	args   [6]uint64 //
}

const opSize = 72

// Kinds of arguments.
const (
	kindNumber = iota
	kindData
	kindSlot
)

// AnyError is the errno to ignore that means every errno.
const AnyError = 0xffff

// callStore is not a system call: the init copies the second argument to the
// address in the first. The third is its size in bytes.
const callStore = 0xffffffff

// maxSlots bounds the results that a script may keep, including the files that are sent
// with it.
const maxSlots = 4096

// scriptHead begins the message that contains a script: the calls follow, then the data.
type scriptHead struct {
	ops, data uint32
	score     int32  // slot of /proc/self/oom_score_adj, or -1
	nested    uint32 // not 0 if another script follows, for the namespace of each command
	slots     uint32
	domain    int32  // slot of the ruleset of each command, or -1
	ours      uint64 // mark of the init's own execs, or 0
}

const scriptSize = 32

// Ref is a place in the data of a script.
type Ref uint32

// Slot is the place of a call's result.
type Slot int16

// NewScript returns a script whose first slots are the descriptors that are sent with it.
func NewScript(files int) *Script { return &Script{slots: files, score: -1, domain: -1} }

// Step names the calls that follow, for errors.
func (s *Script) Step(name string) { s.steps = append(s.steps, name) }

// Name returns the name of the step with that number.
func (s *Script) Name(step int) string {
	if step < 1 || step > len(s.steps) {
		return fmt.Sprintf("step %d", step)
	}
	return s.steps[step-1]
}

// Bytes puts b into the data of the script, aligned for any number.
func (s *Script) Bytes(b []byte) Ref {
	for len(s.data)%8 != 0 {
		s.data = append(s.data, 0)
	}
	at := Ref(len(s.data))
	s.data = append(s.data, b...)
	return at
}

// Text puts a string into the data of the script, ended by a NUL.
func (s *Script) Text(text string) Ref {
	at := Ref(len(s.data))
	s.data = append(append(s.data, text...), 0)
	return at
}

// Rewrite replaces the data at a place by text.
func (s *Script) Rewrite(at Ref, text string) { copy(s.data[at:], text) }

// Words puts 64-bit numbers into the data of the script.
func (s *Script) Words(words ...uint64) Ref {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return s.Bytes(b)
}

// Call adds a system call. An argument is an int, uint64 or uintptr, a string
// (which becomes a Ref to it), a Ref or a Slot.
func (s *Script) Call(number uintptr, args ...any) *Call {
	o := op{number: uint32(number), step: uint16(len(s.steps)), save: -1}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			o.args[i] = uint64(a)
		case uint64:
			o.args[i] = a
		case uintptr:
			o.args[i] = uint64(a)
		case string:
			o.kinds[i], o.args[i] = kindData, uint64(s.Text(a))
		case Ref:
			o.kinds[i], o.args[i] = kindData, uint64(a)
		case Slot:
			o.kinds[i], o.args[i] = kindSlot, uint64(a)
		default:
			panic(fmt.Sprintf("boxinit: argument %d of call %d is a %T", i, number, a))
		}
	}
	s.ops = append(s.ops, o)
	return &Call{s, len(s.ops) - 1}
}

// Store writes a pointer to data, or the value of a slot, into the data, in size bytes: 4
// or 8.
func (s *Script) Store(at Ref, value any, size int) { s.Call(callStore, at, value, size) }

// Call is a call in a script; its methods change how the call is made.
type Call struct {
	s *Script
	i int
}

// Save keeps the result of the call.
func (c *Call) Save() Slot {
	n := c.s.slots
	c.s.slots++
	c.s.ops[c.i].save = int16(n)
	return Slot(n)
}

// Ignore makes an error harmless. After such an error the next skip calls are left out.
func (c *Call) Ignore(errno syscall.Errno, skip int) *Call {
	c.s.ops[c.i].ignore, c.s.ops[c.i].skip = uint16(errno), uint16(skip)
	return c
}

// IgnoreAll does the same as Ignore, for every error.
func (c *Call) IgnoreAll(skip int) *Call { return c.Ignore(AnyError, skip) }

// Score names the descriptor of /proc/self/oom_score_adj. With it the init makes its
// children the first processes to be killed when memory runs out.
func (s *Script) Score(file Slot) { s.score = int32(file) }

// Domain names the ruleset of landlock(7) with which each command restricts itself before
// it executes its program.
func (s *Script) Domain(ruleset Slot) { s.domain = int32(ruleset) }

// Mark makes the init mark each of its own execs with a number, in an argument that
// execve(2) does not use, where a filter sees it. Commands must not find out the number.
func (s *Script) Mark(ours uint64) { s.ours = ours }

// Encode returns the script as it is sent over the wire.
func (s *Script) Encode() ([]byte, error) {
	if s.slots > maxSlots {
		return nil, fmt.Errorf("script of %d slots, limit %d: %w", s.slots, maxSlots, syscall.EMSGSIZE)
	}
	text := make([]byte, 0, scriptSize+len(s.ops)*opSize+len(s.data))
	text = binary.NativeEndian.AppendUint32(text, uint32(len(s.ops)))
	text = binary.NativeEndian.AppendUint32(text, uint32(len(s.data)))
	text = binary.NativeEndian.AppendUint32(text, uint32(s.score))
	nested := uint32(0)
	if s.Nested != nil {
		nested = 1
	}
	text = binary.NativeEndian.AppendUint32(text, nested)
	text = binary.NativeEndian.AppendUint32(text, uint32(s.slots))
	text = binary.NativeEndian.AppendUint32(text, uint32(s.domain))
	text = binary.NativeEndian.AppendUint64(text, s.ours)
	for i := range s.ops {
		text = append(text, unsafe.Slice((*byte)(unsafe.Pointer(&s.ops[i])), opSize)...)
	}
	text = append(text, s.data...)
	if len(text) > MaxMessage {
		return nil, fmt.Errorf("script of %d bytes, limit %d: %w", len(text), MaxMessage, syscall.EMSGSIZE)
	}
	return text, nil
}
