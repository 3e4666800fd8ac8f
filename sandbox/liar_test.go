package sandbox_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/boxinit"
)

// An init runs in the box and may be under the control of a command. It can damage its own
// box, but nothing of the supervisor.

// said returns a reply in the form in which it is sent: kind, step, id, errno, status, CPU,
// resident, pid, length of the directory.
func said(op boxinit.Op, id uint64, dir string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(op))
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint64(b, id)
	b = append(b, make([]byte, 28)...)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(dir)))
	return append(b, dir...)
}

// lies are what the false init of a test does, by the name that it reads from descriptor 4.
// Each gets a function that sends a message and one that receives a message.
var lies = map[string]func(say func([]byte, ...int), hear func()){
	"nothing":              func(_ func([]byte, ...int), _ func()) { hang() },
	"its end":              func(_ func([]byte, ...int), hear func()) { hear() },
	"stopped at the start": func(_ func([]byte, ...int), _ func()) { stop() },
	"noise":                func(say func([]byte, ...int), hear func()) { hear(); say([]byte("{\"Op\":\"ready\"}")); hang() },
	"an empty message":     func(say func([]byte, ...int), hear func()) { hear(); say(nil); hang() },
	"an oversized message": func(say func([]byte, ...int), hear func()) { hear(); say(make([]byte, 64<<10)); hang() },
	"an unknown kind":      func(say func([]byte, ...int), hear func()) { hear(); say(said(77, 0, "")); hang() },
	"an end of nothing":    func(say func([]byte, ...int), hear func()) { hear(); say(said(boxinit.OpEnded, 7, "")); hang() },
	"a failure of nothing": func(say func([]byte, ...int), hear func()) { hear(); say(said(boxinit.OpFailed, 0, "")); hang() },
	"its end after ready":  func(say func([]byte, ...int), hear func()) { begin(say, hear); hear() },
	"nothing after ready":  func(say func([]byte, ...int), hear func()) { begin(say, hear); hang() },
	"stopped after ready":  func(say func([]byte, ...int), hear func()) { begin(say, hear); stop() },
	"ready again and again": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		flood(say, said(boxinit.OpReady, 1, ""))
	},
	"the end before the beginning": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		hear()
		say(said(boxinit.OpEnded, 1, "/tmp"))
		say(said(boxinit.OpStarted, 1, ""))
		hang()
	},
	"files": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		say(said(boxinit.OpStarted, 99, ""), 0, 1, 2, 3)
		hear()
		for range 100 {
			say(said(boxinit.OpStarted, 99, ""), 0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3)
		}
		say(said(boxinit.OpFailed, 1, ""), 0)
		hang()
	},
	"no end": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		hear()
		say(said(boxinit.OpStarted, 1, ""))
		hang()
	},
	"started, then started and ended": func(say func([]byte, ...int), hear func()) {
		hear()
		say(said(boxinit.OpReady, 0, ""))
		hear()
		say(said(boxinit.OpStarted, 1, ""))
		say(said(boxinit.OpRan, 1, "/tmp"))
		hang()
	},
	ofTwo: func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		hear()
		hear()
		for id := range uint64(2) {
			say(said(boxinit.OpRan, id+1, ""))
			say(said(boxinit.OpStarted, id+1, ""))
			say(said(boxinit.OpStarted, id+1, ""))
		}
		hang()
	},
	"an endless directory": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		hear()
		say(said(boxinit.OpStarted, 1, ""))
		say(said(boxinit.OpEnded, 1, "/"+strings.Repeat("x", boxinit.MaxReply)))
		hang()
	},
	"talk of others' commands": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		hear()
		flood(say, said(boxinit.OpEnded, 1<<60, "/tmp"))
	},
	"ready without sockets": func(say func([]byte, ...int), hear func()) { hear(); say(said(boxinit.OpReady, 0, "")); hang() },
	"no socket":             func(say func([]byte, ...int), hear func()) { hear(); say(boxinit.SocketReply()); hang() },
	"too many sockets": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), 0, 0, 0, 0, 0, 0)
		hang()
	},
	"more than fits": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), make([]int, 200)...)
		hang()
	},
	"files for sockets": func(say func([]byte, ...int), hear func()) { hear(); say(boxinit.SocketReply(), 0); hang() },
	"sockets twice": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), socket())
		say(boxinit.SocketReply(), socket())
		hang()
	},
	"ready without a listener": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), socket())
		say(said(boxinit.OpReady, 0, ""))
		hang()
	},
	"a listener that is none": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), socket())
		say(boxinit.ListenerReply(), 0)
		hang()
	},
	"no file for a listener": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), socket())
		say(boxinit.ListenerReply())
		hang()
	},
	"a listener and more": func(say func([]byte, ...int), hear func()) {
		hear()
		say(boxinit.SocketReply(), socket())
		say(boxinit.ListenerReply(), listener(), 0, 1)
		hang()
	},
	"listeners again and again": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		flood(func(text []byte, _ ...int) { say(text, 0) }, boxinit.ListenerReply())
	},
	"ready without mounts": func(say func([]byte, ...int), hear func()) { begin(say, hear) },
	"no mount":             func(say func([]byte, ...int), hear func()) { keep(say, hear); hang() },
	"too many mounts":      func(say func([]byte, ...int), hear func()) { keep(say, hear, 0, 0, 0); hang() },
	"files for mounts": func(say func([]byte, ...int), hear func()) {
		keep(say, hear, 0)
		say(boxinit.ListenerReply(), listener())
		say(said(boxinit.OpReady, 0, ""))
		hang()
	},
	"mounts twice": func(say func([]byte, ...int), hear func()) {
		keep(say, hear, 0)
		say(boxinit.KeptReply(), 0)
		hang()
	},
	"mounts nobody asked for": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		flood(func(text []byte, _ ...int) { say(text, 0) }, boxinit.KeptReply())
	},
	"answers nobody asked for": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		flood(say, said(boxinit.OpIdle, 1, ""))
	},
	"sockets nobody asked for": func(say func([]byte, ...int), hear func()) {
		begin(say, hear)
		flood(func(text []byte, _ ...int) { say(text, 0, 1, 2) }, boxinit.SocketReply())
	},
}

