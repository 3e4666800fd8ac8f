package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/scope"
)

// around is what was read about the surroundings of belljar. It shows which of
// many possible reasons made a call fail here, and so how to fix it.
type around struct {
	kernel   string
	root     bool     // whether belljar is uid 0
	unmapped bool     // whether belljar is uid 0 in a user namespace that lacks the users that boxes of root run as
	runtime  string   // container engine; "" if none was recognized
	signs    []string // evidence that this is a container; empty outside of one
	chroot   bool     // whether belljar's root is not that of its mount namespace
	filtered bool     // whether a system call filter already applies to belljar
	covered  []string // mounts that cover parts of /proc
	hiding   bool     // whether /proc hides the processes of other users
	cgroupRO []string // control group trees that are mounted read-only
	cgroup2  bool     // whether a control group tree of version 2 is mounted
	cgroups  bool     // whether a control group tree of any version is mounted
	overlay  bool     // whether belljar's root is an overlay
	systemd  bool     // whether systemd manages this machine
	scope    cgroup.Scope
	modules  string // security modules that are active

	maxUser  string // sysctl user.max_user_namespaces
	cloning  string // sysctl kernel.unprivileged_userns_clone, of Debian and others
	apparmor string // sysctl kernel.apparmor_restrict_unprivileged_userns, of Ubuntu
	noMemory bool   // whether the memory controller is disabled at boot
}

// engine is a container engine, and the file that shows it.
type engine struct{ name, file string }

// engines are looked for in this order. No standard defines the files of the first three,
// but they are stable; the last one is systemd's "Container Interface".
var engines = []engine{
	{"kubernetes", "/var/run/secrets/kubernetes.io"},
	{"docker", "/.dockerenv"},
	{"podman", "/run/.containerenv"},
	{"", "/run/systemd/container"}, // the file contains the name
}

// firstNamespaces are the inode numbers of the namespaces that the kernel
// starts with (kernel: include/linux/proc_ns.h).
var firstNamespaces = []struct {
	name  string
	inode uint64
}{{"user", 0xEFFFFFFD}, {"pid", 0xEFFFFFFC}, {"cgroup", 0xEFFFFFFB}}

func lookAround(kernel string) around {
	a := around{
		kernel: kernel, root: os.Geteuid() == 0,
		maxUser:  knob("/proc/sys/user/max_user_namespaces"),
		cloning:  knob("/proc/sys/kernel/unprivileged_userns_clone"),
		apparmor: knob("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		modules:  knob("/sys/kernel/security/lsm"),
	}
	for _, ns := range firstNamespaces {
		var st unix.Stat_t
		if unix.Stat("/proc/self/ns/"+ns.name, &st) == nil && st.Ino != ns.inode {
			a.signs = append(a.signs, "a "+ns.name+" namespace of its own")
		}
	}
	_, err := os.Stat("/run/systemd/system") // sd_booted(3)
	a.systemd = err == nil
	a.readMounts(readMost("/proc/self/mountinfo"))
	a.chroot = a.chroot || elsewhere("1") || elsewhere(strconv.Itoa(os.Getppid()))
	// These signs alone prove nothing: live systems have an overlay as their root, and
	// images of machines are made from those of containers.
	if len(a.signs) > 0 {
		a.findEngine()
		if a.overlay {
			a.signs = append(a.signs, "an overlay as its root")
		}
	}
	a.unmapped = a.root && !hasUser(readMost("/proc/self/uid_map"), firstUID)
	a.filtered = hasFilter(readMost("/proc/self/status"))
	a.noMemory = memoryDisabled(readMost("/proc/cgroups"))
	return a
}

func (a *around) findEngine() {
	for _, e := range engines {
		if _, err := os.Stat(e.file); err != nil {
			continue
		}
		if a.runtime = e.name; a.runtime == "" {
			a.runtime = knob(e.file)
		}
		a.signs = append(a.signs, e.file)
		return
	}
}

// elsewhere reports whether a process of belljar's mount namespace has another root than
// belljar. Then one of the two is in a chroot, and the other one probably is not.
func elsewhere(pid string) bool {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(filepath.Join("/proc", pid, "ns/mnt"))
	if err != nil || ours != theirs {
		return false // perhaps a process that belljar may not look at
	}
	var here, there unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_MNT_ID|unix.STATX_INO, &here) == nil &&
		unix.Statx(unix.AT_FDCWD, filepath.Join("/proc", pid, "root")+"/", 0, unix.STATX_MNT_ID|unix.STATX_INO, &there) == nil &&
		(here.Mnt_id != there.Mnt_id || here.Ino != there.Ino)
}

// readMost reads at most 4 MiB of a file of the kernel whose length is not known.
func readMost(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 20
	var text bytes.Buffer
	_, _ = io.Copy(&text, io.LimitReader(f, most))
	return text.String()
}

// emptyProc are directories that the kernel keeps empty so that something can be mounted on
// them. A mount there hides nothing.
var emptyProc = []string{"/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd", "/proc/openprom"}

