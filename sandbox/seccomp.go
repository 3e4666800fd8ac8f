package sandbox

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

//go:generate go run gen_syscalls.go

// Actions of a filter, seccomp(2).
const (
	actAllow = uint32(unix.SECCOMP_RET_ALLOW)
	actKill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	actEPERM = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	// actENOSYS makes programs fall back to an older call, as for a number
	// that the kernel does not know.
	actENOSYS = uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.ENOSYS)
)

// test compares the low word of one argument. All arguments that the filter
// looks at are 32 bits wide in the kernel, which ignores what stands above
// (bubblewrap's CVE-2019-10063 compared all 64 and was bypassed with a high
// bit in the number of an ioctl).
type test struct {
	arg  int
	mask uint32 // any of these bits set, if not 0; else
	is   uint32 // equal to this
}

// clause is an action for the calls that pass all tests.
type clause struct {
	tests  []test
	action uint32
}

// call is what becomes of one system call: the first clause that fits, or
// else the action.
type call struct {
	clauses []clause
	action  uint32
}

func (c call) equal(d call) bool {
	return c.action == d.action && len(c.clauses) == 0 && len(d.clauses) == 0
}

// denied are calls that Docker's profile allows and a box does not get. The
// reasons: they read or steer other processes, which in a box means its init
// (ptrace to process_madvise); they name files past the mounts
// (name_to_handle_at); or their arguments stand in memory, where a filter
// cannot read them, and a call without that fault does the same (openat2, for
// the mode of a new file).
var denied = map[string]uint32{
	"ptrace": actEPERM, "process_vm_readv": actEPERM, "process_vm_writev": actEPERM, "pidfd_getfd": actEPERM,
	"kcmp": actEPERM, "process_madvise": actEPERM, "process_mrelease": actEPERM,
	"name_to_handle_at": actEPERM, "openat2": actENOSYS,
	"io_uring_setup": actENOSYS, "io_uring_enter": actENOSYS, "io_uring_register": actENOSYS,
	"keyctl": actEPERM, "add_key": actEPERM, "request_key": actEPERM,
	"userfaultfd": actEPERM, "quotactl": actEPERM, "quotactl_fd": actEPERM,
	"mq_open": actAllow, // its queues belong to the box's own ipc namespace
}

// Bits of clone(2) that make a namespace.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// filterOptions are where the filters of two hosts may differ.
type filterOptions struct {
	leaves bool // commands are born in a cgroup, which takes clone3
	nested bool // commands are born in a pid namespace of their own
}

// calls is the whole filter as a table: Docker's profile without any
// capability, then what belljar decides otherwise.
func calls(opt filterOptions) (map[uint32]call, error) {
	profile, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		return nil, fmt.Errorf("read the system call profile: %w", err)
	}
	table := map[uint32]call{}
	for _, rule := range profile.Syscalls {
		if rule.Action != specs.ActAllow || len(rule.Args) > 0 {
			continue // the four calls with arguments are decided below
		}
		for _, name := range rule.Names {
			if number, ok := syscalls[name]; ok {
				table[number] = call{action: actAllow}
			}
		}
	}
	set := func(name string, c call) {
		if number, ok := syscalls[name]; ok { // an architecture may lack it
			table[number] = c
		}
	}
	for name, action := range denied {
		set(name, call{action: action})
	}
	// personality(2): Linux, its address-compatible form, and the question.
	var personalities []clause
	for _, p := range []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff} {
		personalities = append(personalities, clause{[]test{{arg: 0, is: p}}, actAllow})
	}
	set("personality", call{personalities, actEPERM})
	namespaces := uint32(cloneNamespaces)
	if opt.nested {
		// For the init alone: it takes CAP_SYS_ADMIN, which no command has.
		namespaces &^= unix.CLONE_NEWPID
	}
	set("clone", call{[]clause{{[]test{{arg: 0, mask: namespaces}}, actEPERM}}, actAllow})
	// clone3 passes its flags in memory. Where the init needs it, namespaces
	// are closed by the box's own limits of zero (boxinit, setKnobs).
	if opt.leaves {
		set("clone3", call{action: actAllow})
	} else {
		set("clone3", call{action: actENOSYS})
	}
	// Sockets that end in the box: unix, IPv4, IPv6 and the routing netlink.
	families := []clause{{[]test{{arg: 0, is: unix.AF_NETLINK}, {arg: 2, is: unix.NETLINK_ROUTE}}, actAllow}}
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		families = append(families, clause{[]test{{arg: 0, is: family}}, actAllow})
	}
	set("socket", call{families, actEPERM})
	set("socketpair", call{[]clause{{[]test{{arg: 0, is: unix.AF_UNIX}}, actAllow}}, actEPERM})
	// Keystrokes pushed into a terminal outlive the box (CVE-2017-5226).
	set("ioctl", call{[]clause{
		{[]test{{arg: 1, is: unix.TIOCSTI}}, actEPERM},
		{[]test{{arg: 1, is: unix.TIOCLINUX}}, actEPERM},
	}, actAllow})
	// A file in the workspace belongs to the workspace's owner on the host, so
	// it must not get the bits that make a program run as its owner.
	for name, arg := range map[string]int{
		"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "open": 2, "openat": 3,
		"mknod": 1, "mknodat": 2, "mkdir": 1, "mkdirat": 2,
	} {
		set(name, call{[]clause{{[]test{{arg: arg, mask: unix.S_ISUID | unix.S_ISGID}}, actEPERM}}, actAllow})
	}
	return table, nil
}

