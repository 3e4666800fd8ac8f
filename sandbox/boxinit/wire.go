package boxinit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Bounds of the conversation. A socket holds 208 KiB by default (socket(7),
// wmem_default).
const (
	MaxMessage = 192 << 10 // bytes of one message to an init
	MaxStrings = 16 << 10  // arguments, variables and paths of one request
	MaxReply   = 4400      // bytes of one message from an init: a path and the fields before it
	MaxFiles   = 128       // descriptors of one message; the kernel's bound is 253 (unix(7), SCM_MAX_FD)
	MaxDir     = 4096      // bytes of a path, PATH_MAX
)

// Messages are structs in the byte order of the machine, followed by the parts of variable
// length. Both ends are the same binary on the same machine.

// Op says what a message is about.
type Op uint32

// The messages.
const (
	OpStart    Op = iota + 1 // S -> I: start a command
	OpSignal                 // S -> I: signal the command's process group
	OpReady                  // I -> S: the box is built and locked
	OpFailed                 // I -> S: a request could not be done; Step says which step failed
	OpStarted                // I -> S: the command runs
	OpEnded                  // I -> S: the command has ended
	OpRan                    // I -> S: the command was started and has ended: OpStarted and OpEnded in one
	OpSocket                 // S -> I: make a TCP socket; I -> S: carries sockets of the box's network
	OpListener               // I -> S: carries the listener for every exec
	OpKept                   // I -> S: carries mounts that must outlive the init
	OpIdle                   // S -> I: would anything be lost with the init? I -> S: an errno if it would
)

// The steps at which the start of a command may fail.
const (
	StepClone     = iota + 1 // no process could be made
	StepDirectory            // the working directory could not be entered
	StepExec                 // no program could be executed
	StepRequest              // the request is not valid
	StepSocket               // no socket could be made
	StepDomain               // the command could not be isolated from the others
)

// Flags of a request.
const (
	FlagLeaf    = 1 << iota // the last descriptor is the cgroup in which the command starts
	FlagNested              // the command starts in a pid namespace of its own
	FlagTTY                 // descriptors 0-2 are a terminal, which becomes the controlling one
	FlagControl             // the command also gets descriptors 3 and 4
	FlagPrompt              // OpStarted is sent immediately, however soon the command ends
	FlagDir                 // the command's shell reports its last directory on DirFile
)

// DirFile is the descriptor of a command with FlagDir on which its shell reports
// the directory that it ends in: a pipe, made for this command alone. Descriptors
// that bash(1) and programs open for themselves have lower numbers, and a table of
// 64 descriptors costs a process nothing (kernel: NR_OPEN_DEFAULT).
const DirFile = 61

// requestHead is the beginning of a request. Dir, Paths, Argv and Env follow it, each ended
// by a NUL.
type requestHead struct {
	op                Op
	flags             uint32
	id                uint64
	signal            int32
	paths, argc, envc uint32
}

const requestSize = 32

// Request is a request of the supervisor to a running init.
type Request struct {
	Op     Op
	Flags  uint32
	ID     uint64
	Signal syscall.Signal // OpSignal
	Dir    string         // OpStart: working directory
	Paths  []string       // OpStart: paths of the program; the first one that can be executed is used
	Argv   []string
	Env    []string
}

// Encode returns a request in its form on the wire. The error wraps EMSGSIZE if the request
// is too long.
func (r *Request) Encode() ([]byte, error) {
	if n := len(r.Paths) + len(r.Argv) + len(r.Env); n > MaxStrings {
		return nil, fmt.Errorf("%d arguments and variables, limit %d: %w", n, MaxStrings, syscall.EMSGSIZE)
	}
	text := make([]byte, 0, 2048)
	text = binary.NativeEndian.AppendUint32(text, uint32(r.Op))
	text = binary.NativeEndian.AppendUint32(text, r.Flags)
	text = binary.NativeEndian.AppendUint64(text, r.ID)
	for _, n := range []int{int(r.Signal), len(r.Paths), len(r.Argv), len(r.Env)} {
		text = binary.NativeEndian.AppendUint32(text, uint32(n))
	}
	nul := false
	add := func(s string) {
		nul = nul || strings.IndexByte(s, 0) >= 0
		text = append(append(text, s...), 0)
	}
	add(r.Dir)
	for _, list := range [][]string{r.Paths, r.Argv, r.Env} {
		for _, s := range list {
			add(s)
		}
	}
	switch {
	case nul:
		return nil, fmt.Errorf("a NUL in a path, argument or variable: %w", syscall.EINVAL)
	case len(text) > MaxMessage:
		return nil, fmt.Errorf("message of %d bytes, limit %d: %w", len(text), MaxMessage, syscall.EMSGSIZE)
	}
	return text, nil
}

// replyHead is a reply; the last directory of a shell follows it.
type replyHead struct {
	op     Op
	step   uint32
	id     uint64
	errno  int32
	status int32
	cpu    int64
	rss    int64
	pid    int32
	dirLen uint32
}

const replySize = 48

// SocketReply returns the message that an init sends with the sockets that its script made.
func SocketReply() []byte { return plainReply(OpSocket) }

// ListenerReply returns the message that an init sends with the listener that its script
// made.
func ListenerReply() []byte { return plainReply(OpListener) }

// KeptReply returns the message that an init sends with the mounts that must outlive it.
func KeptReply() []byte { return plainReply(OpKept) }

func plainReply(what Op) []byte {
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, replySize), uint32(what))
	return b[:replySize]
}

