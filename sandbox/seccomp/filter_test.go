package seccomp

import (
	"encoding/binary"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// machine is x/net's interpreter with a program in it. It shares no code with the writer of
// the program.
type machine struct{ vm *bpf.VM }

func newMachine(t *testing.T, program []bpf.Instruction) machine {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

// says returns the action for one call.
func (m machine) says(t *testing.T, audit, number uint32, args ...uint64) uint32 {
	t.Helper()
	// struct seccomp_data of a little-endian machine, each word in the byte
	// order that the interpreter reads.
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, audit)
	data = binary.BigEndian.AppendUint64(data, 0)
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := m.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

// disassemble reads a struct sock_filter array.
func disassemble(t *testing.T, code []byte) []bpf.Instruction {
	t.Helper()
	var raw []bpf.RawInstruction
	for c := code; len(c) >= 8; c = c[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(c), Jt: c[2], Jf: c[3], K: binary.NativeEndian.Uint32(c[4:]),
		})
	}
	program, ok := bpf.Disassemble(raw)
	if !ok || len(code)%8 != 0 {
		t.Fatalf("%d bytes hold instructions that nobody knows", len(code))
	}
	return program
}

// numbersOf returns an architecture's calls by name.
func numbersOf(a abi) map[string]uint32 {
	numbers := map[string]uint32{}
	for _, c := range a.calls {
		numbers[c.name] = c.number
	}
	return numbers
}

var (
	withLeaves = Options{Leaves: true}
	withWatch  = Options{Watched: true}
	withTrace  = Options{Leaves: true, Trace: true}
	withNests  = Options{Leaves: true, Nests: true}
)

