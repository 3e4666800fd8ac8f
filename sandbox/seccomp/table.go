package seccomp

import (
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// denied are the calls that Docker's profile allows and a box does not get.
// testdata/allowed.txt lists the calls that it gets, and why.
//
// EPERM is for calls that an untrusted program does not need. ENOSYS is for calls
// that programs try first and can do without: they then use an older call.
var denied = map[string]uint32{
	// They read or control other processes, which in a box means its init.
	"ptrace": actEPERM, "process_vm_readv": actEPERM, "process_vm_writev": actEPERM,
	"pidfd_getfd": actEPERM, "kcmp": actEPERM, "process_madvise": actEPERM, "process_mrelease": actEPERM,

	// They reach past the mounts (open_by_handle_at(2), the "shocker" of Docker 0.11), or
	// report about them; libmount and lsns read /proc instead.
	"name_to_handle_at": actEPERM, "listmount": actENOSYS, "statmount": actENOSYS, "listns": actENOSYS,

	// Keyrings belong to a user of the host, not to a namespace (keyrings(7)).
	"keyctl": actEPERM, "add_key": actEPERM, "request_key": actEPERM,

	// They set, or report, what the whole host shares: its clock (adjtimex(2)) and its disk
	// quotas.
	"adjtimex": actEPERM, "clock_adjtime": actEPERM, "quotactl": actEPERM, "quotactl_fd": actEPERM,

	// One io_setup(2) can take all of /proc/sys/fs/aio-max-nr, which the host and all
	// tenants share. Programs that use libaio work without it.
	"io_setup": actENOSYS, "io_submit": actENOSYS, "io_cancel": actENOSYS, "io_destroy": actENOSYS,
	"io_getevents": actENOSYS, "io_pgetevents": actENOSYS,

	// It shows which pages of a file shared by all boxes another box has just read
	// (CVE-2025-21691).
	"cachestat": actENOSYS,

	// Large, young or forgotten parts of the kernel that have let attackers
	// through: io_uring; userfaultfd(2), which makes races winnable; vmsplice
	// (CVE-2008-0600, CVE-2020-29374); modify_ldt for 16-bit programs
	// (CVE-2017-17053); remap_file_pages, emulated since Linux 4.0; secret
	// memory, which breaks up the host's direct map (memfd_secret(2)).
	"io_uring_setup": actENOSYS, "io_uring_enter": actENOSYS, "io_uring_register": actENOSYS,
	"userfaultfd": actEPERM, "vmsplice": actENOSYS, "modify_ldt": actENOSYS, "remap_file_pages": actENOSYS,
	"memfd_secret":  actENOSYS,
	"fanotify_mark": actEPERM, // fanotify_init is not allowed either

	// Their arguments are in memory, where a filter cannot read them. Other calls do the
	// same without that problem: openat, and the ioctls of inode flags. rseq_slice_yield is
	// new too; a box gets the answer of a kernel without it.
	"openat2": actENOSYS, "file_getattr": actENOSYS, "file_setattr": actENOSYS, "rseq_slice_yield": actENOSYS,
}

// calls returns the whole filter as a table: a decision for each call that the architecture
// has. Docker's profile for a program without any capability says what is allowed; denied
// and the rules by argument say what is not.
func calls(a abi, opt Options) map[uint32]call {
	table, numbers := map[uint32]call{}, map[string]uint32{}
	for _, c := range a.calls {
		table[c.number], numbers[c.name] = call{action: actEPERM}, c.number
	}
	set := func(name string, c call) {
		if number, ok := numbers[name]; ok { // an architecture may lack it
			table[number] = c
		}
	}
	for _, rule := range seccomp.DefaultProfile().Syscalls {
		if !unconditional(rule, a.name) {
			continue
		}
		for _, name := range rule.Names {
			set(name, call{action: actAllow})
		}
	}
	for name, action := range denied {
		set(name, call{action: action})
	}
	for name, c := range byArgument(opt) {
		set(name, c)
	}
	// clone3 passes its flags in memory. If the init needs it, namespaces are closed by the
	// box's own limits of zero (user.max_*_namespaces).
	set("clone3", call{action: actENOSYS})
	if opt.Leaves {
		set("clone3", call{action: actAllow})
	}
	if opt.Watched {
		// A watchdog adds up the memory of processes. The memory of a file in memory or of
		// a System V segment belongs to no process.
		for _, name := range []string{"memfd_create", "shmget"} {
			set(name, call{action: actENOSYS})
		}
	}
	if opt.Nests {
		for name, c := range nesting(sockets()) {
			set(name, c)
		}
	}
	if opt.Trace {
		for _, name := range []string{"ptrace", "process_vm_readv", "process_vm_writev"} {
			set(name, call{action: actAllow})
		}
	}
	return table
}

// unconditional reports whether a rule of Docker's profile allows its calls whatever the
// arguments, the kernel and the capabilities are. All other rules are about calls that
// byArgument or denied decide.
func unconditional(r *seccomp.Syscall, arch string) bool {
	if r.Action != specs.ActAllow || len(r.Args) > 0 || r.Excludes != nil {
		return false
	}
	in := r.Includes
	return in == nil || len(in.Caps) == 0 && in.MinKernel == nil && slices.Contains(in.Arches, arch)
}

// Bits of clone(2) that make a namespace.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// byArgument returns the calls that are allowed only for some arguments.
func byArgument(opt Options) map[string]call {
	rules := map[string]call{
		"clone": only(without(0, cloneNamespaces)),
		// Linux, its address-compatible form, and the question (personality(2)).
		"personality": only(values(0, 0, 0x8, 0x20000, 0x20008, 0xffffffff)...),
		"socket":      only(sockets()...),
		"socketpair":  only(values(0, unix.AF_UNIX)...),
		"ioctl":       but(values(1, ioctls...)...),
		"fcntl":       but(values(1, fcntls...)...),
		"prctl":       but(values(0, prctls(opt.Trace)...)...),
		// Only the limits of the caller itself: the kernel lets a command set those of any
		// process of its user, and RLIMIT_CPU kills even the init.
		"prlimit64": only(values(0, 0)...),
		// Only the scheduling of the caller itself: otherwise any process of the user could
		// set that of the init and of other commands, which would starve.
		"sched_setparam":     only(values(0, 0)...),
		"sched_setscheduler": only(values(0, 0)...),
		"sched_setattr":      only(values(0, 0)...),
		"setpriority":        only(ofOneself(unix.PRIO_PROCESS, unix.PRIO_PGRP)...),
		"ioprio_set":         only(ofOneself(ioprioProcess, ioprioGroup)...),
		// The processors are different: a thread library sets them by the number of the
		// thread, which a filter cannot distinguish from other numbers, and a command that
		// is moved among processors still has its share of each. The init is always process
		// 1.
		"sched_setaffinity": but(values(0, 1)...),
		// A filter must not pass its questions to another process, which would answer them
		// after the arguments have changed (seccomp_unotify(2)).
		"seccomp": only(without(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)),
		// The timing of pages that the kernel merges shows what another tenant has in
		// memory (KSM; CVE-2015-2877).
		"madvise": but(values(2, unix.MADV_MERGEABLE)...),
		// TLS in the kernel, without which OpenSSL works if it is refused (CVE-2023-0461
		// and many more in net/tls).
		"setsockopt": but([]test{{arg: 1, is: unix.SOL_TCP}, {arg: 2, is: unix.TCP_ULP}}),
	}
	// Out-of-band data on a unix socket has let a renderer out of Chrome's sandbox
	// (CVE-2025-38236).
	for name, arg := range map[string]int{"sendto": 3, "sendmsg": 2, "sendmmsg": 3} {
		rules[name] = only(without(arg, unix.MSG_OOB))
	}
	// A file in the workspace belongs to the workspace's owner on the host, so
	// it must not get the bits that make a program run as its owner.
	const setID = unix.S_ISUID | unix.S_ISGID
	for name, arg := range map[string]int{"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1} {
		rules[name] = only(without(arg, setID))
	}
	// Without one of these flags the kernel does not read the mode, and callers leave any
	// value there (WILL_CREATE in fs/open.c).
	const creates = unix.O_CREAT | 0x400000 // __O_TMPFILE
	for name, arg := range map[string]int{"open": 2, "openat": 3} {
		rules[name] = only(without(arg, setID), without(arg-1, creates))
	}
	// No devices, not even the device 0,0 that any user may make: an overlay takes it for a
	// whiteout (mknod in fs/namei.c).
	for name, arg := range map[string]int{"mknod": 1, "mknodat": 2} {
		var kinds [][]test
		for _, kind := range []uint32{0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK} {
			kinds = append(kinds, []test{{arg: arg, mask: unix.S_IFMT | setID, is: kind}})
		}
		rules[name] = only(kinds...)
	}
	return rules
}

// sockets returns tests for the sockets that end in the box: unix, IPv4 and IPv6 as far as
// egress carries them, and the netlink of routes. Other sockets autoload protocols that
// have let attackers through (SCTP, DCCP, L2TP), or lead past the box's network (vsock).
// SOCK_PACKET is an IPv4 type by which old programs still mean AF_PACKET (__sock_create in
// net/socket.c).
func sockets() [][]test {
	allowed := [][]test{
		{{arg: 0, is: unix.AF_UNIX}},
		{{arg: 0, is: unix.AF_NETLINK}, {arg: 2, is: unix.NETLINK_ROUTE}},
	}
	const upToRaw = 0xc // none of these bits is in SOCK_STREAM, SOCK_DGRAM and SOCK_RAW; the flags are above
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint32{
			unix.IPPROTO_IP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_MPTCP,
		} {
			allowed = append(allowed, []test{{arg: 0, is: family}, {arg: 1, mask: upToRaw}, {arg: 2, is: protocol}})
		}
	}
	return allowed
}

