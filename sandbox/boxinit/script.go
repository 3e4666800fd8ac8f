package boxinit

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"
)

// Script is how a box is built: system calls, one after the other, that its
// init makes before it is ready. All that is to be decided is decided by the
// supervisor, in ordinary Go; the init knows how to call the kernel and how to
// stop at the first error.
//
// Arguments are numbers, a Ref to bytes of the script, or a Slot that holds
// what an earlier call returned.
type Script struct {
	steps  []string // names, for errors
	ops    []op
	data   []byte
	slots  int
	score  int32
	domain int32
	ours   uint64
	// Nested is made in the new pid and mount namespace of each command, before
	// it; nil where commands have no namespaces of their own.
	Nested *Script
}

// op is one system call.
type op struct {
	number uint32
	step   uint16
	save   int16     // slot of the result, or -1
	ignore uint16    // errno to ignore; anyError ignores all
	skip   uint16    // how many calls to leave out after an ignored error
	kinds  [6]uint8  // of the arguments
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

// anyError, as the errno to ignore, means every errno.
const anyError = 0xffff

// callStore is not a system call: the init copies the second argument to the
// address in the first. The third is its size in bytes.
const callStore = 0xffffffff

// maxSlots bounds the results that a script may keep, passed files included.
const maxSlots = 4096

// scriptHead begins the message that carries a script: the calls, then the
// data.
type scriptHead struct {
	ops, data uint32
	score     int32  // slot of /proc/self/oom_score_adj, or -1
	nested    uint32 // not 0: another script follows, for the namespace of each command
	slots     uint32
	domain    int32  // slot of the ruleset of each command, or -1
	ours      uint64 // what marks the init's own execs, or 0
}

const scriptSize = 32

// Ref is a place in the data of a script.
type Ref uint32

// Slot holds the result of a call.
type Slot int16

// NewScript is a script whose first slots are the descriptors that are sent
// with it.
func NewScript(files int) *Script { return &Script{slots: files, score: -1, domain: -1} }

// Step names the calls that follow, for errors.
func (s *Script) Step(name string) { s.steps = append(s.steps, name) }

// Name is the name of the step with that number.
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

// Rewrite puts text over what is at that place of the data.
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

// Store writes a pointer to data, or what a slot holds, into the data: in as
// many bytes as size says, 4 or 8.
func (s *Script) Store(at Ref, value any, size int) { s.Call(callStore, at, value, size) }

// Call is a call of a script, to say more about.
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

// Ignore makes an error harmless; then the next calls are left out, as many
// as skip says.
func (c *Call) Ignore(errno syscall.Errno, skip int) *Call {
	c.s.ops[c.i].ignore, c.s.ops[c.i].skip = uint16(errno), uint16(skip)
	return c
}

// IgnoreAll is Ignore for every error.
func (c *Call) IgnoreAll(skip int) *Call { return c.Ignore(anyError, skip) }

// Score names the descriptor of /proc/self/oom_score_adj, by which the init
// makes its children the first to go when memory runs out.
func (s *Script) Score(file Slot) { s.score = int32(file) }

// Domain names the ruleset of landlock(7) by which each command restricts itself
// before it executes its program.
func (s *Script) Domain(ruleset Slot) { s.domain = int32(ruleset) }

// Mark makes the init mark each exec of its own. It passes the number in an
// argument that execve(2) does not use, where a filter sees it. Commands must not
// learn the number.
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