// Reply is a message of an init. The supervisor trusts nothing in it: an init that lies can
// only spoil its own box.
type Reply struct {
	Op     Op
	Step   int                // OpFailed: the step that failed
	ID     uint64             // id of the command; 0 while the box is built
	Errno  syscall.Errno      // OpFailed: the reason; OpIdle: why something would be lost, or 0
	Status syscall.WaitStatus // OpEnded, OpRan: how the command ended
	CPU    int64              // OpEnded, OpRan: nanoseconds of the command and of the children that it waited for
	RSS    int64              // OpEnded, OpRan: bytes, the largest of these processes
	Pid    int                // OpStarted, OpRan: pid in the box
	Dir    string             // OpEnded, OpRan: last working directory of the shell, if it reported one
}

// ParseReply reads a message of an init. The message may contain anything.
func ParseReply(text []byte) (Reply, error) {
	if len(text) < replySize || len(text) > MaxReply {
		return Reply{}, fmt.Errorf("message of the init: %d bytes, want %d to %d", len(text), replySize, MaxReply)
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(text[at:]) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(text[at:]) }
	r := Reply{
		Op: Op(u32(0)), Step: int(u32(4)), ID: u64(8), Errno: syscall.Errno(u32(16)), Status: syscall.WaitStatus(u32(20)),
		CPU: int64(u64(24)), RSS: int64(u64(32)), Pid: int(int32(u32(40))),
	}
	dir := bytes.TrimSuffix(text[replySize:], []byte("\n"))
	switch {
	case r.Op < OpReady || r.Op > OpIdle:
		return Reply{}, fmt.Errorf("message of the init: kind %d is unknown", r.Op)
	case r.CPU < 0 || r.RSS < 0 || r.Pid < 0:
		return Reply{}, errors.New("message of the init: a count below zero")
	case int(u32(44)) != len(text)-replySize:
		return Reply{}, fmt.Errorf("message of the init: a directory of %d bytes in %d", u32(44), len(text)-replySize)
	case r.Op >= OpEnded && !r.Status.Exited() && !r.Status.Signaled():
		return Reply{}, fmt.Errorf("message of the init: wait status %#x does not mean an end", uint32(r.Status))
	case len(dir) > MaxDir || len(dir) > 0 && dir[0] != '/' || bytes.IndexByte(dir, 0) >= 0:
		// The command may have written anything there.
		return r, nil
	}
	r.Dir = string(dir)
	return r, nil
}

// Rights returns the file descriptors in a received control message; the caller owns them.
// Anything but SCM_RIGHTS is an error.
func Rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []int
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			CloseAll(files)
			return nil, errors.New("control message is not SCM_RIGHTS")
		}
		files = append(files, fds...)
	}
	return files, nil
}

// CloseAll closes file descriptors.
func CloseAll(files []int) {
	for _, fd := range files {
		syscall.Close(fd)
	}
}