// ioctls are those that reach beyond the file or the terminal that they are made on.
var ioctls = []uint32{
	// Keystrokes pushed into a terminal outlive the box (CVE-2017-5226), also by way of the
	// selection.
	unix.TIOCSTI, unix.TIOCLINUX,
	// A line discipline is a driver of the program's choice (CVE-2017-2636, CVE-2023-6546).
	// TIOCCONS moves the host's console messages.
	unix.TIOCSETD, unix.TIOCCONS,
	// Keys and policies of a file system stay in the host's file system after the box has
	// ended (fs/crypto/keyring.c).
	unix.FS_IOC_ADD_ENCRYPTION_KEY, unix.FS_IOC_SET_ENCRYPTION_POLICY,
}

// fcntls are those that make the host wait, for up to /proc/sys/fs/lease-break-time, when
// it opens a file of the workspace (fcntl(2), "Leases").
var fcntls = []uint32{unix.F_SETLEASE, unix.F_SETDELEG}

// The targets of ioprio_set(2).
const (
	ioprioProcess = 1
	ioprioGroup   = 2
)

// ofOneself returns tests for the caller itself: each kind of number by which a process is
// named, with the number 0, which is the caller's own.
func ofOneself(kinds ...uint32) [][]test {
	var out [][]test
	for _, kind := range kinds {
		out = append(out, []test{{arg: 0, is: kind}, {arg: 1, is: 0}})
	}
	return out
}

// prctls returns the options that a program may not use: another image under its name
// (PR_SET_MM), and a core that other tenants' programs may not share (PR_SCHED_CORE).
// PR_SET_PTRACER is for debuggers.
func prctls(trace bool) []uint32 {
	options := []uint32{unix.PR_SET_MM, unix.PR_SCHED_CORE}
	if !trace {
		options = append(options, unix.PR_SET_PTRACER)
	}
	return options
}
