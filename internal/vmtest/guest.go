package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// guestUser is the ordinary user of the guest. It is not nobody, because 65534 is also the
// overflow uid, which would hide a missing mapping in a user namespace.
const guestUser = 61234

// first runs as the guest's first process.
func first() {
	code, err := obey()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmtest: guest: %v\n", err)
		end("")
	}
	end(strconv.Itoa(code))
}

// end writes the exit status of the test to the second serial line, if there is one,
// and resets the guest.
func end(status string) {
	if f, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY, 0); err == nil && status != "" {
		fmt.Fprintln(f, status)
		// TCSBRK waits until the line has sent everything. A reset before that would lose
		// the rest.
		_ = unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1)
	}
	_ = unix.IoctlSetInt(1, unix.TCSBRK, 1)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // if the first process ended, the kernel would panic
}

// obey carries out the order and returns the exit status of the test.
func obey() (int, error) {
	if err := mountAll(mount{"dev", "/dev", "devtmpfs", 0, ""}, mount{"proc", "/proc", "proc", 0, ""}); err != nil {
		return 0, err
	}
	rawConsole()
	text, err := os.ReadFile("/" + orderFile)
	if err != nil {
		return 0, err
	}
	var w order
	if err := json.Unmarshal(text, &w); err != nil {
		return 0, fmt.Errorf("read the order: %w", err)
	}
	if w.Nothing {
		return 0, nil
	}
	if err := loadModules(); err != nil {
		return 0, err
	}
	if w.Kept != "" {
		return keep(&w)
	}
	program, err := enterRoot(&w)
	if err != nil {
		return 0, err
	}
	if w.Systemd {
		return 0, becomeSystemd(&w, program)
	}
	group, err := makeGroups(&w)
	if err != nil {
		return 0, err
	}
	return start(&w, program, group)
}

// rawConsole keeps the terminal from turning LF into CR LF.
func rawConsole() {
	f, err := os.OpenFile("/dev/ttyS0", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return // then only the output looks ugly
	}
	defer f.Close()
	rawTerminal(int(f.Fd()))
}

func rawTerminal(fd int) {
	if t, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.Oflag &^= unix.OPOST
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
}

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func mountAll(mounts ...mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o750); err != nil {
			return err
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

func loadModules() error {
	paths, err := filepath.Glob("/" + modulesDir + "/*") // Glob returns the paths sorted
	if err != nil {
		return err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		flags := 0
		if !strings.HasSuffix(path, ".ko") {
			flags = unix.MODULE_INIT_COMPRESSED_FILE
		}
		err = unix.FinitModule(int(f.Fd()), "", flags)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", path, err)
		}
	}
	return nil
}

// enterRoot builds the root of the guest with the test in it, and makes it the root of this
// process. It returns the path of the test.
func enterRoot(w *order) (string, error) {
	err := mountAll(
		mount{"host", "/host", "virtiofs", unix.MS_RDONLY, ""},
		mount{"tmpfs", "/own", "tmpfs", 0, "mode=755"},
	)
	if err != nil {
		return "", err
	}
	for _, dir := range []string{"/own/upper", "/own/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the guest's root directory
			return "", err
		}
	}
	test, err := packed()
	if err != nil {
		return "", err
	}
	err = mountAll(
		mount{"overlay", "/new", "overlay", 0, "lowerdir=/host,upperdir=/own/upper,workdir=/own/work"},
		mount{"dev", "/new/dev", "devtmpfs", 0, ""},
		mount{"proc", "/new/proc", "proc", 0, ""},
		mount{"sys", "/new/sys", "sysfs", 0, ""},
		mount{"run", "/new/run", "tmpfs", 0, "mode=755"},
		mount{"/" + programDir, "/new/mnt", "", unix.MS_BIND, ""},
		mount{"pts", "/new/dev/pts", "devpts", 0, "mode=620,ptmxmode=666"},
		mount{"shm", "/new/dev/shm", "tmpfs", 0, "mode=1777"},
	)
	if err != nil {
		return "", err
	}
	// The kernel makes the devices, but not the links that udev adds.
	for _, link := range [][2]string{{"/proc/self/fd", "fd"}, {"fd/0", "stdin"}, {"fd/1", "stdout"}, {"fd/2", "stderr"}} {
		if err := os.Symlink(link[0], filepath.Join("/new/dev", link[1])); err != nil {
			return "", err
		}
	}
	if w.Systemd {
		if err := keepSelf("/new" + ownProgram); err != nil {
			return "", err
		}
	}
	// The root is moved as switch_root(8) does: in a mere chroot no process can make user
	// namespaces (user_namespaces(7), EPERM).
	if err := errors.Join(unix.Chdir("/new"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return "", fmt.Errorf("enter the root: %w", err)
	}
	// /tmp is a real disk, because not every kernel maps the owners of a tmpfs. It has
	// project quotas, for the limits on disks.
	mkfs, err := execute("/sbin/mke2fs", "-q", "-F", "-O", "^has_journal,quota,project",
		"-E", "lazy_itable_init=1,quotatype=prjquota", w.Tmp)
	if err != nil || mkfs != 0 {
		return "", fmt.Errorf("mke2fs %s: status %d, %w", w.Tmp, mkfs, err)
	}
	if err := mountAll(mount{w.Tmp, "/tmp", "ext4", 0, "prjquota"}); err != nil {
		return "", err
	}
	if err := os.Chmod("/tmp", 0o777|os.ModeSticky); err != nil {
		return "", err
	}
	// A checkout is often in a directory that only its owner may enter.
	for dir := w.Dir; dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // in the guest's own layer
			return "", err
		}
	}
	if err := unix.Sethostname([]byte("vmtest")); err != nil {
		return "", fmt.Errorf("set the host name: %w", err)
	}
	return filepath.Join("/mnt", filepath.Base(test)), loopbackUp()
}

// packed returns the path of the program in the initial files.
func packed() (string, error) {
	all, err := filepath.Glob("/" + programDir + "/*")
	if err != nil || len(all) != 1 {
		return "", fmt.Errorf("%d programs in the first files, want one", len(all))
	}
	return all[0], nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// start runs the test in the cgroup of version 2, if group is not empty, and returns its
// exit status.
func start(w *order, program, group string) (int, error) {
	sys := &syscall.SysProcAttr{
		Setsid: true, Credential: &syscall.Credential{Uid: uint32(w.User), Gid: uint32(w.User)},
	}
	if group != "" {
		dir, err := os.Open(group)
		if err != nil {
			return 0, err
		}
		defer dir.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	}
	return wait(syscall.ForkExec(program, append([]string{program}, w.Args...), &syscall.ProcAttr{
		Dir: w.Dir, Env: w.Env, Files: []uintptr{0, 1, 2}, Sys: sys,
	}))
}

// execute runs a program of the guest, and returns its exit status.
func execute(program string, args ...string) (int, error) {
	return wait(syscall.ForkExec(program, append([]string{program}, args...), &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Files: []uintptr{0, 1, 2},
	}))
}

// wait reaps all processes, as a first process must, until pid has ended. It returns the
// exit status of pid.
func wait(pid int, err error) (int, error) {
	if err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && got != pid:
		case err != nil:
			return 0, fmt.Errorf("wait for process %s: %w", strconv.Itoa(pid), err)
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		default:
			return status.ExitStatus(), nil
		}
	}
}
