package boxinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// MaxRequest bounds one message to an init, in bytes: a socket holds 208 KiB
// by default (socket(7), wmem_default). MaxReply bounds one message from it.
const (
	MaxRequest = 192 << 10
	MaxReply   = 16 << 10
)

// MaxFiles bounds the file descriptors of one message; the kernel's bound is
// 253 (unix(7) SCM_MAX_FD).
const MaxFiles = 128

// Plan is the first message, host to init: what the box looks like.
type Plan struct {
	Hostname string
	Mounts   []Mount
	Detached bool              // the mounts' trees come as file descriptors, in order
	Links    map[string]string // symlinks: path in the box -> target
	Files    map[string]string // small read-only files: path in the box -> content
	Tmp      int64             // bytes of the box's tmpfs storage
	TmpFiles int64             // inodes of the same
	Filter   []byte            // seccomp program, struct sock_filter each
	Nested   bool              // each command gets a pid namespace of its own, which kills it
	Files0   uint64            // RLIMIT_NOFILE
	Procs    uint64            // RLIMIT_NPROC, 0 where a cgroup holds the processes
	Env      []string          // what every command gets, "NAME=value"
	Memory   int64             // bytes the watchdog allows, 0 where a cgroup holds the memory
}

// Mount is one tree of the host in the box.
type Mount struct {
	Source   string // on the host
	Target   string // in the box
	Dir      bool
	Writable bool
	Devices  bool
}

// Request is what the host asks of a running init.
type Request struct {
	Op     string // start, signal, kill
	ID     uint64
	Path   string // start: the program; without a slash it is looked up in the PATH of its environment
	Argv   []string
	Env    []string // start: added to the plan's, or in place of it
	Dir    string
	Cwd    string // start: file in which the shell leaves its last directory, "" for none
	Leaf   bool   // start: the fourth descriptor is the cgroup to be born in
	TTY    bool   // start: descriptors 0-2 are a terminal, to become the controlling one
	Signal int    // signal
}

// Reply is what an init says. The host trusts nothing in it: a lying init can
// spoil its own box only.
type Reply struct {
	Op     string // ready, failed, started, ended
	ID     uint64
	Error  string // failed: what was tried
	Errno  int    // failed: why
	Code   int    // ended
	Signal int    // ended, 0 unless a signal ended the command
	CPU    int64  // ended: nanoseconds of the command and the children it waited for
	RSS    int64  // ended: bytes, largest of the same
	Dir    string // ended: last working directory of the shell, if it left one
	OOM    bool   // ended: the watchdog killed it
}

// Encode is a message as it goes over the wire.
func Encode(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err == nil && len(text) > MaxRequest {
		return nil, fmt.Errorf("message of %d bytes, limit %d: %w", len(text), MaxRequest, syscall.EMSGSIZE)
	}
	return text, err
}

// Rights are the file descriptors in a received control message; the caller
// owns them. Anything but SCM_RIGHTS is an error.
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

// wire is the init's end of the connection. The host's end is a net.UnixConn:
// the init does without package net.
type wire struct {
	fd  int
	buf []byte
	oob []byte
}

func newWire(fd int) *wire {
	return &wire{fd: fd, buf: make([]byte, MaxRequest+1), oob: make([]byte, syscall.CmsgSpace(MaxFiles*4))}
}

// send writes one reply.
func (w *wire) send(r Reply) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for {
		err = syscall.Sendmsg(w.fd, text, nil, nil, syscall.MSG_NOSIGNAL)
		if err != syscall.EINTR {
			return err
		}
	}
}

// receive reads one message into message and returns the files that came with
// it; the caller owns them. io.EOF means that the host is gone.
func (w *wire) receive(message any) ([]int, error) {
	n, oobn, flags, _, err := syscall.Recvmsg(w.fd, w.buf, w.oob, syscall.MSG_CMSG_CLOEXEC)
	for err == syscall.EINTR {
		n, oobn, flags, _, err = syscall.Recvmsg(w.fd, w.buf, w.oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := Rights(w.oob[:oobn])
	if err != nil {
		return nil, err
	}
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		err = syscall.EMSGSIZE
	} else {
		err = json.Unmarshal(w.buf[:n], message)
	}
	if err != nil {
		CloseAll(files)
		return nil, err
	}
	return files, nil
}
