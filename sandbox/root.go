package sandbox

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
)

// The box's storage is one file system, so that one size limits all of it. Its
// directories are bound to their places in the box. It stays mounted at
// storageRoot: a temporary mount point would have to be unmounted, for which the
// kernel waits for all CPUs.
const storageRoot = "/run"

var storageDirs = []struct {
	name, target string
	mode         int
}{
	{"tmp", "/tmp", 0o1777},
	{"home", boxHome, 0o755},
	{"shm", "/dev/shm", 0o1777},
	{"user", boxRun, 0o755}, // is in its place already
}

// masked are files and directories of /proc that show the host, or let a process
// change it. The list begins with the OCI default (moby/moby oci/defaults.go), which is
// made for containers that have a root user. readOnly are those that programs must be able
// to read.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats",
		"/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/vmallocinfo",
		"/proc/slabinfo", "/proc/config.gz", "/proc/key-users", "/proc/swaps", "/proc/modules",
		// Counters of the whole machine, with which one tenant can time another.
		"/proc/softirqs", "/proc/schedstat", "/proc/diskstats", "/proc/pressure",
	}
	// Only root of the host can write to the other read-only paths of the OCI default.
	readOnly = []string{"/proc/sys"}
)

// script returns the calls by which an init builds the box of p and locks itself and all that
// it will start. If each command has a pid namespace, process 1 of each locks itself instead,
// by the calls of nest. The descriptors of p.passed must be sent with the script, in that
// order.
//
// The order matters:
//
//  1. the host's trees are cloned before anything covers them, and nothing
//     that is mounted from then on reaches the host;
//  2. the root is mounted: a clone of a template, an overlay on an image, or an empty
//     tmpfs that is then filled;
//  3. the host's root is unmounted, so no path leads to it any more;
//  4. the kernel's knobs are set while they can be written, then made read-only;
//  5. execs are watched, if the profile asks for it: from here on the init marks
//     its own;
//  6. the init, or process 1 of each command, drops every right that commands do not
//     need; the filter comes last.
func (p *plan) script() *boxinit.Script {
	b := &builder{Script: boxinit.NewScript(len(p.passed())), made: map[string]bool{"/": true}}
	if p.template >= 0 {
		b.made = p.made
	}
	p.begin(b)
	p.sockets(b)
	p.trees(b)
	p.pin(b)
	p.storage(b)
	p.small(b)
	p.special(b)
	p.trust(b)
	p.knobs(b)
	if !p.nested {
		p.mask(b)
	}
	p.bound(b)
	b.Step("close the root")
	// The root cannot become read-only while a file in it is open for writing.
	b.closeFiles(scoreFile)
	b.attr("/", 0, mountAttr{set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	p.watch(b)
	if p.nested {
		b.Nested = p.nest()
		return b.Script
	}
	p.lock(b)
	return b.Script
}

// nest returns the calls that process 1 of a command's own namespaces makes before the
// command. The box's init itself stays without these locks, because no command can see it.
func (p *plan) nest() *boxinit.Script {
	b := &builder{Script: boxinit.NewScript(0)}
	b.Step("mount the command's /proc")
	// The new /proc covers that of the box: the kernel mounts a new /proc only for a
	// process that already sees an unmasked one (fs/namespace.c, mount_too_revealing).
	p.proc(b, "/proc")
	p.mask(b)
	p.lock(b)
	return b.Script
}

// proc mounts a /proc in which a command finds only the processes that it may look into.
// The processes of other commands are hidden, because any process of the same user could
// read their arguments and write their oom_score_adj. A browser runs alone in its box, and
// reads the state of renderers that it may not look into.
func (p *plan) proc(b *builder, name string) {
	options := any("hidepid=ptraceable") // since Linux 5.8 (kernel: filesystems/proc.rst)
	if p.nests > 0 {
		options = 0
	}
	b.Call(unix.SYS_MOUNT, "proc", name, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
}

func (p *plan) begin(b *builder) {
	b.Step("begin")
	b.Call(unix.SYS_PRCTL, unix.PR_SET_NAME, boxinit.InitName)
	// The user was mapped after the init began, so the init must still change to
	// it. A change of user clears the death signal and the rights to its own /proc.
	if p.root {
		b.Call(unix.SYS_SETGROUPS, 0, 0)
	}
	b.Call(unix.SYS_SETRESGID, boxGID, boxGID, boxGID)
	b.Call(unix.SYS_SETRESUID, boxUID, boxUID, boxUID)
	b.Call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
	b.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1)
	b.Call(unix.SYS_UMASK, 0)
	// The init needs a session keyring of its own, because it would keep the supervisor's
	// otherwise. If the kernel refuses it, the filter still keeps every command from keys.
	b.Call(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0).IgnoreAll(0)
}

// trees clones the host's trees, mounts the new root over base and attaches them there.
func (p *plan) trees(b *builder) {
	b.Step("clone the host's trees")
	slots := make([]boxinit.Slot, len(p.mounts))
	passed := 0
	clone := func(writable bool) {
		for i, m := range p.mounts {
			if m.file >= 0 || writable != (m.writable || m.devices) {
				continue
			}
			b.Step("clone " + m.source)
			slots[i] = b.Call(unix.SYS_OPEN_TREE, atFDCWD, m.source, unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_RECURSIVE).Save()
			if m.writable || m.devices {
				a := mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE}
				if m.devices {
					a.set = unix.MOUNT_ATTR_NOSUID
				}
				b.attr(slots[i], unix.AT_RECURSIVE, a)
			}
		}
	}
	for i, m := range p.mounts {
		if m.file >= 0 {
			slots[i] = boxinit.Slot(passed)
			passed++
		}
	}
	clone(true)
	// This sets all mounts of the namespace at once, so that later clones need no
	// further call.
	b.Step("close the host's mounts")
	b.attr("/", unix.AT_RECURSIVE, mountAttr{
		set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE,
	})
	clone(false)
	var overlay boxinit.Slot
	if p.overlaid() {
		overlay = p.overlay(b, slots)
	}
	for i, m := range p.mounts {
		if m.scratch {
			slots[i] = b.scratch(m, slots[i], p.limits)
		}
	}
	b.Step("mount the root")
	if p.template >= 0 {
		b.Call(unix.SYS_MOVE_MOUNT, b.clone(boxinit.Slot(passed)), "", atFDCWD, base, unix.MOVE_MOUNT_F_EMPTY_PATH)
	} else {
		b.bounds = b.Bytes(make([]byte, boundsSize))
		b.Call(unix.SYS_MOUNT, "belljar", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, b.bounds)
	}
	b.Call(unix.SYS_CHDIR, base) // from here on the new root is "."
	for i, m := range p.mounts {
		if m.root {
			p.lay(b, slots[i])
		}
	}
	if p.overlaid() {
		attachOverlay(b, overlay)
	}
	for i, m := range p.mounts {
		if m.root || m.layer {
			continue
		}
		b.Step("attach " + m.target)
		b.target(m.target, m.dir)
		b.Call(unix.SYS_MOVE_MOUNT, slots[i], "", atFDCWD, in(m.target), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
}

// Descriptors that an init keeps in addition to its connection.
const (
	scoreFile  = 4
	domainFile = 5
)

// pin binds protected paths of the workspace over themselves, because a mount
// point can be neither moved nor replaced. It follows no link: if a path was
// replaced by a link since it was looked at, that is an error.
func (p *plan) pin(b *builder) {
	if len(p.pins) == 0 {
		return
	}
	b.Step("protect the workspace")
	root := b.Call(unix.SYS_OPENAT, atFDCWD, in(WorkspaceDir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC).Save()
	how := b.Words(unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS) // struct open_how
	for _, pin := range p.pins {
		b.Step("protect " + pin.Path)
		at := b.Call(unix.SYS_OPENAT2, root, pin.Path, how, unix.SizeofOpenHow).Save()
		tree := b.Call(unix.SYS_OPEN_TREE, at, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).Save()
		if !pin.Writable {
			b.attr(tree, unix.AT_RECURSIVE, mountAttr{set: unix.MOUNT_ATTR_RDONLY})
		}
		b.Call(unix.SYS_MOVE_MOUNT, tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
}

// together reports whether the box's storage is in the file system of its root. It is, where
// it can be: a further file system has a price (see emptyDir). It cannot be there with an
// image, whose root is a read-only overlay; with a template, which nobody can write to; with
// the certificates of trust, whose size is not known; or if the storage exists already, on
// disk or from an earlier init.
func (p *plan) together() bool {
	return p.area < 0 && p.template < 0 && len(p.authority) == 0 && !imaged(p.mounts)
}

// boundsSize is room for the text that bound writes, in bytes.
const boundsSize = 96

// bound limits the file system of the root. If the storage is in it, the limits
// are those of the storage plus what was made so far: each small file takes whole
// pages, and each name an inode.
func (p *plan) bound(b *builder) {
	if p.template >= 0 {
		return
	}
	size, files := int64(1<<20), int64(512)
	switch {
	case len(p.authority) > 0:
		size += bundleMost
	case p.together():
		page := int64(os.Getpagesize())
		size, files = p.limits.Tmp, p.limits.TmpFiles+int64(len(b.made))
		for _, text := range p.files {
			size += (int64(len(text)) + page - 1) / page * page
		}
	}
	b.Rewrite(b.bounds, fmt.Sprintf("mode=755,size=%d,nr_inodes=%d", size, files))
}

func (p *plan) storage(b *builder) {
	b.Step("mount the storage")
	b.dir(storageRoot)
	attach := func(tree boxinit.Slot, target string) {
		b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, in(target), unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	switch {
	case p.together():
		// It gets a mount of its own, which stays writable when the root is closed.
		b.Call(unix.SYS_MOUNT, in(storageRoot), in(storageRoot), 0, unix.MS_BIND, 0)
	case p.area >= 0:
		area := boxinit.Slot(len(p.passed()) - 1)
		if p.kept {
			area = b.clone(area)
		}
		attach(area, storageRoot)
		b.attr(in(storageRoot), 0, mountAttr{set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, propagation: unix.MS_PRIVATE})
	default:
		_, area := b.tmpfs([2]string{"mode", "755"}, [2]string{"size", strconv.FormatInt(p.limits.Tmp, 10)}, [2]string{"nr_inodes", strconv.FormatInt(p.limits.TmpFiles, 10)})
		attach(p.keep(b, area), storageRoot)
	}
	for _, s := range storageDirs {
		dir := storageRoot + "/" + s.name
		b.Call(unix.SYS_MKDIRAT, atFDCWD, in(dir), s.mode).Ignore(unix.EEXIST, 0)
		if s.target == dir {
			continue
		}
		b.dir(s.target)
		// Not by mount(2), which follows a link: a command may have made a link in a kept
		// storage. (park also compares the places of these directories.)
		const flags = unix.OPEN_TREE_CLONE | unix.O_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW
		attach(b.Call(unix.SYS_OPEN_TREE, atFDCWD, in(dir), flags).Save(), s.target)
	}
	p.downloadArea(b)
	p.handOverKept(b)
}

// downloadArea mounts the file system for the downloads of a browser.
func (f forBrowser) downloadArea(b *builder) {
	if f.downloads <= 0 {
		return
	}
	dir := policies.BrowserDownloads
	// The directory does not exist: no storage with downloads is kept (kept.again). If it
	// could, a command may have put a link in its place.
	b.Call(unix.SYS_MKDIRAT, atFDCWD, in(dir), 0o755)
	size := f.downloads + downloadFiles*int64(os.Getpagesize()) // each file takes whole pages
	_, area := b.tmpfs([2]string{"mode", "1777"}, [2]string{"size", strconv.FormatInt(size, 10)}, [2]string{"nr_inodes", strconv.Itoa(downloadFiles)})
	b.attr(area, 0, mountAttr{set: unix.MOUNT_ATTR_NOEXEC, propagation: unix.MS_PRIVATE})
	b.Call(unix.SYS_MOVE_MOUNT, area, "", atFDCWD, in(dir), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// downloadFiles is the number of inodes of the file system for downloads: for a few files
// that wait, those that Chrome or the browser's owner is still removing, and the root.
const downloadFiles = 64

// small makes the box's own small files and links.
func (p *plan) small(b *builder) {
	b.Step("write files")
	b.dir(emptyDir)
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		b.dir(path.Dir(name))
		b.file(name, p.files[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.links)) {
		if b.made[name] {
			continue
		}
		b.dir(path.Dir(name))
		b.made[name] = true
		b.Call(unix.SYS_SYMLINKAT, p.links[name], atFDCWD, in(name))
	}
}

// special mounts the kernel's file systems and moves into the new root. Both
// roots are stacked on the same directory, so the old one needs no directory of its
// own (pivot_root(2), `pivot_root(".", ".")`).
func (p *plan) special(b *builder) {
	b.Step("mount /dev/pts")
	b.dir("/dev/pts")
	b.Call(unix.SYS_MOUNT, "devpts", "./dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	b.Step("mount /proc")
	b.dir("/proc")
	p.proc(b, "./proc")
	// The file is opened before the process becomes undumpable: after that its own files in
	// /proc belong to root.
	score := b.Call(unix.SYS_OPENAT, atFDCWD, "./proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC).IgnoreAll(1).Save()
	b.Score(b.Call(unix.SYS_DUP3, score, scoreFile, unix.O_CLOEXEC).Save())
	b.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	b.Step("pivot_root")
	b.Call(unix.SYS_PIVOT_ROOT, ".", ".")
	b.Call(unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	b.Call(unix.SYS_CHDIR, "/")
}

// knobs sets the host name, brings up the loopback interface, and sets the kernel settings
// of the box's namespaces.
func (p *plan) knobs(b *builder) {
	b.Step("set the host name")
	b.Call(unix.SYS_SETHOSTNAME, hostName, len(hostName))
	b.Step("bring up the loopback interface")
	s := b.Call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).Save()
	request := make([]byte, 40) // struct ifreq, netdevice(7)
	copy(request, "lo")
	request[unix.IFNAMSIZ] = unix.IFF_UP | unix.IFF_RUNNING
	b.Call(unix.SYS_IOCTL, s, unix.SIOCSIFFLAGS, b.Bytes(request))
	// Apart from those of nestKnobs, no namespace can be made by a command, whatever a system
	// call filter may miss (namespaces(7)): clone3 passes its flags where no filter can read
	// them.
	b.Step("close the namespaces")
	knobs := []string{"ipc", "uts", "cgroup", "time"}
	if p.nests == 0 {
		knobs = append(knobs, "user", "net")
	}
	if !p.nested { // otherwise the init makes such namespaces, with a capability that no command has
		knobs = append(knobs, "mnt")
		if p.nests == 0 {
			knobs = append(knobs, "pid")
		}
	}
	for _, k := range knobs {
		b.knob("/proc/sys/user/max_"+k+"_namespaces", "0", unix.ENOENT)
	}
	p.nestKnobs(b)
	// A box's watches also count against the limits of the user who started belljar
	// (inotify(7)), so one box gets only a part of them: see readHost.
	b.knob("/proc/sys/user/max_inotify_instances", "32", unix.ENOENT)
	b.knob("/proc/sys/user/max_inotify_watches", strconv.Itoa(p.watches), unix.ENOENT)
	// Ports below 1024 are the box's own; nobody else can reach them. Kernels
	// without the knob just keep them closed.
	b.knob("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", boxinit.AnyError)
	if p.network != policies.NetworkNone {
		// All connections to one name have the same two addresses, so their ports must soon
		// be free again.
		b.knob("/proc/sys/net/ipv4/tcp_tw_reuse", "1", boxinit.AnyError)
		b.knob("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", "1", boxinit.AnyError)
	}
}

// emptyDir is an empty directory of the box, which is mounted over directories that must
// look empty. With a thousand boxes, a file system for each of these would cost about ten
// pages in every memory cgroup of the host: in each cgroup the kernel counts the caches of
// every file system (alloc_shrinker_info).
const emptyDir = "/dev/empty"

// closed are the attributes of a mount from which data is only read.
var closed = mountAttr{set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}

func (p *plan) mask(b *builder) {
	b.Step("mask /proc")
	for _, name := range masked {
		dir, known := p.masked[name]
		switch {
		case !known:
		case dir:
			b.Call(unix.SYS_MOUNT, emptyDir, name, 0, unix.MS_BIND, 0).Ignore(unix.ENOENT, 1)
			b.attr(name, 0, closed)
		default:
			b.Call(unix.SYS_MOUNT, "/dev/null", name, 0, unix.MS_BIND, 0).Ignore(unix.ENOENT, 0)
		}
	}
	for _, name := range readOnly {
		b.Call(unix.SYS_MOUNT, name, name, 0, unix.MS_BIND|unix.MS_REC, 0).Ignore(unix.ENOENT, 1)
		b.attr(name, 0, closed)
	}
}

// rlimits are the resource limits that a policy gives to everything that runs in a box. A limit
// whose value is zero is not set.
var rlimits = []struct {
	what  int
	value func(p *plan) uint64
}{
	{unix.RLIMIT_NOFILE, func(p *plan) uint64 { return uint64(p.limits.OpenFiles) }},
	{unix.RLIMIT_FSIZE, func(p *plan) uint64 { return uint64(p.limits.FileSize) }},
	{unix.RLIMIT_NPROC, func(p *plan) uint64 { return p.procs }},
}

// lock gives up, for a process and for all that it will start, everything that is not needed
// to run commands. Without pid namespaces of commands it happens once, in the init: commands
// inherit it and cost no more than an exec.
func (p *plan) lock(b *builder) {
	b.Step("set resource limits")
	b.Call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, b.Words(0, 0), 0)
	for _, l := range rlimits {
		value := l.value(p)
		if value == 0 {
			continue
		}
		// Nobody without rights on the host can raise a hard limit (prlimit(2)), so the
		// limits with which the supervisor was started bound its boxes as well.
		if most, known := p.hard[l.what]; known {
			value = min(value, most)
		}
		b.Call(unix.SYS_PRLIMIT64, 0, l.what, b.Words(value, value), 0)
	}
	b.Step("drop capabilities")
	for c := 0; c <= p.capLast; c++ {
		b.Call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
	}
	b.Call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	b.Call(unix.SYS_CAPSET, b.Words(unix.LINUX_CAPABILITY_VERSION_3), b.Words(0, 0, 0))
	b.Call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	b.Call(unix.SYS_UMASK, 0o022)
	p.landlock.add(b, p)
	if !p.nested { // otherwise each command has a namespace of its own, and this process has the descriptors of its command
		p.landlock.part(b)
		b.closeFiles(domainFile)
	}
	b.Step("install the system call filter")
	b.Call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, b.program(p.filter))
}

func readHost() hostFacts {
	h := hostFacts{root: os.Geteuid() == 0, landlock: probeLandlock(), capLast: unix.CAP_LAST_CAP, masked: map[string]bool{}, watches: 8192, hard: map[int]uint64{}}
	for _, l := range rlimits {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.what, &own); err == nil {
			h.hard[l.what] = own.Max
		}
	}
	if n, err := strconv.Atoi(knob("/proc/sys/kernel/cap_last_cap")); err == nil {
		h.capLast = n
	}
	if n, err := strconv.Atoi(knob("/proc/sys/user/max_inotify_watches")); err == nil {
		// About half of the user's limit. On a host with the kernel's smallest default, 8192,
		// one box may use all of them.
		h.watches = max(h.watches, n/2)
	}
	for _, name := range masked {
		// A file that only its owner can open needs no mask: it belongs to root of
		// the host, which no process in a box is.
		if info, err := os.Lstat(name); err == nil && info.Mode()&0o066 != 0 {
			h.masked[name] = info.IsDir()
		}
	}
	return h
}

// lay makes the root of a box with an image: an overlay of the box's own directories and
// files over the tree of the image, which stays read-only. The box's own files are made
// first, in a directory of their own, so that no link of the image can lead them elsewhere.
// If both have the same name, the overlay shows the box's file.
func (p *plan) lay(b *builder, tree any) {
	b.Step("lay the box's root over its image")
	const own, image, root = "own", "image", "root"
	for _, dir := range []string{own, image, root} {
		b.Call(unix.SYS_MKDIRAT, atFDCWD, dir, 0o755)
	}
	b.Call(unix.SYS_MOVE_MOUNT, tree, "", atFDCWD, image, unix.MOVE_MOUNT_F_EMPTY_PATH)
	b.Call(unix.SYS_CHDIR, own)
	for _, m := range p.mounts {
		if !m.root {
			b.target(m.target, m.dir)
		}
	}
	if p.overlaid() {
		b.dir(WorkspaceDir)
	}
	p.places(b)
	b.Call(unix.SYS_CHDIR, "..")
	// Neither layer has extended attributes that control an overlay. With userxattr, the
	// overlay reads only attributes that a user may write anyway (kernel:
	// filesystems/overlayfs.rst).
	b.Call(unix.SYS_MOUNT, "belljar", root, "overlay", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+own+":"+image+",userxattr")
	b.Call(unix.SYS_CHDIR, root)
}

// places makes the directories and files of the box's root other than the mount points
// of p.mounts.
func (p *plan) places(b *builder) {
	b.dir(storageRoot)
	for _, s := range storageDirs {
		if s.target != storageRoot+"/"+s.name {
			b.dir(s.target)
		}
	}
	b.dir("/dev/pts")
	b.dir("/proc")
	if len(p.authority) > 0 {
		b.dir(bundleDir)
	}
	p.small(b)
}
