package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// parks reports whether boxes are parked on this host, which requires Linux 6.15.
func parks() bool {
	return !slices.ContainsFunc(sandbox.Examine("").Checks, func(c sandbox.Check) bool {
		return c.Name == "mounts" && strings.Contains(c.Detail, "Linux 6.15")
	})
}

// shares skips a test if boxes are not parked on this host.
func shares(t testing.TB) {
	t.Helper()
	if !parks() {
		t.Skip("this kernel cannot clone a detached mount, so no box is parked")
	}
}

// park parks a box. Nothing may prevent that.
func park(t testing.TB, b *sandbox.Box) {
	t.Helper()
	if !b.Park(20 * time.Second * testenv.Patience(t)) {
		t.Fatal("the box is not parked")
	}
}

// unparked checks that a box is not parked, in a time in which another box would be parked.
func unparked(t testing.TB, b *sandbox.Box) {
	t.Helper()
	if b.Park(50 * time.Millisecond) {
		t.Error("the box is parked")
	}
}

// parkedGrants are profiles whose boxes are built in different ways.
var parkedGrants = map[string]string{
	"a workspace": "fs: {system: true, workspace: rw}",
	"an overlay":  "fs: {system: true, workspace: overlay}",
	"a door":      "fs: {system: true, workspace: ro}\nnet: {mode: proxy, allow: [allowed.example]}",
	"an opened door": "fs: {system: true, workspace: none}\n" +
		"net: {mode: proxy, tls: intercept, allow: [{host: allowed.example, ports: [443], methods: [GET]}]}",
	"execs": "fs: {system: true, workspace: rw}\nexec: enforce",
	"disk":  "fs: {system: true, workspace: rw, storage: disk}\nlimits: {tmp: 64MiB, tmp_files: 500}",
}

// After a box was parked, however often, everything that a command could have seen before
// is as it was.
func TestParkKeeps(t *testing.T) {
	shares(t)
	const fill = `umask 022; cd /tmp && echo text >file && chmod 640 file && touch -d '2001-02-03 04:05:06' file && ln file hard && ln -s /etc/passwd link
		mkdir -m 1730 dir; mkfifo fifo; truncate -s 1M sparse; : >gone; exec 9<gone; rm gone
		perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("/tmp/socket")) or die'
		echo shared >/dev/shm/s; echo home >~/h; echo run >$XDG_RUNTIME_DIR/r; cd /workspace && { echo work >w; rm -f old; mkdir d; } 2>/dev/null; true`
	const look = `find /tmp /dev/shm ~ /run /workspace -printf '%p %D:%i %y %m %U:%G %s %n %b %T@ %l\n' 2>/dev/null | sort
		cat /tmp/file /dev/shm/s ~/h $XDG_RUNTIME_DIR/r; cat /workspace/w /etc/belljar/* 2>/dev/null
		hostname; id; ulimit -a; umask; env | sort | grep -v BELLJAR; cat /proc/mounts | sort; grep -E 'Cap|NoNew|Seccomp' /proc/self/status
		find / /dev /etc -maxdepth 1 -printf '%p %y %m %U:%G %l\n'`
	for name, profile := range parkedGrants {
		t.Run(name, func(t *testing.T) {
			testenv.Need(t, testenv.Bash, testenv.Perl)
			if strings.Contains(profile, "disk") {
				testenv.Need(t, testenv.Root, testenv.Loop)
			}
			b, dir := openIn(t, sandbox.Config{State: filepath.Join(t.TempDir(), "state")}, policytest.GrantProfile(t, profile))
			write(t, filepath.Join(dir, "old"), "old")
			shell(t, b, fill)
			_, before := shell(t, b, look)
			for range 3 {
				park(t, b)
				_, after := shell(t, b, look)
				if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); diff != "" {
					t.Fatal(diff)
				}
			}
			if !strings.Contains(before, "text\nshared\nhome\nrun\n") {
				t.Errorf("the box shows:\n%s", before)
			}
		})
	}
}

