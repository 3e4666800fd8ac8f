package escape

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sysStatmount is the number of a call that x/sys lacks (statmount(2)). From 424 on,
// numbers are the same on all architectures.
const sysStatmount = 457

// calls returns the probes for the ways into parts of the kernel that no ordinary program
// needs.
func calls() []Probe {
	return append([]Probe{
		{ID: "S01", Name: "set up io_uring", where: ioUring, try: func(*Facts) (string, error) {
			clear(page[:])
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, pageAt(), 0)
			if errno != 0 {
				return "", fmt.Errorf("io_uring_setup: %w", errno)
			}
			return opensFD(int(fd), nil)
		}},
		{ID: "S02", Name: "use bpf", Root: true, try: reaches("bpf", unix.SYS_BPF, 0, badPointer, 72)},
		{ID: "S03", Name: "count performance events of the kernel", Root: true, try: func(*Facts) (string, error) {
			return opensFD(unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, 0, -1, -1, 0))
		}},
		{ID: "S04", Name: "handle page faults in user space", where: known(unix.SYS_USERFAULTFD, badFlags), try: func(*Facts) (string, error) {
			const userModeOnly = 1 // userfaultfd(2), UFFD_USER_MODE_ONLY
			fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
			if errno != 0 {
				return "", fmt.Errorf("userfaultfd: %w", errno)
			}
			return opensFD(int(fd), nil)
		}},
		{ID: "S05", Name: "add a key", try: reaches("add_key", unix.SYS_ADD_KEY, badPointer, badPointer, badPointer, 1, userKeyring)},
		{ID: "S06", Name: "replace the running kernel", Root: true, where: known(unix.SYS_KEXEC_LOAD, 0, 0, 0, badFlags), try: anyOf(
			reaches("kexec_load", unix.SYS_KEXEC_LOAD, 0, 0, 0, badFlags),
			reaches("kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, badFD, badFD, 0, 0, badFlags),
		)},
		{ID: "S07", Name: "load or remove a kernel module", Root: true, where: known(unix.SYS_FINIT_MODULE, badFD, badPointer, badFlags), try: anyOf(
			reaches("finit_module", unix.SYS_FINIT_MODULE, badFD, badPointer, badFlags),
			reaches("init_module", unix.SYS_INIT_MODULE, badPointer, 16, badPointer),
			reaches("delete_module", unix.SYS_DELETE_MODULE, badPointer, unix.O_NONBLOCK),
		)},
		{ID: "S08", Name: "keep accounts of all processes", Root: true, where: known(unix.SYS_ACCT, badPointer), try: reaches("acct", unix.SYS_ACCT, badPointer)},
		{ID: "S09", Name: "set the clock", try: anyOf(
			reaches("settimeofday", unix.SYS_SETTIMEOFDAY, badPointer, 0),
			reaches("clock_settime", unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, badPointer),
		)},
		{ID: "S10", Name: "take a descriptor of another process", try: toChild(func(pid int) (string, error) {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			defer unix.Close(fd)
			return opensFD(unix.PidfdGetfd(fd, 0, 0))
		})},
		{ID: "S11", Name: "read another process's memory", try: toChild(func(pid int) (string, error) {
			return readsMemory(pid, uint64(pageAt()))
		})},
		{ID: "S12", Name: "manage quotas", where: known(unix.SYS_QUOTACTL, badFlags, 0, 0, 0), try: reaches("quotactl", unix.SYS_QUOTACTL, 0x800003<<8, badPointer, 0, badPointer)},
		{ID: "S13", Name: "name a file past all mounts", try: func(*Facts) (string, error) {
			_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
			if errors.Is(err, unix.EOPNOTSUPP) {
				return "the file system has no handles", nil
			}
			return "name_to_handle_at", err
		}},
		{ID: "S14", Name: "trace another process", try: toChild(func(pid int) (string, error) {
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
			if errno != 0 {
				return "", fmt.Errorf("ptrace: %w", errno)
			}
			return "PTRACE_SEIZE", nil
		})},
		{ID: "S16", Name: "open a socket of a family that leads out or deep into the kernel", try: func(*Facts) (string, error) {
			return anyOf(families()...)(nil)
		}},
		{ID: "S17", Name: "type into a terminal for its user", try: onTerminal(
			func(fd uintptr) act { return reaches("ioctl TIOCSTI", unix.SYS_IOCTL, fd, unix.TIOCSTI, badPointer) },
			// The kernel reads only the lower half of the number (CVE-2019-10063).
			func(fd uintptr) act {
				return reaches("ioctl TIOCSTI with a high bit", unix.SYS_IOCTL, fd, unix.TIOCSTI|1<<32, badPointer)
			},
		)},
		{ID: "S18", Name: "listen to the kernel's netlink", try: func(*Facts) (string, error) {
			protocols := map[string]uintptr{"uevent": unix.NETLINK_KOBJECT_UEVENT, "sock_diag": unix.NETLINK_SOCK_DIAG, "generic": unix.NETLINK_GENERIC, "audit": unix.NETLINK_AUDIT}
			var acts []act
			for name, protocol := range protocols {
				acts = append(acts, reaches("netlink "+name, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol))
			}
			return anyOf(acts...)(nil)
		}},
		{ID: "S19", Name: "open a pair of sockets of such a family", try: func(*Facts) (string, error) {
			var acts []act
			for name, family := range otherFamilies {
				acts = append(acts, reaches(name, unix.SYS_SOCKETPAIR, family, badType, 0, pageAt()))
			}
			return anyOf(acts...)(nil)
		}},
		{ID: "S20", Name: "use the console's own commands on a terminal", try: onTerminal(func(fd uintptr) act {
			// TIOCLINUX pastes into the terminal (bubblewrap issue 142).
			return reaches("ioctl TIOCLINUX", unix.SYS_IOCTL, fd, unix.TIOCLINUX, badPointer)
		})},
		{ID: "S21", Name: "load a line discipline", try: onTerminal(func(fd uintptr) act {
			// Any number loads a module; modules of old protocols had security holes
			// (CVE-2017-2636).
			return reaches("ioctl TIOCSETD", unix.SYS_IOCTL, fd, unix.TIOCSETD, badPointer)
		})},
		{ID: "S22", Name: "switch off the randomness of addresses", try: works("personality", unix.SYS_PERSONALITY, 0x40000)},
		{ID: "S23", Name: "hang up the terminal", Root: true, try: works("vhangup", unix.SYS_VHANGUP)},
		{ID: "S24", Name: "swap on a file, or no more", Root: true, try: anyOf(
			reaches("swapon", unix.SYS_SWAPON, badPointer, 0), reaches("swapoff", unix.SYS_SWAPOFF, badPointer))},
		// Without the magic numbers nothing is restarted (reboot(2)).
		{ID: "S25", Name: "restart the machine", Root: true, try: reaches("reboot", unix.SYS_REBOOT, 1, 2, 3, 0)},
		{ID: "S26", Name: "rename the machine", Root: true, try: anyOf(
			reaches("sethostname", unix.SYS_SETHOSTNAME, badPointer, badFD), reaches("setdomainname", unix.SYS_SETDOMAINNAME, badPointer, badFD))},
		{ID: "S27", Name: "ask for a key", try: reaches("request_key", unix.SYS_REQUEST_KEY, badPointer, badPointer, 0, userKeyring)},
		{ID: "S28", Name: "compare two processes", where: known(unix.SYS_KCMP, 0, 0, badFlags), try: toChild(func(pid int) (string, error) {
			return works("kcmp", unix.SYS_KCMP, uintptr(pid), uintptr(pid), 0, 0, 0)(nil)
		})},
		{ID: "S29", Name: "move another process's memory", where: known(unix.SYS_MOVE_PAGES, 0, 0, 0, 0, 0, badFlags), try: toChild(func(pid int) (string, error) {
			return anyOf(
				works("move_pages", unix.SYS_MOVE_PAGES, uintptr(pid), 0, 0, 0, 0, 0),
				reaches("migrate_pages", unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, badPointer, badPointer),
			)(nil)
		})},
		{ID: "S30", Name: "advise or free another process's memory", try: toChild(func(pid int) (string, error) {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return "", fmt.Errorf("pidfd_open: %w", err)
			}
			defer unix.Close(fd)
			return anyOf(
				reaches("process_madvise", unix.SYS_PROCESS_MADVISE, uintptr(fd), badPointer, 1, unix.MADV_COLD, 0),
				reaches("process_mrelease", unix.SYS_PROCESS_MRELEASE, uintptr(fd), badFlags),
			)(nil)
		})},
		{ID: "S31", Name: "hold a mount by a call that needs no right", try: func(*Facts) (string, error) {
			return opensFD(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLOEXEC))
		}},
		{ID: "S32", Name: "loosen the filter by another one", try: loosens},
		{ID: "S33", Name: "write another process's memory", try: toChild(func(pid int) (string, error) {
			local := []unix.Iovec{{Base: &page[0], Len: 8}}
			_, err := unix.ProcessVMWritev(pid, local, []unix.RemoteIovec{{Base: pageAt(), Len: 8}}, 0)
			return "process_vm_writev", err
		})},
		{ID: "S34", Name: "set up or mount a file system step by step", Root: true, try: anyOf(
			reaches("fsconfig", unix.SYS_FSCONFIG, badFD, 6, 0, 0, 0), reaches("fsmount", unix.SYS_FSMOUNT, badFD, 0, 0))},
		{ID: "S35", Name: "manage quotas by a descriptor", where: known(unix.SYS_QUOTACTL_FD, badFD, badFlags, 0, 0), try: reaches("quotactl_fd", unix.SYS_QUOTACTL_FD, badFD, 0x800003<<8, 0, badPointer)},
		{ID: "S39", Name: "ask for the machine's root mount by its number", where: known(sysStatmount, 0, 0, 0, badFlags), try: func(f *Facts) (string, error) {
			// The size of struct mnt_id_req, STATMOUNT_SB_BASIC, and the offset and size of
			// the buffer for the answer in page.
			const size, sbBasic, answer = 24, 1, 1024
			clear(page[:])
			binary.NativeEndian.PutUint32(page[0:], size)
			binary.NativeEndian.PutUint64(page[8:], f.Mount)
			binary.NativeEndian.PutUint64(page[16:], sbBasic)
			return works("statmount", sysStatmount, pageAt(), pageAt()+answer, answer, 0)(nil)
		}},
	}, ofThisMachine()...)
}

