package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// run is what the filter says to a call, by x/net's interpreter: a reader of
// the program that shares nothing with its writer.
func run(t *testing.T, opt filterOptions, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	code, err := filter(opt)
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for c := code; len(c) > 0; c = c[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(c), Jt: c[2], Jf: c[3], K: binary.NativeEndian.Uint32(c[4:]),
		})
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program holds instructions that nobody knows")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	// struct seccomp_data, in the byte order that the interpreter reads.
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = binary.BigEndian.AppendUint64(data, 0)
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

const ourArch = unix.AUDIT_ARCH_X86_64

func TestFilter(t *testing.T) {
	const kill, allow, eperm, enosys = actKill, actAllow, actEPERM, actENOSYS
	leaves, nested := filterOptions{leaves: true}, filterOptions{nested: true}
	tests := []struct {
		name   string
		opt    filterOptions
		number uint32
		args   []uint64
		want   uint32
	}{
		{"read", leaves, unix.SYS_READ, nil, allow},
		{"execve", leaves, unix.SYS_EXECVE, nil, allow},
		{"mount", leaves, unix.SYS_MOUNT, nil, eperm},
		{"fsopen", leaves, unix.SYS_FSOPEN, nil, eperm},
		{"bpf", leaves, unix.SYS_BPF, nil, eperm},
		{"ptrace", leaves, unix.SYS_PTRACE, nil, eperm},
		{"openat2", leaves, unix.SYS_OPENAT2, nil, enosys},
		{"io_uring_setup", leaves, unix.SYS_IO_URING_SETUP, nil, enosys},
		{"fork by clone", leaves, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow},
		{"thread by clone", leaves, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"user namespace by clone", leaves, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, eperm},
		{"pid namespace by clone", leaves, unix.SYS_CLONE, []uint64{unix.CLONE_NEWPID}, eperm},
		{"pid namespace by clone, nested", nested, unix.SYS_CLONE, []uint64{unix.CLONE_NEWPID}, allow},
		{"user and pid namespace by clone, nested", nested, unix.SYS_CLONE, []uint64{unix.CLONE_NEWPID | unix.CLONE_NEWUSER}, eperm},
		{"clone3", leaves, unix.SYS_CLONE3, nil, allow},
		{"clone3, nested", nested, unix.SYS_CLONE3, nil, enosys},
		{"unix socket", leaves, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"IPv6 socket", leaves, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM}, allow},
		{"route netlink", leaves, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"audit netlink", leaves, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, eperm},
		{"vsock", leaves, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eperm},
		{"packet", leaves, unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}, eperm},
		{"alg", leaves, unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, eperm},
		{"TIOCSTI", leaves, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, eperm},
		{"TIOCSTI with a high bit", leaves, unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"TIOCLINUX", leaves, unix.SYS_IOCTL, []uint64{0, unix.TIOCLINUX}, eperm},
		{"TCGETS", leaves, unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow},
		{"chmod 755", leaves, unix.SYS_FCHMODAT, []uint64{0, 0, 0o755}, allow},
		{"chmod 4755", leaves, unix.SYS_FCHMODAT, []uint64{0, 0, 0o4755}, eperm},
		{"chmod 2755", leaves, unix.SYS_FCHMOD, []uint64{0, 0o2755}, eperm},
		{"open with set-uid", leaves, unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o4755}, eperm},
		{"personality of the question", leaves, unix.SYS_PERSONALITY, []uint64{0xffffffff}, allow},
		{"personality without randomisation", leaves, unix.SYS_PERSONALITY, []uint64{0x40000}, eperm},
		{"a number of tomorrow", leaves, 9999, nil, enosys},
		{"an x32 number", leaves, 0x40000000 | unix.SYS_READ, nil, enosys},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(t, tt.opt, ourArch, tt.number, tt.args...); got != tt.want {
				t.Errorf("got %#x, want %#x", got, tt.want)
			}
		})
	}
	if got := run(t, leaves, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != kill {
		t.Errorf("a call of another architecture gives %#x, want %#x", got, kill)
	}
}

// Every known call has one fate, the one of the table.
func TestFilterCoversTable(t *testing.T) {
	table, err := calls(filterOptions{leaves: true})
	if err != nil {
		t.Fatal(err)
	}
	allowed := 0
	for name, number := range syscalls {
		c, ok := table[number]
		want := c.action
		if !ok {
			want = actEPERM
		}
		if len(c.clauses) > 0 {
			continue // by argument: TestFilter
		}
		if want == actAllow {
			allowed++
		}
		if got := run(t, filterOptions{leaves: true}, ourArch, number); got != want {
			t.Errorf("%s: got %#x, want %#x", name, got, want)
		}
	}
	if allowed < 250 || allowed > 330 {
		t.Errorf("%d calls are allowed; Docker's profile has about 300", allowed)
	}
}

func TestMayMove(t *testing.T) {
	for script, want := range map[string]bool{
		"echo hi": false, "go test ./...": false, "ls -la /tmp": false, "make abc=1": false, "cat a.cd": false,
		"cd /tmp": true, "true; cd x": true, "pushd x": true, ". ./x": true, "source x": true, "$X /tmp": true,
		"c\\d /tmp": true, "'cd' /tmp": true, "true\ncd x": true, "eval cd x": true, "builtin cd x": true, "true && cd": true,
		"command cd x": true, "f() { cd x; }; f": true,
	} {
		if got := mayMove(script); got != want {
			t.Errorf("mayMove(%q) = %v, want %v", script, got, want)
		}
	}
}