// An idle box is parked, and its next command wakes it.
func TestParkByItself(t *testing.T) {
	shares(t)
	s, _ := world(t)
	s.SetRest(time.Millisecond)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for b.Parked() {
			_, _ = shell(t, b, "true")
		}
		if !testenv.Until(time.Minute, b.Parked) {
			t.Fatal("a box that was left alone is not parked")
		}
	}
}

// A box is not parked while it contains something that a parked box would lose. It is
// parked once that is gone.
func TestParkNot(t *testing.T) {
	shares(t)
	const libc = `python3 -c 'import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = `
	const done = `; assert r >= 0, os.strerror(ctypes.get_errno())'`
	for _, test := range []struct {
		name, begin, end string
		python           bool
	}{
		{"a shared segment", libc + `c.shmget(7, 4096, 0o1600)` + done, `ipcrm -M 7`, true},
		{"a set of semaphores", libc + `c.semget(7, 2, 0o1600)` + done, `ipcrm -S 7`, true},
		{"a message queue", libc + `c.msgget(7, 0o1600)` + done, `ipcrm -Q 7`, true},
		{"a moved directory", `mv /run/tmp /run/other`, `mv /run/other /run/tmp`, false},
		{"a link in place of a directory", `mv /run/home /run/other; ln -s /etc /run/home`, `rm /run/home; mv /run/other /run/home`, false},
		{"another directory in its place", `mv /run/shm /run/other; mkdir -m 1777 /run/shm`, `rmdir /run/shm; mv /run/other /run/shm`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			testenv.Need(t, testenv.Bash)
			if test.python {
				testenv.Need(t, testenv.Python)
			}
			b, _ := openBox(t, grant(t))
			switch r, text := shell(t, b, test.begin); {
			case strings.Contains(text, "Function not implemented"):
				return // a box whose memory a watchdog limits has no such objects: see calls
			case r.Code != 0:
				t.Fatalf("begin: %s", text)
			}
			unparked(t, b)
			if r, text := shell(t, b, test.end); r.Code != 0 {
				t.Fatalf("end: %s", text)
			}
			park(t, b)
		})
	}
	t.Run("a POSIX queue", func(t *testing.T) { // the init is not asked about queues
		testenv.Need(t, testenv.Python)
		b, _ := openBox(t, grant(t))
		if r, text := shell(t, b, libc+`c.mq_open(b"/q", 0o102, 0o600, None)`+done); r.Code == 0 || !strings.Contains(text, "Permission denied") {
			t.Errorf("a box that can be parked can make one: %s", text)
		}
	})
	t.Run("a background job", func(t *testing.T) {
		b, _ := openBox(t, grant(t))
		// The process that the job started is not a child of its main process any more.
		j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "(setsid sleep 1000 &) ; sleep 1000", Background: true, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		unparked(t, b)
		j.Kill(0)
		park(t, b)
	})
	t.Run("a published port", func(t *testing.T) {
		b, _ := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: ro}\npublish: [3000]"))
		p := publish(t, b, 3000)
		unparked(t, b)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		park(t, b)
		if ports, err := b.Listening(); err != nil || len(ports) > 0 {
			t.Errorf("a parked box listens on %v, %v", ports, err)
		}
		p = publish(t, b, 3000)
		defer p.Close()
		if _, err := b.DialPort(t.Context(), 3000); err == nil || b.Parked() {
			t.Errorf("after dialling: %v, parked %v", err, b.Parked())
		}
	})
}

// Nothing that a command has started outlives the command. So it does not keep a box from
// being parked, which requires that its init has no child.
func TestParkAfterDoubleFork(t *testing.T) {
	shares(t)
	b, _ := openBox(t, grant(t))
	shell(t, b, "setsid bash -c '(sleep 1000 &)' & (sleep 1000 & disown) ; true")
	park(t, b)
}

