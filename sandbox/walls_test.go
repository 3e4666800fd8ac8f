package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
)

// wall is one way out: a script that prints "through" if it gets there. It
// must get there outside, or it shows nothing, and must not inside.
type wall struct {
	name   string
	script string // $SECRET is a file, $PORT a listener, $PID a process of the host
	root   bool   // only root gets through outside
}

// walls are tried from bash, and from perl where it takes a system call that
// bash does not make: both are there wherever a box is.
var walls = []wall{
	{"read a host file", `cat "$SECRET" && echo through`, false},
	{"read a host file through proc", `for d in /proc/[0-9]*/root /proc/self/cwd/../../..; do cat "$d$SECRET" && echo through && break; done`, false},
	{"follow a link out", `ln -sf "$SECRET" l; cat l && echo through; rm -f l`, false},
	{"link a host file in", `ln "$SECRET" h && echo through; rm -f h`, false},
	{"write to /usr", `echo > /usr/.belljar-probe && echo through; rm -f /usr/.belljar-probe`, true},
	{"write to /etc", `echo > /etc/.belljar-probe && echo through; rm -f /etc/.belljar-probe`, true},
	{"read /etc/shadow", `head -c1 /etc/shadow && echo through`, true},
	{"see a host process", `test -d /proc/$PID && tr '\0' ' ' < /proc/$PID/cmdline | grep -q belljar-wall && echo through`, false},
	{"signal a host process", `kill -0 $PID && echo through`, false},
	{"read the supervisor's environment", `grep -qa belljar-wall-secret /proc/[0-9]*/environ && echo through`, false},
	{"see the supervisor's variable", `test -n "$BELLJAR_WALL_SECRET" && echo through`, false},
	{"connect to the host", `exec 3<>/dev/tcp/127.0.0.1/$PORT && echo through`, false},
	{"be called as the host", `test "$(cat /proc/sys/kernel/hostname)" = "$HOSTNAME_OUTSIDE" && echo through`, false},
	{"make a user namespace", `unshare -U true && echo through`, false},
	{"make a mount namespace", `unshare -m true && echo through`, true},
	{"mount a tmpfs", `mkdir -p m; mount -t tmpfs none m && umount m && echo through; rmdir m`, true},
	{"leave by chroot", `mkdir -p c; chroot / true && echo through; rmdir c`, true},
	{"make a device", `mknod d b 254 0 && echo through; rm -f d`, true},
	{"open a kernel knob", `exec 3>>/proc/sys/kernel/core_pattern && echo through`, true},
	{"change the host name", `old=$(cat /proc/sys/kernel/hostname); hostname "$old" && echo through`, true},
	{"make a set-uid file", `: > s; chmod 4755 s && test -u s && echo through; rm -f s`, false},
	{"have a capability", `grep -q 'CapPrm:.*[1-9a-f]' /proc/self/status && echo through`, true},
	{"have a capability in reach", `grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status && echo through`, false},
	{"gain privileges by exec", `grep -q 'NoNewPrivs:.*0' /proc/self/status && echo through`, false},
	{"use any system call", `grep -q '^Seccomp:.*0' /proc/self/status && echo through`, false},
	{"write a cgroup", `for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do exec 3>>$f && echo through && break; done`, true},
	{"trace a process", `sleep 5 & perl -e 'exit(syscall($ENV{SYS_PTRACE}, 16, $ARGV[0]+0, 0, 0) != 0)' $! && echo through; kill -9 $!`, false},
	{"read another's memory", `sleep 5 & perl -e '$b = "x" x 8; $l = pack("PQ", $b, 8); open(F, "/proc/$ARGV[0]/maps"); <F> =~ /^([0-9a-f]+)/; $r = pack("QQ", hex($1), 8); exit(syscall($ENV{SYS_READV}, $ARGV[0]+0, $l, 1, $r, 1, 0) != 8)' $! && echo through; kill -9 $!`, false},
	{"use a keyring", `perl -e 'exit(syscall($ENV{SYS_KEYCTL}, 0, -4, 1) < 0)' && echo through`, false},
	{"set up io_uring", `perl -e '$p = "\0" x 120; exit(syscall($ENV{SYS_URING}, 4, $p) < 0)' && echo through`, false},
	{"count performance events", `perl -e '$a = pack("LLQ", 1, 128, 0) . "\0" x 112; exit(syscall($ENV{SYS_PERF}, $a, 0, -1, -1, 0) < 0)' && echo through`, true},
	{"load a program into the kernel", `perl -e '$a = pack("LLLL", 1, 4, 4, 1) . "\0" x 112; exit(syscall($ENV{SYS_BPF}, 0, $a, 128) < 0)' && echo through`, true},
	{"open a file by handle", `perl -e '$h = pack("Ll", 128, 0) . "\0" x 128; $m = "\0" x 8; $d = "."; exit(syscall($ENV{SYS_HANDLE}, -100, $d, $h, $m, 0) != 0)' && echo through`, false},
	{"talk to a virtual machine's host", `perl -e 'exit(!socket(S, 40, 1, 0))' && echo through`, false},
	{"send raw packets", `perl -e 'exit(!socket(S, 17, 3, 0))' && echo through`, true},
	{"watch the kernel's netlink", `perl -e 'exit(!socket(S, 16, 3, 9))' && echo through`, false},
	{"move a namespace's border", `exec 3</proc/self/ns/uts; perl -e 'exit(syscall($ENV{SYS_SETNS}, 3, 0) != 0)' && echo through`, true},
	{"read a kernel symbol", `grep -qm1 ' T ' /proc/kallsyms && echo through`, false},
	{"hold a host descriptor", `for f in /proc/self/fd/*; do case $(readlink $f) in */belljar-wall-*) echo through; break;; esac; done`, false},
}