// begin sends what an honest init sends until the box is built.
func begin(say func([]byte, ...int), hear func()) {
	hear()
	say(boxinit.SocketReply(), socket())
	say(boxinit.ListenerReply(), listener())
	say(said(boxinit.OpReady, 0, ""))
}

// keep hands over files in the place of mounts.
func keep(say func([]byte, ...int), hear func(), files ...int) {
	hear()
	say(boxinit.SocketReply(), socket())
	say(boxinit.KeptReply(), files...)
}

// listener returns a descriptor like the one that a box hands over to have its execs
// watched. No event ever arrives at it.
func listener() int {
	runtime.LockOSThread() // never unlocked: the filter belongs to the thread
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		os.Exit(5)
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		os.Exit(6)
	}
	return int(fd)
}

// socket returns the socket that a box without a network hands over.
func socket() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		os.Exit(4)
	}
	return fd
}

func stop() {
	for {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

func flood(say func([]byte, ...int), message []byte) {
	for {
		say(message)
	}
}

// lie runs the false init.
func lie() {
	name, err := io.ReadAll(os.NewFile(4, "lie"))
	lie := lies[string(name)]
	if err != nil || lie == nil {
		os.Exit(3)
	}
	buf := make([]byte, boxinit.MaxMessage)
	lie(func(text []byte, files ...int) {
		var rights []byte
		if len(files) > 0 {
			rights = unix.UnixRights(files...)
		}
		if unix.Sendmsg(3, text, rights, nil, unix.MSG_NOSIGNAL) != nil {
			os.Exit(0)
		}
	}, func() {
		if n, err := unix.Read(3, buf); err != nil || n == 0 {
			os.Exit(0)
		}
	})
	os.Exit(0)
}

// lying returns a supervisor whose boxes have a false init. The boxes hand over mounts only
// if the lie is about that.
func lying(t *testing.T, lie string) *sandbox.Supervisor {
	t.Helper()
	s, _ := world(t)
	// An honest box makes the things that a supervisor makes once for all boxes.
	if b, err := s.Open(t.Context(), "honest", grant(t)); err != nil || b.Close() != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lie, "mount") || afterReady[lie] {
		s.NoTemplates()
	} else {
		shares(t)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(lie); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s.SetInit("/proc/self/exe", r)
	s.SetPatience(testenv.Patience(t) * time.Second)
	return s
}

// afterReady are the lies that begin after the box is built.
var afterReady = map[string]bool{
	"its end after ready": true, "nothing after ready": true, "stopped after ready": true, "ready again and again": true,
	"the end before the beginning": true, "files": true, "no end": true, "an endless directory": true,
	"talk of others' commands": true, "sockets nobody asked for": true, "listeners again and again": true,
	"mounts nobody asked for": true, "answers nobody asked for": true,
}

func TestLyingInit(t *testing.T) {
	for name := range lies {
		if name == ofTwo {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := lying(t, name)
			before := openFiles(t)
			b, err := s.Open(t.Context(), "box", grant(t))
			if after := afterReady[name]; after != (err == nil) {
				t.Fatalf("open: %v, want a box: %t", err, after)
			}
			if err == nil {
				var r sandbox.Result
				r, err = b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Second})
				if err == nil && r.Status != sandbox.Killed && r.Status != sandbox.TimedOut {
					t.Errorf("a command that never ran is %v", r.Status)
				}
				if name != "files" { // files ends as a refused command, and its box continues
					select {
					case <-b.Broken():
					case <-time.After(20 * time.Second * testenv.Patience(t)):
						t.Fatal("the box goes on")
					}
					if _, again := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Second}); !errors.Is(again, sandbox.ErrClosed) {
						t.Errorf("the next command gives %v, want that the box is closed", again)
					}
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
			t.Log(err)
			if after := openFiles(t); after > before {
				t.Errorf("%d descriptors are open, before it were %d", after, before)
			}
		})
	}
}