// A parked box can be closed. It is not broken before, and says afterwards that it is
// closed.
func TestParkClose(t *testing.T) {
	shares(t)
	s, _ := world(t)
	before := 0
	for range 2 { // the first box makes what is made once for all boxes
		before = openFiles(t)
		b, err := s.Open(t.Context(), "box", grant(t))
		if err != nil {
			t.Fatal(err)
		}
		shell(t, b, "echo x >/tmp/x")
		park(t, b)
		select {
		case <-b.Broken():
			t.Error("a parked box is broken")
		default:
		}
		for range 2 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		<-b.Broken()
		if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Minute}); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("a command in it: %v", err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
	b, err := s.Open(t.Context(), "left", grant(t)) // left for the supervisor to close
	if err != nil {
		t.Fatal(err)
	}
	park(t, b)
}

// If a box cannot be woken, the call says why, and nothing of the box is lost.
func TestParkWakesLater(t *testing.T) {
	shares(t)
	dir := filepath.Join(t.TempDir(), "mounted")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, _ := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: rw, read: ["+dir+":/opt/a]}"))
	shell(t, b, "echo kept >/tmp/file")
	park(t, b)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	var refusal *limit.Refusal
	if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "true", Timeout: time.Minute}); !errors.As(err, &refusal) || !strings.Contains(refusal.Message, dir) {
		t.Errorf("without the directory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: "true", Timeout: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("by a call that is over: %v", err)
	}
	if _, text := shell(t, b, "cat /tmp/file; ls -d /opt/a"); text != "kept\n/opt/a\n" {
		t.Errorf("the box shows %q", text)
	}
	if r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 1000", Timeout: 20 * time.Millisecond}); err != nil || r.Status != sandbox.TimedOut {
		t.Errorf("a command that takes too long: %v, %v", r.Status, err)
	}
}

// Programs that commands start are seen, and stopped, in a box that was parked.
func TestParkSeesExecs(t *testing.T) {
	shares(t)
	testenv.Need(t, testenv.Bash)
	b, _ := openBox(t, execGrant(t, "enforce"))
	for range 2 {
		r, text := shell(t, b, stubGit+"X=gi; ${X}t push; ls /")
		if strings.Contains(text, "RAN") || len(r.Execs.Stopped) != 1 || !slices.ContainsFunc(r.Execs.List, func(e sandbox.Exec) bool { return e.Argv[0] == "ls" }) {
			t.Errorf("it says %q, and of execs %+v", text, r.Execs)
		}
		park(t, b)
	}
}

// The door of a box that was parked lets through what its policy says at that time.
func TestParkRegrants(t *testing.T) {
	shares(t)
	if !inNetwork(t) {
		return
	}
	n, s, open := regranted(t)
	one, two := regrantPolicies(t)
	b := open("dev")
	check := func(want bool) {
		t.Helper()
		if ok, said := n.lets(t, b, "an allowed name"); ok != want {
			t.Errorf("an allowed name is let through: %v, want %v: %s", ok, want, said)
		}
		if ok, said := n.lets(t, b, "a name that no rule allows"); ok == want {
			t.Errorf("the other name is let through: %v, want %v: %s", ok, !want, said)
		}
	}
	check(true)
	park(t, b)
	check(true)
	park(t, b)
	s.Regrant(t.Context(), parsed(t, two))
	check(false)
	s.Regrant(t.Context(), parsed(t, one))
	park(t, b)
	check(true)
}

// If connections are not redirected, a box that wakes listens on the ports that it had, and
// on the ports that were added while it was parked.
func TestParkRegrantsByPort(t *testing.T) {
	shares(t)
	s, _ := world(t)
	s.ByPort()
	first, second := server(t), server(t)
	b, err := s.Open(t.Context(), "box", clientGrant(t, first))
	if err != nil {
		t.Fatal(err)
	}
	park(t, b)
	if m := inBox(t, b, first, "connect", 1); m.Error != "" {
		t.Errorf("connect after parking: %s", m.Error)
	}
	park(t, b)
	if err := b.SetEgress(t.Context(), clientGrant(t, second).Egress()); err != nil {
		t.Fatal(err)
	}
	if m := inBox(t, b, second, "connect", 1); m.Error != "" {
		t.Errorf("connect to the port that was added: %s", m.Error)
	}
	if m := inBox(t, b, first, "connect", 1); m.Error == "" {
		t.Error("the port that was taken away is reached")
	}
}
