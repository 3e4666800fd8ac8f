package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/closers"
	"belljar.dev/internal/procfs"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
	"belljar.dev/sandbox/workspace"
)

// Places and names inside every box.
const (
	WorkspaceDir = workspace.InBox // directory of the workspace, if the grant gives one
	boxUID       = 1000
	boxGID       = 1000
	boxUser      = "agent"
	boxHome      = "/home/" + boxUser
	boxRun       = "/run/user" // directory for run-time files
	shellPath    = "/bin/bash"
)

// namespaces are all seven kinds that isolate (namespaces(7)). The eighth kind, time, does
// not isolate.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// initCapabilities are the capabilities that building a box requires, inside its own user
// namespace; the init gives all of them up before anything runs.
var initCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_RESOURCE,
	unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID,
}

// systemTrees are the host's programs. A link on the host is a link in the box.
var systemTrees = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// systemFiles are patterns for the parts of the host's /etc that a box sees: what programs
// need to start, to check a certificate, or to know names and formats. Everything else of
// the host's configuration stays out.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust", "/etc/ld.so.cache", "/etc/localtime",
	"/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/fonts", "/etc/java-*", "/etc/terminfo",
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// spawner starts inits from one thread that lives as long as the supervisor. The signal
// that an init gets when belljar dies is sent when the thread that made the init ends
// (PR_SET_PDEATHSIG(2const), "parent thread"), and an init starts in the cgroups of that
// thread.
type spawner struct {
	root   bool // whether inits run as users of the host's private range, and not as belljar's user
	image  *image
	null   *os.File // os.DevNull for inits
	place  *os.File // os.DevNull, except while an init starts: then its connection, under a low number; only the thread uses it
	work   chan func()
	done   chan struct{}
	opened closers.Stack
}

func newSpawner() (_ *spawner, err error) {
	s := &spawner{root: os.Geteuid() == 0, work: make(chan func()), done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.opened.Close())
		}
	}()
	if s.image, err = newImage(); err != nil {
		return nil, err
	}
	s.opened.Do(s.image.close)
	for _, f := range []**os.File{&s.null, &s.place} {
		if *f, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
			return nil, err
		}
		s.opened.Add((*f).Close)
	}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for f := range s.work {
			f()
		}
	}()
	s.opened.Do(func() {
		close(s.work)
		<-s.done
	})
	return s, nil
}

func (s *spawner) close() error { return s.opened.Close() }

// do runs f on the thread and waits for it.
func (s *spawner) do(f func() error) error {
	result := make(chan error, 1)
	s.work <- func() { result <- f() }
	return <-result
}

// start starts the init of a box and gives it its user. It returns the process and the
// connection, over which the init waits for its script.
func (s *spawner) start(g *cgroup.Group, uid int) (*os.Process, *initconn.Conn, error) {
	conn, theirs, err := initconn.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	calls, keep := s.initCalls()
	defer runtime.KeepAlive(keep)
	var process *os.Process
	err = s.do(func() error {
		if err := unix.Dup3(int(theirs.Fd()), int(s.place.Fd()), unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("make connection to init: %w", err)
		}
		// No other process may have the init's end.
		defer func() { _ = unix.Dup3(int(s.null.Fd()), int(s.place.Fd()), unix.O_CLOEXEC) }()
		return g.Start(func() error {
			pid, err := boxinit.Spawn(namespaces, g.InitFD(), calls)
			if err != nil {
				return fmt.Errorf("make a process: %w", err)
			}
			process, err = os.FindProcess(pid)
			return err
		})
	})
	if err == nil {
		err = s.mapUsers(process.Pid, uid)
	}
	if err != nil {
		conn.Close()
		if process != nil {
			_ = process.Kill()
			_, _ = process.Wait()
		}
		return nil, nil, explainStart(err)
	}
	return process, conn, nil
}

