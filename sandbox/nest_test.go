package sandbox_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// browserGrants returns the grant of the box of a browser, and that of commands from the
// same profile.
func browserGrants(t *testing.T) (browser, commands policies.Grant) {
	t.Helper()
	commands = policytest.GrantProfile(t, "browser: sandboxed\nfs: {system: true, workspace: rw}\nnet: {mode: proxy, allow: [allowed.example]}\nlimits: {pids: 128}")
	browser, err := commands.ForBrowser(policies.BrowserBox{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	return browser, commands
}

// The calls that the sandbox of a browser makes work in a box for a browser, and other uses
// of such namespaces do not. In a box of commands none of them works, although its profile
// has a browser.
func TestNestedNamespaces(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Python)
	nested, plain := browserGrants(t)
	boxes := map[bool]*sandbox.Box{}
	boxes[true], _ = openBox(t, nested)
	boxes[false], _ = openBox(t, plain)
	socket := func(args string) string {
		return `unshare -Ur python3 -c "import socket; socket.socket(` + args + `)"`
	}
	for _, tt := range []struct {
		name, script string
		nested       bool // whether it works in the box of a browser
	}{
		{"user namespace", "unshare -U true", true},
		{"and be root there", "unshare -Ur true", true},
		{"mount namespace", "unshare -Urm true", false},
		{"ipc namespace", "unshare -Uri true", false},
		{"uts namespace", "unshare -Uru true", false},
		{"cgroup namespace", "unshare -UrC true", false},
		{"time namespace", "unshare -UrT true", false},
		{"mount as its root", "unshare -Ur mount -t tmpfs none /tmp", false},
		{"bind as its root", "unshare -Ur mount --bind /usr /tmp", false},
		{"enter init's namespaces as its root", "unshare -Ur nsenter -t 1 -n true", false},
		{"name the host as its root", "unshare -Ur hostname other", false},
		{"netlink as its root", socket("socket.AF_NETLINK, socket.SOCK_RAW, 0"), false},
		{"netfilter as its root", socket("socket.AF_NETLINK, socket.SOCK_RAW, 12"), false},
		{"raw sockets as its root", socket("socket.AF_INET, socket.SOCK_RAW, 1"), false},
		{"packets as its root", socket("socket.AF_PACKET, socket.SOCK_RAW, 3"), false},
		{"write a knob as its root", "unshare -Ur sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'", false},
		{"raise the bound on namespaces as its root", "unshare -Ur sh -c 'echo 1000 >/proc/sys/user/max_user_namespaces'", false},
		{"make a device as its root", "unshare -Ur mknod /tmp/d c 1 3", false},
		{"more than the bound of them", `python3 -c "
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
made = 0
for i in range(100):
    if os.fork() == 0:
        os._exit(0 if libc.unshare(0x10000000) == 0 and (time.sleep(3) or True) else 1)
    made += 1
time.sleep(1)
failed = sum(os.WEXITSTATUS(os.waitpid(-1, 0)[1]) for _ in range(made))
raise SystemExit(0 if failed == 0 else 1)"`, false},
	} {
		for inner, b := range boxes {
			r, out := shell(t, b, tt.script)
			if works := r.Code == 0; works != (inner && tt.nested) {
				t.Errorf("%s, nested %v: works %v: %s", tt.name, inner, works, out)
			}
		}
	}
}

// All files that a browser downloads have no more room together than the grant gives them,
// and cannot be executed. The rest of the box keeps its own room.
func TestDownloadsHaveABound(t *testing.T) {
	_, commands := browserGrants(t)
	grant, err := commands.ForBrowser(policies.BrowserBox{Nested: true, Downloads: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := openBox(t, grant)
	_, out := shell(t, b, `cd /tmp/down
head -c 1M </dev/zero >one && echo one
head -c 1M </dev/zero >two 2>/dev/null || echo no two
test $(($(stat -c %s one) + $(stat -c %s two))) -le $((1048576 + 64 * $(getconf PAGESIZE))) && echo bounded
i=0; while test $i -lt 100 && (: >f$i) 2>/dev/null; do i=$((i + 1)); done; test $i -lt 64 && echo few
rm -f *; echo 'echo ran' >run; chmod +x run; ./run 2>/dev/null || echo not run
head -c 3M </dev/zero >/tmp/else && echo else`)
	if want := "one\nno two\nbounded\nfew\nnot run\nelse\n"; out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	unparked(t, b) // its downloads would be lost
	plain, _ := browserGrants(t)
	without, _ := openBox(t, plain)
	if _, out := shell(t, without, "test -e /tmp/down || echo none"); out != "none\n" {
		t.Errorf("without downloads: %s", out)
	}
}

// The downloads of a browser have memory in addition to that of its processes.
func TestDownloadsTakeNoMemoryFromTheBrowser(t *testing.T) {
	commands := policytest.GrantProfile(t, "browser: sandboxed\nfs: {system: true, workspace: rw}\nnet: {mode: proxy, allow: [allowed.example]}\nlimits: {memory: 64MiB, tmp: 4MiB, pids: 128}")
	grant, err := commands.ForBrowser(policies.BrowserBox{Nested: true, Downloads: 96 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := openBox(t, grant)
	if _, out := shell(t, b, "head -c 96M </dev/zero >/tmp/down/file && echo stored"); out != "stored\n" {
		t.Errorf("a file of the size of the downloads: %s", out)
	}
}

// No command of a call runs in the box of a browser.
func TestNestedBoxRunsNoCommands(t *testing.T) {
	nested, plain := browserGrants(t)
	b, _ := openBox(t, nested)
	if r, err := b.Run(t.Context(), sandbox.Cmd{Grant: plain, Shell: "true", Timeout: time.Second}); err == nil {
		t.Errorf("it ran: %+v", r)
	}
}

// A command gets two files of its caller as descriptors 3 and 4, and no others.
func TestFiles(t *testing.T) {
	b, _ := openBox(t, grant(t))
	var to, from [2]int
	for _, p := range []*[2]int{&to, &from} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	in, out := os.NewFile(uintptr(to[1]), "to"), os.NewFile(uintptr(from[0]), "from")
	theirs := []*os.File{os.NewFile(uintptr(to[0]), "their end"), os.NewFile(uintptr(from[1]), "their end")}
	defer in.Close()
	defer out.Close()
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Shell: "read line <&3; echo got $line >&4; ls /proc/self/fd", Files: theirs, Timeout: 30 * time.Second,
	})
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.WriteString("a line\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64)
	n, err := out.Read(answer)
	if got := string(answer[:n]); err != nil || got != "got a line\n" {
		t.Errorf("got %q, %v", got, err)
	}
	r, err := j.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The directory itself is open while it is listed.
	if got := strings.Fields(read(t, r.Output)); len(got) != 6 {
		t.Errorf("descriptors %q, want 0 to 4 and that of the list", got)
	}
	if n, err := out.Read(answer); err == nil {
		t.Errorf("read %d bytes more; want the end, since nobody else has that file", n)
	}
	for _, files := range [][]*os.File{{in}, {in, in, in}} {
		if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "true", Files: files, Timeout: time.Second}); err == nil {
			t.Errorf("%d files were taken", len(files))
		}
	}
}