// readMounts reads proc_pid_mountinfo(5).
func (a *around) readMounts(text string) {
	a.chroot = true
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 6 || len(super) < 1 {
			continue
		}
		point, options, kind := mount[4], strings.Split(mount[5], ","), super[0]
		if point == "/" {
			a.chroot = false
			a.overlay = kind == "overlay"
		}
		if point == "/proc" && len(super) > 2 {
			// proc(5), hidepid
			a.hiding = strings.Contains(super[2], "hidepid=") && !strings.Contains(super[2], "hidepid=0") && !strings.Contains(super[2], "hidepid=off")
		}
		if strings.HasPrefix(point, "/proc/") && !slices.Contains(emptyProc, point) {
			a.covered = append(a.covered, point)
		}
		if kind == "cgroup" || kind == "cgroup2" {
			a.cgroups, a.cgroup2 = true, a.cgroup2 || kind == "cgroup2"
			if slices.Contains(options, "ro") {
				a.cgroupRO = append(a.cgroupRO, point)
			}
		}
	}
}

// hasFilter reads proc_pid_status(5).
func hasFilter(status string) bool {
	for line := range strings.Lines(status) {
		if mode, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			return strings.TrimSpace(mode) == "2" // SECCOMP_MODE_FILTER
		}
	}
	return false
}

// hasUser reports whether a user namespace has a user. The table is the content
// of its uid_map (user_namespaces(7)).
func hasUser(table string, uid int64) bool {
	for line := range strings.Lines(table) {
		var inside, outside, count int64
		if n, _ := fmt.Sscan(line, &inside, &outside, &count); n == 3 && inside <= uid && uid < inside+count {
			return true
		}
	}
	return false
}

// memoryDisabled reads the table of /proc/cgroups (cgroups(7)).
func memoryDisabled(table string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" {
			return f[3] == "0"
		}
	}
	return false
}

// inContainer reports whether belljar runs in a container, whose owner decides what
// belljar may do.
func (a *around) inContainer() bool { return len(a.signs) > 0 }

// mendNamespaces returns how to make namespaces possible that failed with err.
func (a *around) mendNamespaces(err error) string {
	where := ""
	if a.inContainer() {
		where = " (on the host: no container may)"
	}
	switch {
	case a.maxUser == "0":
		return "sysctl -w user.max_user_namespaces=15000" + where
	case a.unmapped:
		return fmt.Sprintf("run belljar as a user other than root, for example with docker run --user 1000: root's boxes run as the users from %d on, which this user namespace lacks", firstUID)
	case a.cloning == "0" && !a.root:
		return "sysctl -w kernel.unprivileged_userns_clone=1" + where
	case a.apparmor == "1" && !a.root:
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" + where
	case strings.Contains(a.kernel, "-Microsoft"):
		return "wsl --set-version DISTRIBUTION 2, with the name that wsl --list shows"
	case errors.Is(err, unix.EUSERS):
		return "start belljar in an outer user namespace: the kernel allows 32 levels, and all are in use here"
	case errors.Is(err, unix.ENOSPC):
		return "sysctl -w user.max_user_namespaces=15000, and the same for the kind that failed" + where
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "no setting fixes this: use a kernel with CONFIG_NAMESPACES and all its kinds"
	case a.chroot:
		return "start belljar outside the chroot, or with pivot_root(8) in place of chroot(8)"
	case a.filtered:
		return a.loosen("seccomp=unconfined", "seccompProfile: {type: Unconfined}",
			"start belljar where no system call filter forbids namespaces; in a systemd unit, RestrictNamespaces=no")
	}
	return "nothing that belljar can see forbids it: look for a chroot around it, and for a denial of a security module in dmesg"
}

// mendMounts returns how to make mounts possible in a namespace that could be made.
func (a *around) mendMounts() string {
	switch {
	case a.apparmor == "1" && !a.root:
		return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case a.filtered || a.inContainer():
		return a.loosen("seccomp=unconfined --security-opt apparmor=unconfined", "seccompProfile: {type: Unconfined}",
			"start belljar where no system call filter forbids mounts; in a systemd unit, SystemCallFilter=@mount")
	}
	return "no setting fixes this: use Linux 5.12 or later"
}

// mendProc returns how to make a new /proc possible. The kernel refuses it if parts
// of the old one are covered, because the new one would show them (kernel:
// fs/namespace.c, mount_too_revealing).
func (a *around) mendProc() string {
	if len(a.covered) == 0 {
		return a.mendMounts()
	}
	return a.loosen("systempaths=unconfined", "procMount: Unmasked, with hostUsers: false",
		"umount "+strings.Join(a.covered[:min(len(a.covered), 8)], " "))
}