// badType is not a valid type of socket. The kernel refuses it after it has
// looked at the family, and before it loads a module for the family
// (__sock_create in net/socket.c).
const badType = 99

// otherFamilies are the socket families that a box does not need.
var otherFamilies = map[string]uintptr{
	"AF_VSOCK": unix.AF_VSOCK, "AF_PACKET": unix.AF_PACKET, "AF_ALG": unix.AF_ALG, "AF_KEY": unix.AF_KEY, "AF_XDP": unix.AF_XDP,
	"AF_BLUETOOTH": unix.AF_BLUETOOTH, "AF_CAN": unix.AF_CAN, "AF_TIPC": unix.AF_TIPC, "AF_RDS": unix.AF_RDS, "AF_KCM": unix.AF_KCM,
	"AF_NFC": unix.AF_NFC, "AF_QIPCRTR": unix.AF_QIPCRTR, "AF_SMC": unix.AF_SMC, "AF_RXRPC": unix.AF_RXRPC, "AF_AX25": unix.AF_AX25,
	"AF_APPLETALK": unix.AF_APPLETALK, "AF_PPPOX": unix.AF_PPPOX, "AF_PHONET": unix.AF_PHONET, "AF_IB": unix.AF_IB,
}

func families() []act {
	var acts []act
	for name, family := range otherFamilies {
		acts = append(acts, reaches(name, unix.SYS_SOCKET, family, badType, 0))
	}
	return acts
}