// initCalls returns the calls by which a new child becomes an init. The init dies with the
// spawner's thread, keeps through the exec the capabilities that building a box requires,
// and has five descriptors: three of os.DevNull, its connection from s.place, and belljar's
// program. The calls point at the values that are also returned, which the caller must keep
// alive.
//
// The child shares belljar's table of descriptors until it has a copy of the beginning of
// the table. A copy of the whole table would take long with thousands of boxes, and the
// init's table would stay as long as that for its whole life.
func (s *spawner) initCalls() (_ []boxinit.SpawnCall, keep []any) {
	text := func(s string) *byte { return unsafe.SliceData(append([]byte(s), 0)) }
	name, page, empty := text(boxinit.InitName), text(s.image.path), new(uintptr)
	argv := []*byte{name, nil}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	for _, c := range initCapabilities {
		data[0].Effective |= 1 << c
	}
	data[0].Permitted, data[0].Inheritable = data[0].Effective, data[0].Effective
	at := func(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }
	files := []int{int(s.null.Fd()), int(s.null.Fd()), int(s.null.Fd()), int(s.place.Fd()), int(s.image.exe.Fd())}
	away := max(slices.Max(files), len(files), int(s.image.page.Fd())) + 1 // the page is executed by its number
	calls := []boxinit.SpawnCall{
		{unix.SYS_CLOSE_RANGE, uint64(away), 1<<32 - 1, unix.CLOSE_RANGE_UNSHARE},
		{unix.SYS_SETSID},
		{unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uint64(unix.SIGKILL)},
		{unix.SYS_CAPSET, at(unsafe.Pointer(header)), at(unsafe.Pointer(data))},
	}
	for _, c := range initCapabilities {
		calls = append(calls, boxinit.SpawnCall{unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uint64(c)})
	}
	// The descriptors are moved out of each other's way first. What the child has under the
	// numbers 0 to 4 is lost to the child only, which needs none of it.
	for i, f := range files {
		calls = append(calls, boxinit.SpawnCall{unix.SYS_DUP3, uint64(f), uint64(away + i), unix.O_CLOEXEC})
	}
	for i := range files {
		calls = append(calls, boxinit.SpawnCall{unix.SYS_DUP3, uint64(away + i), uint64(i)})
	}
	calls = append(calls,
		boxinit.SpawnCall{unix.SYS_CLOSE_RANGE, uint64(len(files)), 1<<32 - 1, unix.CLOSE_RANGE_CLOEXEC},
		boxinit.SpawnCall{unix.SYS_EXECVE, at(unsafe.Pointer(page)), at(unsafe.Pointer(&argv[0])), at(unsafe.Pointer(empty))})
	return calls, []any{name, page, empty, argv, header, data}
}

// mapUsers makes uid of the host the one user of a new user namespace
// (user_namespaces(7)).
func (s *spawner) mapUsers(pid, uid int) error {
	// Only root may keep setgroups, and needs it to drop its own groups; an
	// ordinary user's groups cannot be dropped.
	gid, setgroups := uid, "allow"
	if !s.root {
		gid, setgroups = os.Getegid(), "deny"
	}
	for _, m := range []struct{ file, text string }{
		{"uid_map", fmt.Sprintf("%d %d 1\n", boxUID, uid)},
		{"setgroups", setgroups},
		{"gid_map", fmt.Sprintf("%d %d 1\n", boxGID, gid)},
	} {
		if err := procfs.Write(fmt.Sprintf("/proc/%d/%s", pid, m.file), m.text); err != nil {
			return fmt.Errorf("map users: %s: %w", m.file, err)
		}
	}
	return nil
}

// sendScript sends the init its script, and the script for commands in namespaces of their
// own. The caller reads the answer.
func sendScript(conn *initconn.Conn, script *boxinit.Script, files []int, patience time.Duration) error {
	text, err := script.Encode()
	if err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	if err := conn.Send(text, files, patience); err != nil {
		return fmt.Errorf("send script: %w", err)
	}
	if script.Nested == nil {
		return nil
	}
	if err := sendScript(conn, script.Nested, nil, patience); !errors.Is(err, unix.EPIPE) {
		return err
	}
	return nil // the first script has failed meanwhile: the answer of the init, which is read next, says why
}

// cwdScript is sourced by a bash of a box before it runs a text that may change the
// directory (bash(1), BASH_ENV): when the shell ends by itself it reports its directory on
// the descriptor that the init gave it. The text of the command stays untouched, so its line
// numbers and errors are its own. ": bash" gives $_ the value that it has in a new shell.
const (
	cwdScript = "/etc/belljar.bash"
	cwdText   = keepDir + tellDir + "unset BASH_ENV\n: bash\n"
)

// keepDir moves that descriptor, boxinit.DirFile, to the next number and makes it
// close-on-exec: a program that the shell executes finds no descriptor that it did not ask
// for. Bash has no command for that. But while a redirection of a group covers a descriptor,
// bash keeps a copy of it, numbered from 10 on, that is close-on-exec, and so is a copy of
// this copy (bash: redir.c, add_undo_redirect). tellDir makes the shell report its directory.
const (
	keepDir = "{ exec 62>&10; } 61>&-; exec 61>&-; "
	tellDir = "trap '{ builtin pwd -P >&62; } 2>/dev/null' EXIT\n"
)

// explainStart returns an error that says what to do about an init that did not start.
func explainStart(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) || errors.Is(err, unix.EACCES) {
		return &limit.Refusal{Message: "this host does not let belljar make a box; run \"belljar doctor\" to see what is missing", Err: err}
	}
	return fmt.Errorf("start box: %w", err)
}

// lacking returns why no box can run, as far as that can be read without trying.
func lacking() error {
	for _, knob := range []struct {
		file, bad, mend string
		root            bool // whether it applies to root as well
	}{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000", true},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1", false},
	} {
		text, err := os.ReadFile(knob.file)
		if err == nil && strings.TrimSpace(string(text)) == knob.bad && (knob.root || os.Geteuid() != 0) {
			return &limit.Refusal{Message: fmt.Sprintf(
				"this host allows no user namespaces (%s is %s), so no command can be isolated and none will run; to fix it, run: %s",
				knob.file, knob.bad, knob.mend)}
		}
	}
	return nil
}