// mendCgroups returns how to make control groups writable.
func (a *around) mendCgroups() string {
	switch {
	case a.runtime == "podman":
		return "podman run --security-opt unmask=/sys/fs/cgroup ..."
	case a.runtime == "docker":
		return "docker run --security-opt writable-cgroups=true ... (Docker 28 and later)"
	case a.runtime == "kubernetes":
		return "give the pod writable cgroups: cgroup_writable = true in its containerd runtime, or securityContext: {privileged: true}"
	case a.root && len(a.cgroupRO) == 1:
		return "mount -o remount,rw " + a.cgroupRO[0]
	case a.root && len(a.cgroupRO) > 0:
		return "for tree in " + strings.Join(a.cgroupRO, " ") + "; do mount -o remount,rw $tree; done"
	case a.root && !a.cgroups:
		return "mount -t cgroup2 none /sys/fs/cgroup"
	case a.root:
		return "nothing that belljar can see forbids it: look for a denial of a security module in dmesg"
	case a.systemd && !a.scopeHelps():
		return "run belljar as root: systemd gives controllers to users only in a tree of version 2"
	case a.systemd:
		return a.mendScope()
	}
	return "run belljar as root, or give this user a cgroup: chown it, its cgroup.procs and its cgroup.subtree_control"
}

// scopeHelps reports whether the user's service manager was asked for a cgroup, or would
// have been asked if it existed.
func (a *around) scopeHelps() bool {
	return (a.scope.Name != "" || a.scope.Err != nil) && a.systemd && !errors.Is(a.scope.Err, scope.ErrContainer)
}

// mendScope returns how to get a scope with all controllers from the user's systemd.
func (a *around) mendScope() string {
	user := strconv.Itoa(os.Geteuid())
	switch {
	case a.scope.Err == nil:
		return "as root: systemctl edit user@.service, with the lines [Service] and Delegate=cpu io memory pids; then log in again"
	case errors.Is(a.scope.Err, scope.ErrService):
		return "write Delegate=yes into the [Service] section of that unit"
	case errors.Is(a.scope.Err, scope.ErrNoManager):
		return "as root: loginctl enable-linger " + user
	}
	return "find out what keeps the user's service manager from it: systemctl --user status, or as root journalctl _SYSTEMD_UNIT=user@" + user + ".service"
}

// mendKill returns how to make the tree of version 2 writable. It can kill commands
// even if version 1 enforces the limits.
func (a *around) mendKill() string {
	if a.root && !a.cgroup2 && !a.inContainer() {
		return "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"
	}
	return a.mendCgroups()
}

// loosen returns the setting that makes the container engine forbid less. The
// option of docker and podman is the same.
func (a *around) loosen(security, pod, otherwise string) string {
	switch a.runtime {
	case "docker", "podman":
		return fmt.Sprintf("%s run --security-opt %s ...", a.runtime, security)
	case "kubernetes":
		return "in the pod's securityContext: " + pod
	}
	return otherwise
}

// checkAround describes the surroundings that may explain the other checks.
func checkAround(a around) []Check {
	c := Check{Name: "surroundings", OK: true, Detail: "Linux " + a.kernel + ", no container"}
	if a.inContainer() {
		c.Detail = "Linux " + a.kernel + ", a container"
		if a.runtime != "" {
			c.Detail += " of " + a.runtime
		}
		c.Detail += ": " + strings.Join(a.signs, ", ")
	}
	if strings.Contains(strings.ToLower(a.kernel), "microsoft") {
		c.Detail += "; Windows Subsystem for Linux"
	}
	if a.chroot {
		c.Detail += "; a chroot"
	}
	if a.filtered {
		c.Detail += "; a system call filter from outside"
	}
	if len(a.covered) > 0 {
		c.Detail += fmt.Sprintf("; /proc is covered in %d places", len(a.covered))
	}
	if a.hiding {
		c.Detail += "; /proc hides other users' processes"
	}
	if level := knob("/sys/fs/selinux/enforce"); level == "1" {
		c.Detail += "; SELinux enforces"
	}
	if label := knob("/proc/self/attr/apparmor/current"); label != "" && label != "unconfined" {
		c.Detail += "; AppArmor profile " + label
	}
	if a.modules != "" {
		c.Detail += "; security modules " + strings.ReplaceAll(a.modules, ",", " ")
	}
	checks := []Check{c}
	if !a.root {
		checks = append(checks, checkNeighbours(knob("/proc/sys/kernel/yama/ptrace_scope")))
	}
	return checks
}

// checkNeighbours reports whether other processes of the same user can look into
// boxes: boxes of an ordinary user run as that user.
func checkNeighbours(yama string) Check {
	c := Check{Name: "own processes", OK: true, Detail: "cannot look into boxes from outside (Yama)"}
	if yama == "" || yama == "0" {
		c.Detail = "any process of this user can look into its boxes from outside"
		c.Degraded = "a program that you run outside can read and change what runs inside, though not the other way round"
		c.Mend = "sysctl -w kernel.yama.ptrace_scope=1"
		if yama == "" {
			c.Mend = "run belljar as a user of its own, or boot a kernel with Yama (CONFIG_SECURITY_YAMA)"
		}
	}
	return c
}

// knob returns the first line of a small file of the kernel, or "" if it cannot be read.
func knob(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4096
	line, err := bufio.NewReader(io.LimitReader(f, most)).ReadString('\n')
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader gives io.EOF itself
		return ""
	}
	return strings.TrimSpace(line)
}