// TestWalls tries each way out in two worlds.
func TestWalls(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	b, _ := openBox(t, grant(t))
	env, outside := victims(t)
	for _, w := range walls {
		t.Run(w.name, func(t *testing.T) {
			if w.root {
				testenv.Need(t, testenv.Root) // else it does not get through outside
			}
			if strings.Contains(w.script, "perl") {
				testenv.Need(t, testenv.Perl)
			}
			if got := outside(w.script); !strings.Contains(got, "through") {
				t.Fatalf("outside it does not get through either, so it shows nothing: %q", got)
			}
			_, out := shell(t, b, strings.Join(env, "\n")+"\n"+w.script)
			if strings.Contains(out, "through") {
				t.Errorf("got through: %q", out)
			}
		})
	}
}

// victims makes what the walls protect, and returns the lines that name it
// and a way to run a script on the host.
func victims(t *testing.T) (env []string, outside func(string) string) {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, "x\n")
	held, err := os.Create(filepath.Join(dir, "belljar-wall-held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	// As a careless caller would leave it: open, and not close-on-exec.
	keep, err := dupInherited(held)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keep.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	sleeper := exec.CommandContext(t.Context(), "bash", "-c", "exec -a belljar-wall sleep 1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	t.Setenv("BELLJAR_WALL_SECRET", "belljar-wall-secret")
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	env = []string{
		"SECRET=" + secret, "PORT=" + port, fmt.Sprintf("PID=%d", sleeper.Process.Pid), "HOSTNAME_OUTSIDE=" + hostname,
	}
	for name, number := range map[string]int{
		"PTRACE": unix.SYS_PTRACE, "READV": unix.SYS_PROCESS_VM_READV, "KEYCTL": unix.SYS_KEYCTL, "URING": unix.SYS_IO_URING_SETUP,
		"PERF": unix.SYS_PERF_EVENT_OPEN, "BPF": unix.SYS_BPF, "HANDLE": unix.SYS_NAME_TO_HANDLE_AT, "SETNS": unix.SYS_SETNS,
	} {
		env = append(env, fmt.Sprintf("export SYS_%s=%d", name, number))
	}
	return env, func(script string) string {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(env, "\n")+"\n"+script)
		cmd.Dir = dir
		cmd.ExtraFiles = []*os.File{keep}
		out, _ := cmd.CombinedOutput() // the script's status says nothing
		return string(out)
	}
}