// onTerminal is an act that makes calls on a terminal of the prober.
func onTerminal(do ...func(fd uintptr) act) act {
	return func(*Facts) (string, error) {
		master, name, err := newTerminal()
		if err != nil {
			return "", err
		}
		defer unix.Close(master)
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("open %s: %w", name, err)
		}
		defer unix.Close(fd)
		// The kernel allows more calls on a process's controlling terminal (ioctl_tty(2)).
		_, _ = unix.Setsid()
		_ = unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0)
		var acts []act
		for _, d := range do {
			acts = append(acts, d(uintptr(fd)))
		}
		return anyOf(acts...)(nil)
	}
}

// readsMemory reads eight bytes of another process.
func readsMemory(pid int, at uint64) (string, error) {
	var got [8]byte
	local := []unix.Iovec{{Base: &got[0], Len: 8}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: 8}}, 0)
	if err != nil {
		return "", fmt.Errorf("process_vm_readv: %w", err)
	}
	return "process_vm_readv", nil
}

// loosens adds two filters to that of the box: one that allows everything, and one with a
// listener of its own. Then it tries a call that the box's filter refuses. The strictest
// answer of all filters must win (seccomp(2)).
func loosens(*Facts) (string, error) {
	// A process may add filters only after it can gain no privileges.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return "", err
	}
	filter := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: 1, Filter: &filter[0]}
	for _, flags := range []uintptr{0, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER} {
		_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
		runtime.KeepAlive(&program)
		if errno != 0 {
			return "", fmt.Errorf("seccomp: %w", errno)
		}
	}
	return works("keyctl behind it", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, userKeyring, 1)(nil)
}

// ioUring reports whether the machine lets the user of the suite use io_uring
// (io_uring_disabled, in the kernel's sysctl/kernel.rst).
func ioUring(g *ground) bool {
	text, err := readSome("/proc/sys/kernel/io_uring_disabled", 8)
	return err != nil || text == "0\n" || g.root && text == "1\n"
}
