package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// page is memory for the kernel to read and write. It never moves, and has the same address
// in every process of this program.
var page [4096]byte

// pageAt returns the address of page.
func pageAt() uintptr { return uintptr(unsafe.Pointer(&page)) }

// Arguments that no call accepts. A call refuses them only after all checks of the caller's
// rights.
const (
	badPointer = uintptr(1)
	badFD      = ^uintptr(0)
	badFlags   = uintptr(0x7fffffff)
)

// userKeyring is KEY_SPEC_USER_KEYRING, -4, as an argument.
const userKeyring = ^uintptr(3)

// errRefused is the error for a refusal without an error of its own.
var errRefused = errors.New("refused")

// refused reports whether an errno is a refusal: by the system call filter, or because a
// right is missing.
func refused(errno unix.Errno) bool {
	return errno == unix.EPERM || errno == unix.ENOSYS || errno == unix.EACCES
}

// reaches is an act that makes a call, and gets through if the kernel's own code was
// reached.
func reaches(name string, number uintptr, args ...uintptr) act {
	return func(*Facts) (string, error) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		switch {
		case refused(errno):
			return "", fmt.Errorf("%s: %w", name, errno)
		case errno != 0:
			return fmt.Sprintf("%s answers %v", name, errno), nil
		}
		return name, nil
	}
}

// works is an act that makes a call, and gets through only if the call succeeds.
func works(name string, number uintptr, args ...uintptr) act {
	return func(*Facts) (string, error) {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return "", fmt.Errorf("%s: %w", name, errno)
		}
		return name, nil
	}
}

// anyOf is an act that tries several acts, and gets through if at least one does.
func anyOf(acts ...act) act {
	return func(f *Facts) (string, error) {
		var got []string
		var faults []error
		for _, a := range acts {
			what, err := a(f)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			got = append(got, what)
		}
		if len(got) > 0 {
			return strings.Join(got, ", "), nil
		}
		return "", errors.Join(faults...)
	}
}

// known returns a condition: the kernel has a call. Nobody can reach a call that it lacks.
func known(number uintptr, args ...uintptr) func(*ground) bool {
	return func(*ground) bool {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno != unix.ENOSYS
	}
}

// present returns a condition: the kernel shows a file.
func present(path string) func(*ground) bool {
	return func(*ground) bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// opens tries to open one of the files, without reading or writing it.
func opens(flags int, paths ...string) act {
	return func(*Facts) (string, error) {
		var faults []error
		for _, path := range paths {
			err := open(path, flags)
			if err == nil {
				return path, nil
			}
			faults = append(faults, err)
		}
		return "", errors.Join(faults...)
	}
}

// open opens a file and closes it. The null device counts as a failure, because a box shows
// it in place of many files.
func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if info.Mode&unix.S_IFMT == unix.S_IFCHR && info.Rdev == unix.Mkdev(1, 3) && path != os.DevNull {
		return fmt.Errorf("%s is the null device", path)
	}
	return nil
}

// readSome returns the beginning of a file, which may be a device, or very long.
func readSome(path string, most int) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, most)
	n := 0
	for n < most {
		m, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && n == 0 {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
		if err != nil || m <= 0 {
			break
		}
		n += m
	}
	return string(buf[:n]), nil
}

// reads tries to find text in a file.
func reads(path, text string) (string, error) {
	got, err := readSome(path, 1<<20)
	if err != nil {
		return "", err
	}
	if !strings.Contains(got, text) {
		return "", fmt.Errorf("%s: contains something else", path)
	}
	return path, nil
}

// readsAny tries to read anything at all from one of the files.
func readsAny(paths ...string) act {
	return func(*Facts) (string, error) {
		var faults []error
		for _, path := range paths {
			text, err := readSome(path, 64)
			switch {
			case err != nil:
				faults = append(faults, err)
			case text == "":
				faults = append(faults, fmt.Errorf("%s: empty", path))
			default:
				return path, nil
			}
		}
		return "", errors.Join(faults...)
	}
}

// pids returns the processes that /proc shows, except the prober.
func pids() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			all = append(all, pid)
		}
	}
	return all
}

// inProc returns the path of a file of a process.
func inProc(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// findProcess returns a process that has text in its arguments.
func findProcess(text string) (int, bool) {
	for _, pid := range pids() {
		if got, err := readSome(inProc(pid, "cmdline"), 1<<16); err == nil && strings.Contains(got, text) {
			return pid, true
		}
	}
	return 0, false
}

// send signals a process that the prober knows from its facts, or has made.
func send(pid int, sig unix.Signal) error {
	if pid == 0 {
		return errors.New("signal: no process was named") // 0 would be the prober's own process group
	}
	if err := unix.Kill(pid, sig); err != nil { //nolint:forbidigo // the probe tries to signal this pid, whichever process has it
		return fmt.Errorf("signal %d: %w", pid, err)
	}
	return nil
}

// pause waits for an event that cannot be observed.
func pause(d time.Duration) { <-time.After(d) }

// soon reports whether ask returns true before patience is over. It asks every 10 ms.
func soon(patience time.Duration, ask func() bool) bool {
	for end := time.Now().Add(patience); ; pause(10 * time.Millisecond) {
		if ask() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// scratch makes a directory for a probe: in its working directory if that can be written,
// otherwise among the temporary files.
func scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(".", ".belljar-probe-")
	if err != nil {
		dir, err = os.MkdirTemp("", "belljar-probe-")
	}
	if err != nil {
		return "", nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// inScratch is an act that runs in a directory of its own.
func inScratch(do func(f *Facts, dir string) (string, error)) act {
	return func(f *Facts) (string, error) {
		dir, remove, err := scratch()
		if err != nil {
			return "", err
		}
		defer remove()
		return do(f, dir)
	}
}

// newFile makes a file with a text.
func newFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// forked makes a child by clone(2) with these flags. The child ends immediately, or, with
// sleep, sleeps until the prober ends. The child has the one thread that made it and a copy
// of its memory: it may do nothing but plain system calls.
func forked(flags uintptr, sleep bool) (int, unix.Errno) {
	parent := uintptr(os.Getpid())
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	inChild(sleep, parent)
	return 0, 0
}

// forked3 is forked by clone3(2).
func forked3(flags uint64) (int, unix.Errno) {
	args := struct{ flags, pidfd, child, parent, exit, stack, size, tls, tids, count, cgroup uint64 }{
		flags: flags, exit: uint64(unix.SIGCHLD),
	}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	inChild(false, 0)
	return 0, 0
}

// inChild is the life of a forked child. A child that sleeps ends with its parent, which
// may have ended before the child asked for the signal.
//
//go:nosplit
func inChild(sleep bool, parent uintptr) {
	_, _, _ = unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	if now, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); now != parent {
		sleep = false
	}
	for sleep {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// reap waits for a child.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
