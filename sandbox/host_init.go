package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/hostexec"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/netlink"
)

// tryName is argv[0] of the process that tries from inside what the init of a box does: it
// builds a root in the namespaces of a box, reports how each step went, and ends. The
// kernel then removes everything.
const tryName = "belljar-try"

// tryFirst becomes that process if this program was started as tryName.
func tryFirst() {
	if len(os.Args) == 1 && os.Args[0] == tryName {
		os.Exit(tryAll())
	}
}

// attempt is one step of that process. Its name is not a text for people.
type attempt struct {
	name string
	do   func() error
}

// Names of attempts that other functions look for.
const (
	tryMounts  = "mounts" // beginning of the names of all attempts with mounts
	tryProc    = "proc"
	tryOverlay = "overlay"
	tryImages  = "images"
	tryRoots   = "shared roots"
	tryLocal   = "local addresses"
	tryDoor    = "redirect"
)

// attempts are made in this order, all of them.
var attempts = []attempt{
	{tryMounts + ": make private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
	{tryMounts + ": tmpfs", func() error { return unix.Mount("probe", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m") }},
	{tryMounts + ": open_tree, mount_setattr, move_mount", tryTree},
	{tryMounts + ": devpts", func() error {
		return mkdirMount("/tmp/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666")
	}},
	{tryProc, func() error { return mkdirMount("/tmp/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") }},
	{tryOverlay, tryLayers},
	{tryImages, tryImage},
	{tryRoots, tryTemplate},
	{"host name", func() error { return unix.Sethostname([]byte("probe")) }},
	{"loopback", tryLoopback},
	{tryLocal, func() error {
		return tryNetlink(unix.NETLINK_ROUTE, func(sock int) error { return netlink.AllLocal(sock, doorAddr) })
	}},
	{tryDoor, func() error {
		return tryNetlink(unix.NETLINK_NETFILTER, func(sock int) error {
			return netlink.Redirect(sock, netip.AddrPortFrom(doorAddr, portTransparent))
		})
	}},
	{tryMounts + ": pivot_root", func() error {
		if err := unix.Chdir("/tmp"); err != nil {
			return err
		}
		if err := unix.PivotRoot(".", "."); err != nil {
			return err
		}
		return unix.Unmount(".", unix.MNT_DETACH)
	}},
}

func mkdirMount(target, kind string, flags uintptr, data string) error {
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	return unix.Mount("probe", target, kind, flags, data)
}

// tryTree clones the whole root, as is done for every tree of a box, and attaches the clone
// read-only.
func tryTree() error {
	if err := os.Mkdir("/tmp/root", 0o700); err != nil {
		return err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(fd)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, "/tmp/root", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// tryImage lays one directory over another, like the root of a box over its image. This
// requires less than an overlay that can be written.
func tryImage() error {
	for _, dir := range []string{"/tmp/own", "/tmp/image"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return mkdirMount("/tmp/imaged", "overlay", unix.MS_RDONLY, "lowerdir=/tmp/own:/tmp/image,userxattr")
}

func tryLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func tryNetlink(protocol int, do func(sock int) error) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// tried is the result of an attempt. Errno is 0 if it worked.
type tried struct {
	Name  string
	Text  string
	Errno syscall.Errno
}

func (t tried) err() error {
	if t.Errno == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", t.Text, t.Errno)
}

// tryAll makes all attempts and reports the results. It returns the exit status of the
// process.
func tryAll() int {
	var report []tried
	for _, a := range attempts {
		t := tried{Name: a.name, Text: a.name}
		if err := a.do(); err != nil {
			t.Errno = unix.EIO // a failure without a number is a failure too
			_ = errors.As(err, &t.Errno)
			if text, ok := strings.CutSuffix(err.Error(), ": "+t.Errno.Error()); ok {
				t.Text = a.name + ": " + text
			}
		}
		report = append(report, t)
	}
	if json.NewEncoder(os.NewFile(3, "report")).Encode(report) != nil {
		return 1
	}
	return 0
}

// namespaceKinds are the namespaces of a box, in the order in which they are tried one by
// one.
var namespaceKinds = []struct {
	name string
	flag uintptr
}{
	{"user", unix.CLONE_NEWUSER},
	{"mount", unix.CLONE_NEWNS},
	{"pid", unix.CLONE_NEWPID},
	{"net", unix.CLONE_NEWNET},
	{"ipc", unix.CLONE_NEWIPC},
	{"uts", unix.CLONE_NEWUTS},
	{"cgroup", unix.CLONE_NEWCGROUP},
}

// tryInside makes the namespaces of a box and returns how the attempts in them
// went.
func tryInside(root bool) ([]tried, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := hostexec.Self(tryName, []string{"GOMAXPROCS=1"}, []*os.File{nil, nil, nil, w}, tryAttr(namespaces, root))
	w.Close()
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	const patience, most = 10 * time.Second, 64 << 10
	_ = r.SetReadDeadline(time.Now().Add(patience))
	var report []tried
	if err := json.NewDecoder(io.LimitReader(r, most)).Decode(&report); err != nil {
		return nil, fmt.Errorf("try from inside: %w", err)
	}
	return report, nil
}

// tryAttr returns the attributes of a process in the given namespaces, with the user that
// an init of a box has on the host.
func tryAttr(flags uintptr, root bool) *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	if root {
		uid, gid = firstUID, firstUID
	}
	return &syscall.SysProcAttr{
		Cloneflags:                 flags,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: boxUID, HostID: uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: boxGID, HostID: gid, Size: 1}},
		GidMappingsEnableSetgroups: root,
		Credential:                 &syscall.Credential{Uid: boxUID, Gid: boxGID, NoSetGroups: !root},
		AmbientCaps:                initCapabilities,
		Setsid:                     true,
	}
}

// tryKind makes one kind of namespace, in a user namespace of its own.
func tryKind(flag uintptr, root bool) error {
	// A helper without its control connection ends immediately.
	p, err := hostexec.Self(boxinit.MapName, nil, []*os.File{nil, nil, nil}, tryAttr(flag|unix.CLONE_NEWUSER, root))
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// checkBox tries the namespaces of a box, kind by kind if they fail together, and the
// mounts in them.
func checkBox(a around) []Check {
	users := Check{Name: "user namespaces", Required: true, OK: true, Detail: "can be made"}
	others := Check{Name: "namespaces", Required: true, OK: true, Detail: "all other kinds can be made: mount, pid, net, ipc, uts, cgroup"}
	const lost = "no command can be isolated, so none will run"
	report, err := tryInside(a.root)
	if err != nil {
		for _, k := range namespaceKinds {
			kindErr := tryKind(k.flag, a.root)
			switch {
			case kindErr == nil:
				continue
			case k.flag == unix.CLONE_NEWUSER:
				users.OK, users.Detail, users.Degraded, users.Mend = false, brief(kindErr), lost, a.mendNamespaces(kindErr)
				return []Check{users} // all other kinds need a user namespace
			}
			err = kindErr
			others.Detail = k.name + ": " + brief(err)
			break
		}
		if others.OK = false; !strings.Contains(others.Detail, brief(err)) {
			others.Detail = brief(err) // each kind by itself works
		}
		others.Degraded, others.Mend = lost, a.mendNamespaces(err)
		return []Check{users, others}
	}
	mounts := Check{Name: "mounts", Required: true, OK: true, Detail: "open_tree, mount_setattr, move_mount, pivot_root, tmpfs and devpts work in them"}
	proc := Check{Name: "proc", Required: true, OK: true, Detail: "/proc can be mounted in a new pid namespace"}
	layers := checkLayers(a, nil)
	images := Check{Name: "images", OK: true, Detail: "overlayfs can be mounted in them, so a box can have the root of an image"}
	door := Check{Name: "egress door", OK: true, Detail: "every TCP connection of a box can be redirected (nf_tables)"}
	for _, t := range slices.Backward(report) { // the first failure is kept
		err := t.err()
		switch {
		case err == nil:
		case strings.HasPrefix(t.Name, tryMounts):
			mounts.OK, mounts.Detail, mounts.Degraded, mounts.Mend = false, strings.TrimPrefix(err.Error(), tryMounts+": "), lost, a.mendMounts()
		case t.Name == tryOverlay:
			layers = checkLayers(a, err)
		case t.Name == tryImages:
			images.OK, images.Detail, images.Degraded = false, err.Error(), "profiles with fs.image are refused; all others work"
			images.Mend = "use Linux 5.11 or later with the module overlay loaded: modprobe overlay"
		case t.Name == tryRoots && mounts.OK:
			mounts.Detail += "; each box keeps its own copy of the files of its root (70 KB), and 300 KB more while it is idle; with Linux 6.15 or later boxes of one profile share the files, and an idle box frees the 300 KB"
		case t.Name == tryRoots:
		case t.Name == tryLocal:
			door.OK, door.Detail, door.Degraded, door.Mend = false, err.Error(), "a profile with a network opens no box here", "let the container or security module around belljar allow netlink route sockets"
		case t.Name == tryDoor && door.OK:
			door.Detail = "connections of a box cannot be redirected: " + err.Error()
			door.Degraded = "boxes with a network reach the ports that their profile names only, and no server in them can use such a port"
			door.Mend = "modprobe -a nf_tables nft_chain_nat nft_nat"
		case t.Name == tryProc:
			proc.OK, proc.Detail, proc.Degraded, proc.Mend = false, err.Error(), "a box without /proc runs hardly any program, so none will run", a.mendProc()
		default:
			others.OK, others.Detail, others.Degraded, others.Mend = false, err.Error(), lost, a.mendNamespaces(err)
		}
	}
	return []Check{users, others, mounts, proc, layers, images, door}
}

// brief returns the text of an error without the path of this program, which package os
// adds.
func brief(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return "clone: " + path.Err.Error()
	}
	return err.Error()
}