func TestFilter(t *testing.T) {
	const allow, eperm, enosys = actAllow, actEPERM, actENOSYS
	const high = 1 << 32 // a bit that the kernel ignores
	tests := []struct {
		name string
		opt  Options
		call string
		args []uint64
		want uint32
	}{
		{"read", withLeaves, "read", nil, allow},
		{"execve", withLeaves, "execve", nil, allow},
		{"mount", withLeaves, "mount", nil, eperm},
		{"fsopen", withLeaves, "fsopen", nil, eperm},
		{"bpf", withLeaves, "bpf", nil, eperm},
		{"openat2", withLeaves, "openat2", nil, enosys},
		{"io_uring_setup", withLeaves, "io_uring_setup", nil, enosys},
		{"io_setup", withLeaves, "io_setup", nil, enosys},
		{"ptrace", withLeaves, "ptrace", nil, eperm},
		{"ptrace, tracing", withTrace, "ptrace", nil, allow},
		{"process_vm_readv, tracing", withTrace, "process_vm_readv", nil, allow},
		{"PR_SET_PTRACER", withLeaves, "prctl", []uint64{unix.PR_SET_PTRACER}, eperm},
		{"PR_SET_PTRACER, tracing", withTrace, "prctl", []uint64{unix.PR_SET_PTRACER}, allow},
		{"PR_SET_MM", withTrace, "prctl", []uint64{unix.PR_SET_MM}, eperm},
		{"PR_SCHED_CORE", withLeaves, "prctl", []uint64{unix.PR_SCHED_CORE}, eperm},
		{"PR_SET_PDEATHSIG", withLeaves, "prctl", []uint64{unix.PR_SET_PDEATHSIG}, allow},
		{"fork by clone", withLeaves, "clone", []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread by clone", withLeaves, "clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"user namespace by clone", withLeaves, "clone", []uint64{unix.CLONE_NEWUSER}, eperm},
		{"user namespace by clone with a high bit", withLeaves, "clone", []uint64{high | unix.CLONE_NEWUSER}, eperm},
		{"pid namespace by clone", withLeaves, "clone", []uint64{unix.CLONE_NEWPID}, eperm},
		{"memory of no process", withLeaves, "memfd_create", nil, allow},
		{"memory of no process, watched", withWatch, "memfd_create", nil, enosys},
		{"clone3", withLeaves, "clone3", nil, allow},
		{"clone3 without leaves", withWatch, "clone3", nil, enosys},
		{"unix socket", withLeaves, "socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"IPv6 socket", withLeaves, "socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"multipath TCP, Go's default", withLeaves, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, allow},
		{"ping", withLeaves, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
		{"SCTP", withLeaves, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, eperm},
		{"DCCP", withLeaves, "socket", []uint64{unix.AF_INET6, unix.SOCK_DCCP}, eperm},
		{"UDP-Lite", withLeaves, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, eperm},
		{"packets by IPv4", withLeaves, "socket", []uint64{unix.AF_INET, unix.SOCK_PACKET}, eperm},
		{"route netlink", withLeaves, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"audit netlink", withLeaves, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, eperm},
		{"vsock", withLeaves, "socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eperm},
		{"packet", withLeaves, "socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, eperm},
		{"alg", withLeaves, "socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, eperm},
		{"key", withLeaves, "socket", []uint64{unix.AF_KEY, unix.SOCK_RAW}, eperm},
		{"XDP", withLeaves, "socket", []uint64{unix.AF_XDP, unix.SOCK_RAW}, eperm},
		{"pair of TIPC", withLeaves, "socketpair", []uint64{unix.AF_TIPC, unix.SOCK_STREAM}, eperm},
		{"out of band", withLeaves, "sendto", []uint64{3, 0, 1, unix.MSG_OOB | unix.MSG_DONTWAIT}, eperm},
		{"in band", withLeaves, "sendto", []uint64{3, 0, 1, unix.MSG_NOSIGNAL}, allow},
		{"TLS in the kernel", withLeaves, "setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, eperm},
		{"TCP_NODELAY", withLeaves, "setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, allow},
		{"an option of the same number", withLeaves, "setsockopt", []uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}, allow},
		{"TIOCSTI", withLeaves, "ioctl", []uint64{0, unix.TIOCSTI}, eperm},
		{"TIOCSTI with a high bit", withLeaves, "ioctl", []uint64{0, high | unix.TIOCSTI}, eperm},
		{"TIOCLINUX", withLeaves, "ioctl", []uint64{0, unix.TIOCLINUX}, eperm},
		{"TIOCSETD", withLeaves, "ioctl", []uint64{0, unix.TIOCSETD}, eperm},
		{"TIOCSCTTY", withLeaves, "ioctl", []uint64{0, unix.TIOCSCTTY}, allow},
		{"TCGETS", withLeaves, "ioctl", []uint64{0, unix.TCGETS}, allow},
		{"a lease", withLeaves, "fcntl", []uint64{0, unix.F_SETLEASE}, eperm},
		{"a lock", withLeaves, "fcntl", []uint64{0, unix.F_SETLK}, allow},
		{"own limits", withLeaves, "prlimit64", []uint64{0, unix.RLIMIT_CPU}, allow},
		{"the init's limits", withLeaves, "prlimit64", []uint64{1, unix.RLIMIT_CPU}, eperm},
		{"one's own niceness", withLeaves, "setpriority", []uint64{unix.PRIO_PROCESS, 0, 19}, allow},
		{"one's own group's", withLeaves, "setpriority", []uint64{unix.PRIO_PGRP, 0, 19}, allow},
		{"the init's", withLeaves, "setpriority", []uint64{unix.PRIO_PROCESS, 1, 19}, eperm},
		{"the init's by a high bit", withLeaves, "setpriority", []uint64{unix.PRIO_PROCESS, high | 1, 19}, eperm},
		{"another command's", withLeaves, "setpriority", []uint64{unix.PRIO_PROCESS, 77, 19}, eperm},
		{"another group's", withLeaves, "setpriority", []uint64{unix.PRIO_PGRP, 77, 19}, eperm},
		{"that of all of the user's", withLeaves, "setpriority", []uint64{unix.PRIO_USER, 0, 19}, eperm},
		{"one's own policy", withLeaves, "sched_setscheduler", []uint64{0, unix.SCHED_BATCH}, allow},
		{"the init's policy", withLeaves, "sched_setscheduler", []uint64{1, unix.SCHED_IDLE}, eperm},
		{"another command's policy", withLeaves, "sched_setattr", []uint64{77}, eperm},
		{"another command's parameters", withLeaves, "sched_setparam", []uint64{77}, eperm},
		{"the init's processors", withLeaves, "sched_setaffinity", []uint64{1, 8}, eperm},
		{"a thread's processors", withLeaves, "sched_setaffinity", []uint64{77, 8}, allow},
		{"one's own disk priority", withLeaves, "ioprio_set", []uint64{ioprioProcess, 0, 0}, allow},
		{"the init's disk priority", withLeaves, "ioprio_set", []uint64{ioprioProcess, 1, 0}, eperm},
		{"that of all of the user's disk", withLeaves, "ioprio_set", []uint64{3, 0, 0}, eperm},
		{"a filter of one's own", withLeaves, "seccomp", []uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC}, allow},
		{"a filter with a listener", withLeaves, "seccomp", []uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}, eperm},
		{"MADV_MERGEABLE", withLeaves, "madvise", []uint64{0, 4096, unix.MADV_MERGEABLE}, eperm},
		{"MADV_DONTNEED", withLeaves, "madvise", []uint64{0, 4096, unix.MADV_DONTNEED}, allow},
		{"chmod 755", withLeaves, "fchmodat", []uint64{0, 0, 0o755}, allow},
		{"chmod 4755", withLeaves, "fchmodat", []uint64{0, 0, 0o4755}, eperm},
		{"chmod 2755", withLeaves, "fchmod", []uint64{0, 0o2755}, eperm},
		{"chmod 1777", withLeaves, "fchmod", []uint64{0, 0o1777}, allow},
		{"create with set-uid", withLeaves, "openat", []uint64{0, 0, unix.O_CREAT, 0o4755}, eperm},
		{"create without a name with set-uid", withLeaves, "openat", []uint64{0, 0, unix.O_TMPFILE, 0o4755}, eperm},
		{"create", withLeaves, "openat", []uint64{0, 0, unix.O_CREAT | unix.O_EXCL, 0o644}, allow},
		{"open, with what happens to stand for a mode", withLeaves, "openat", []uint64{0, 0, unix.O_RDONLY, 0xffffffff}, allow},
		{"a pipe with a name", withLeaves, "mknodat", []uint64{0, 0, unix.S_IFIFO | 0o644}, allow},
		{"a block device", withLeaves, "mknodat", []uint64{0, 0, unix.S_IFBLK | 0o644}, eperm},
		{"a whiteout", withLeaves, "mknodat", []uint64{0, 0, unix.S_IFCHR}, eperm},
		{"a set-uid file", withLeaves, "mknodat", []uint64{0, 0, unix.S_IFREG | 0o4755}, eperm},
		{"unshare", withLeaves, "unshare", []uint64{unix.CLONE_NEWUSER}, eperm},
		{"chroot", withLeaves, "chroot", nil, eperm},
		{"route netlink, nesting", withNests, "socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, eperm},
		{"raw socket, nesting", withNests, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, eperm},
		{"stream socket, nesting", withNests, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allow},
		{"SCTP, nesting", withNests, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, eperm},
		{"unix socket, nesting", withNests, "socket", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
		{"user, pid and network namespace, nesting", withNests, "clone", []uint64{nestKinds | uint64(unix.SIGCHLD)}, allow},
		{"mount namespace, nesting", withNests, "clone", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, eperm},
		{"ipc namespace, nesting", withNests, "clone", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWIPC}, eperm},
		{"unshare a user namespace, nesting", withNests, "unshare", []uint64{unix.CLONE_NEWUSER}, allow},
		{"unshare more, nesting", withNests, "unshare", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNET}, eperm},
		{"unshare mounts, nesting", withNests, "unshare", []uint64{unix.CLONE_NEWNS}, eperm},
		{"chroot, nesting", withNests, "chroot", nil, allow},
		{"mount, nesting", withNests, "mount", nil, eperm},
		{"setns, nesting", withNests, "setns", nil, eperm},
		{"pivot_root, nesting", withNests, "pivot_root", nil, eperm},
		{"ptrace, nesting", withNests, "ptrace", nil, eperm},
		{"bpf, nesting", withNests, "bpf", nil, eperm},
		{"keyctl, nesting", withNests, "keyctl", nil, eperm},
		{"a packet filter, nesting", withNests, "setsockopt", []uint64{3, unix.SOL_IP, 64}, eperm},
		{"a packet filter for IPv6, nesting", withNests, "setsockopt", []uint64{3, unix.SOL_IPV6, 64}, eperm},
		{"TCP_NODELAY, nesting", withNests, "setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, allow},
		{"personality of the question", withLeaves, "personality", []uint64{0xffffffff}, allow},
		{"personality without randomisation", withLeaves, "personality", []uint64{0x40000}, eperm},
	}
	for _, a := range abis {
		numbers := numbersOf(a)
		for _, tt := range tests {
			t.Run(a.name+"/"+tt.name, func(t *testing.T) {
				number, ok := numbers[tt.call]
				if !ok {
					t.Fatalf("no call is named %s", tt.call)
				}
				m := newMachine(t, compile(a.audit, calls(a, tt.opt)))
				if got := m.says(t, a.audit, number, tt.args...); got != tt.want {
					t.Errorf("got %#x, want %#x", got, tt.want)
				}
			})
		}
	}
}

// TestFilterOfStrangers uses numbers that are not calls of this architecture.
func TestFilterOfStrangers(t *testing.T) {
	for _, a := range abis {
		m := newMachine(t, compile(a.audit, calls(a, withLeaves)))
		for _, number := range []uint32{999, 9999, 1 << 30, 1<<30 | unix.SYS_READ, 1<<31 | 1, 0xffffffff} {
			if got := m.says(t, a.audit, number); got != actENOSYS {
				t.Errorf("%s: number %#x gives %#x, want %#x", a.name, number, got, actENOSYS)
			}
		}
		for _, audit := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0} {
			if got := m.says(t, audit, 0); got != actKill {
				t.Errorf("%s: a call of architecture %#x gives %#x, want %#x", a.name, audit, got, actKill)
			}
		}
	}
}

// The bytes that the kernel gets do what the table says, for this machine, and are not more
// than the kernel accepts (BPF_MAXINSNS in linux/bpf_common.h).
func TestFilterBytes(t *testing.T) {
	const most = 4096
	for _, a := range abis {
		if a.name != runtime.GOARCH {
			continue
		}
		for _, opt := range []Options{withLeaves, withWatch, withTrace, withNests} {
			code, err := Filter(opt)
			if err != nil {
				t.Fatal(err)
			}
			program := disassemble(t, code)
			if len(program) > most {
				t.Errorf("%+v: %d instructions", opt, len(program))
			}
			m := newMachine(t, program)
			for number, c := range calls(a, opt) {
				if got := m.says(t, a.audit, number); len(c.clauses) == 0 && got != c.action {
					t.Errorf("%+v: call %d gives %#x, want %#x", opt, number, got, c.action)
				}
			}
		}
	}
}

// If Docker's profile begins to allow a call, a person must look at it before a box gets
// it: testdata/allowed.txt lists what is allowed, with reasons.
func TestAllowed(t *testing.T) {
	text, err := os.ReadFile("testdata/allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for name := range strings.FieldsSeq(line) {
			if listed[name] {
				t.Errorf("%s is listed twice", name)
			}
			listed[name] = true
		}
	}
	allowed := map[string]bool{}
	for _, a := range abis {
		table := calls(a, withLeaves)
		for name, number := range numbersOf(a) {
			c := table[number]
			if c.action == actAllow || slices.ContainsFunc(c.clauses, func(cl clause) bool { return cl.action == actAllow }) {
				allowed[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if !listed[name] {
			t.Errorf("%s is allowed and not listed", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !allowed[name] {
			t.Errorf("%s is listed and not allowed", name)
		}
	}
}

// A rule for a call that no architecture has would protect nothing.
func TestRulesNameCalls(t *testing.T) {
	known := map[string]bool{}
	for _, a := range abis {
		for name := range numbersOf(a) {
			known[name] = true
		}
	}
	for _, names := range [][]string{slices.Collect(maps.Keys(denied)), slices.Collect(maps.Keys(byArgument(withLeaves)))} {
		for _, name := range names {
			if !known[name] {
				t.Errorf("no architecture has a call %s", name)
			}
		}
	}
}