// ofTwo is the lie about two commands that are started at the same time.
const ofTwo = "more of two commands than there is room for"

// An init may send more messages about a command than its caller waits for, before the
// caller has received the first one. The supervisor must not wait for room then, because
// the box could never be closed.
func TestLyingInitAboutTwoCommands(t *testing.T) {
	s := lying(t, ofTwo)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			_, _ = b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Second, Out: io.Discard})
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second * testenv.Patience(t)):
		t.Fatal("a command of an init that lies has no end")
	}
}

// An init that is stopped while a command runs is killed at the command's
// deadline, and all of the box with it.
func TestStoppedInit(t *testing.T) {
	s, _ := world(t)
	s.SetPatience(testenv.Patience(t) * time.Second)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j, err := b.Start(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 1000", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(b.InitPid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if r := j.Kill(0); r.Status != sandbox.Killed {
		t.Errorf("the command is %v", r.Status)
	}
}

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Whatever an init sends, in whatever order, the conversation ends with the connection, and
// a command receives no more replies than it has room for.
func FuzzInit(f *testing.F) {
	whole := func(messages ...[]byte) []byte {
		var all []byte
		for _, m := range messages {
			all = append(append(all, byte(len(m))), m...)
		}
		return all
	}
	f.Add(whole(said(boxinit.OpStarted, 1, ""), said(boxinit.OpEnded, 1, "/tmp")))
	f.Add(whole(said(boxinit.OpEnded, 1, ""), said(boxinit.OpStarted, 1, ""), said(boxinit.OpReady, 0, "")))
	f.Add(whole(said(boxinit.OpRan, 1, "/tmp"), said(boxinit.OpEnded, 1, "")))
	f.Add(whole([]byte{}, []byte("x")))
	f.Fuzz(func(t *testing.T, text []byte) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		process := exec.Command("true")
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		var speaking sync.WaitGroup
		speaking.Go(func() {
			defer unix.Close(fds[1])
			for len(text) > 0 {
				n := min(int(text[0]), len(text)-1)
				if unix.Sendmsg(fds[1], text[1:1+n], nil, nil, unix.MSG_NOSIGNAL) != nil {
					return
				}
				text = text[1+n:]
			}
		})
		for _, r := range sandbox.Listen(fds[0], process.Process) {
			if r.ID != 1 || r.Op == boxinit.OpReady {
				t.Errorf("command 1 heard %+v", r)
			}
		}
		speaking.Wait()
	})
}

func hang() {
	for {
		_ = unix.Pause()
	}
}