// span32 is a run of system call numbers with one fate.
type span32 struct {
	first uint32
	call  call
}

// filter compiles the table into the bytes of a struct sock_filter array.
func filter(opt filterOptions) ([]byte, error) {
	table, err := calls(opt)
	if err != nil {
		return nil, err
	}
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("no system call filter for %s", runtime.GOARCH)
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // seccomp_data.arch
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: actKill}, // another ABI numbers its calls differently
		bpf.LoadAbsolute{Off: 0, Size: 4},
	}
	raw, err := bpf.Assemble(append(program, search(spans(table))...))
	if err != nil {
		return nil, fmt.Errorf("assemble system call filter: %w", err)
	}
	var out []byte
	for _, in := range raw {
		out = binary.NativeEndian.AppendUint16(out, in.Op)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out, nil
}

// spans covers all numbers: known and allowed ones by the table, known and
// unlisted ones with EPERM, and those that came after this table was written,
// or belong to x32, with ENOSYS.
func spans(table map[uint32]call) []span32 {
	numbers := slices.Sorted(maps.Values(syscalls))
	known := map[uint32]bool{}
	for _, n := range numbers {
		known[n] = true
	}
	var out []span32
	add := func(first uint32, c call) {
		if len(out) == 0 || !out[len(out)-1].call.equal(c) {
			out = append(out, span32{first, c})
		}
	}
	last := numbers[len(numbers)-1]
	for n := uint32(0); n <= last; n++ {
		c, listed := table[n]
		switch {
		case listed:
			add(n, c)
		case known[n]:
			add(n, call{action: actEPERM})
		default:
			add(n, call{action: actENOSYS})
		}
	}
	add(last+1, call{action: actENOSYS})
	slices.SortFunc(out, func(a, b span32) int { return cmp.Compare(a.first, b.first) })
	return out
}

// search is a binary search over the spans, with the number in the
// accumulator.
func search(s []span32) []bpf.Instruction {
	if len(s) == 1 {
		return decide(s[0].call)
	}
	half := len(s) / 2
	left, right := search(s[:half]), search(s[half:])
	// A conditional jump reaches 255 instructions only, a plain one any number.
	code := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[half].first, SkipTrue: 0, SkipFalse: 1},
		bpf.Jump{Skip: uint32(len(left))},
	}
	return append(append(code, left...), right...)
}

// decide is one call, told apart by its arguments.
func decide(c call) []bpf.Instruction {
	var code []bpf.Instruction
	for _, cl := range c.clauses {
		// Each test is two instructions; a failed one skips the rest and the
		// return of its clause.
		for i, t := range cl.tests {
			skip := uint8(2*(len(cl.tests)-1-i) + 1)
			load := bpf.LoadAbsolute{Off: 16 + 8*uint32(t.arg) + lowWord, Size: 4} // seccomp_data.args
			jump := bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.is, SkipFalse: skip}
			if t.mask != 0 {
				jump = bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: t.mask, SkipFalse: skip}
			}
			code = append(code, load, jump)
		}
		code = append(code, bpf.RetConstant{Val: cl.action})
	}
	return append(code, bpf.RetConstant{Val: c.action})
}

// lowWord is where the low half of an argument stands: first, on the two
// little-endian architectures that belljar knows.
const lowWord = 0
