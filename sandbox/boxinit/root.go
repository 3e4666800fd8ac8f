package boxinit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"unsafe"
)

// The box's tmpfs storage is one file system, so that one size holds for all
// of it; these directories of it are bound to where they belong.
var storage = []struct {
	name, target string
	mode         uint32
}{
	{"tmp", "/tmp", 0o1777},
	{"home", Home, 0o755},
	{"shm", "/dev/shm", 0o1777},
	{"run", Run, 0o755},
}

// Home is the home directory and Run the place for run-time files in a box.
const (
	Home = "/home/agent"
	Run  = "/run/user"
)

// masked files and directories of /proc show the host, or would let it be
// changed, whoever reads them; readOnly ones are needed for reading. The list
// is that of the OCI default (moby/moby oci/defaults.go).
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats",
		"/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmallocinfo",
		"/proc/slabinfo", "/proc/config.gz", "/proc/key-users", "/proc/swaps", "/proc/modules",
	}
	readOnly = []string{"/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/tty"}
)

// step is one part of the set-up; its name stands in the error.
type step struct {
	name string
	do   func() error
}

// buildRoot makes the box's file system and moves into it, with trees being
// the detached mounts of p.Mounts. The order matters:
//
//  1. nothing that is mounted from here on reaches the host;
//  2. the host's trees are cloned before anything covers them;
//  3. an empty tmpfs is made and filled, and becomes the root;
//  4. the host's root is let go, so no path leads to it any more;
//  5. the kernel's knobs are set while they can be written, then closed.
func buildRoot(p *Plan, trees []int) error {
	base := "/tmp"
	at := func(path string) string { return filepath.Join(base, path) }
	steps := []step{
		{"make mounts private", func() error {
			return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		}},
		{"clone the host's trees", func() (err error) {
			if !p.Detached {
				trees, err = cloneTrees(p.Mounts)
			}
			return err
		}},
		{"mount the root", func() error {
			return syscall.Mount("belljar", base, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1m,nr_inodes=512,mode=755")
		}},
		{"attach the host's trees", func() error { return attachTrees(p.Mounts, trees, at) }},
		{"mount the storage", func() error { return mountStorage(p, at) }},
		{"write files", func() error { return writeFiles(p, at) }},
		{"mount /dev/pts", func() error { return mountPts(at) }},
		{"mount /proc", func() error {
			return mkdirMount("proc", at("/proc"), "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
		}},
		{"pivot_root", func() error { return pivot(base) }},
		{"set kernel knobs", func() error { return setKnobs(p) }},
		{"mask /proc", maskProc},
		{"close the root", func() error {
			return syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, "")
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func cloneTrees(mounts []Mount) ([]int, error) {
	trees := make([]int, 0, len(mounts))
	for _, m := range mounts {
		fd, err := OpenTree(m.Source, MountAttr{Writable: m.Writable, Devices: m.Devices})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Source, err)
		}
		trees = append(trees, fd)
	}
	return trees, nil
}

func attachTrees(mounts []Mount, trees []int, at func(string) string) error {
	if len(trees) != len(mounts) {
		return fmt.Errorf("%d trees for %d mounts: %w", len(trees), len(mounts), syscall.EINVAL)
	}
	for i, m := range mounts {
		if err := makeTarget(at(m.Target), m.Dir); err != nil {
			return err
		}
		if err := attach(trees[i], at(m.Target)); err != nil {
			return err
		}
		syscall.Close(trees[i])
	}
	return nil
}

// makeTarget makes the directory or empty file that a mount covers.
func makeTarget(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	return f.Close()
}

func mkdirMount(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return syscall.Mount(source, target, fstype, flags, data)
}

func mountStorage(p *Plan, at func(string) string) error {
	// Mounted below the root first and let go at the end of this function: the
	// bound directories keep it alive.
	whole := at("/storage")
	data := fmt.Sprintf("size=%d,nr_inodes=%d,mode=755", p.Tmp, p.TmpFiles)
	if err := mkdirMount("belljar", whole, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, data); err != nil {
		return err
	}
	for _, s := range storage {
		dir := filepath.Join(whole, s.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(dir, os.FileMode(s.mode&0o777)|stickyBit(s.mode)); err != nil {
			return err
		}
		if err := mkdirMount(dir, at(s.target), "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := syscall.Unmount(whole, syscall.MNT_DETACH); err != nil {
		return err
	}
	return os.Remove(whole)
}

func stickyBit(mode uint32) os.FileMode {
	if mode&0o1000 != 0 {
		return os.ModeSticky
	}
	return 0
}

// writeFiles makes the box's own small files and links. Parents come first
// because the paths are sorted.
func writeFiles(p *Plan, at func(string) string) error {
	for _, path := range sortedKeys(p.Files) {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at(path), []byte(p.Files[path]), 0o444); err != nil {
			return err
		}
	}
	for _, path := range sortedKeys(p.Links) {
		if err := os.MkdirAll(filepath.Dir(at(path)), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(p.Links[path], at(path)); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func mountPts(at func(string) string) error {
	return mkdirMount("devpts", at("/dev/pts"), "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// pivot makes base the root and lets the old one go. Both are stacked on the
// same directory, so no place for the old root is needed (pivot_root(2),
// "pivot_root(".", ".")").
func pivot(base string) error {
	if err := syscall.Chdir(base); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return err
	}
	return syscall.Chdir("/")
}

// setKnobs brings up the loopback interface, names the host and sets what
// belongs to the box's own namespaces.
func setKnobs(p *Plan) error {
	if err := syscall.Sethostname([]byte(p.Hostname)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	// No namespace can be made inside, whatever a system call filter may miss
	// (namespaces(7)): clone3 passes its flags where no filter can read them.
	knobs := []string{"user", "mnt", "net", "ipc", "uts", "cgroup", "time"}
	if !p.Nested {
		knobs = append(knobs, "pid")
	}
	for _, k := range knobs {
		path := "/proc/sys/user/max_" + k + "_namespaces"
		if err := os.WriteFile(path, []byte("0"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// Ports below 1024 are the box's own; nobody else can reach them. Kernels
	// without the knob just keep them closed.
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	return nil
}

func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	request := struct { // struct ifreq, netdevice(7)
		name  [ifNameSize]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

func maskProc() error {
	for _, path := range masked {
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			continue // this kernel does not have it
		case info.IsDir():
			err = syscall.Mount("belljar", path, "tmpfs", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "size=0,nr_inodes=1")
		default:
			err = syscall.Mount("/dev/null", path, "", syscall.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, path := range readOnly {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		flags := uintptr(syscall.MS_REMOUNT | syscall.MS_BIND | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
		if err := syscall.Mount("", path, "", flags, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
