package sandbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
)

// These tests are about two commands of one box: neither may look into the other, control
// it or starve it, however each was started.

// starting is a way in which commands of a box are started.
type starting struct {
	name string
	warm bool                                              // whether a shell that waits starts it
	make func(t *testing.T, c *sandbox.Cmd, argv []string) // completes the command
}

// startings are all ways to start a command: those of the tools, of hooks and of belljar
// itself.
var startings = []starting{
	{"warm shell", true, func(_ *testing.T, c *sandbox.Cmd, argv []string) { c.Shell = script(argv) }},
	{"warm shell that moves", true, func(_ *testing.T, c *sandbox.Cmd, argv []string) { c.Shell = "cd /tmp; " + script(argv) }},
	{"shell with variables", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) {
		c.Shell, c.Env = script(argv), map[string]string{"TOKEN": "of the call"}
	}},
	{"shell with input", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) {
		c.Shell, c.Stdin = script(argv), []byte("input")
	}},
	{"program", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) { c.Argv = argv }},
	{"background shell", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) { c.Shell, c.Background = script(argv), true }},
	{"background program", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) { c.Argv, c.Background = argv, true }},
	{"hook", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) {
		c.Argv, c.Stdin, c.Env = []string{"bash", "-c", script(argv), "hook", "event"}, []byte("{}"), map[string]string{"HOOK_EVENT": "sync"}
		c.Out, c.Err, c.Record = c.Record, io.Discard, nil
	}},
	{"reading of a file", false, func(_ *testing.T, c *sandbox.Cmd, argv []string) {
		c.Shell, c.Env = script(argv), map[string]string{"BELLJAR_PATH": "x"}
		c.Out, c.Err, c.Record = c.Record, io.Discard, nil
	}},
	{"terminal", false, func(t *testing.T, c *sandbox.Cmd, argv []string) {
		r, w := io.Pipe()
		t.Cleanup(func() { w.Close() })
		c.Argv, c.Terminal, c.In = argv, &sandbox.Size{Rows: 24, Columns: 80}, r
		c.Out, c.Record = c.Record, nil
	}},
	{"program with files", false, func(t *testing.T, c *sandbox.Cmd, argv []string) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { null.Close() })
		c.Argv, c.Files = argv, []*os.File{null, null}
	}},
}

// script returns a script that becomes the program with these words.
func script(argv []string) string { return "exec " + quoted(argv) }

func quoted(argv []string) string {
	var words []string
	for _, a := range argv {
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// depths are the ways in which a program can be part of its command.
var depths = []struct {
	name string
	wrap func(argv []string) []string
}{
	{"itself", func(argv []string) []string { return argv }},
	{"as a child", func(argv []string) []string { return []string{"bash", "-c", quoted(argv) + "; true"} }},
	{"in a session of its own", func(argv []string) []string { return []string{"bash", "-c", "setsid -w " + quoted(argv) + "; true"} }},
	{"in a pipeline", func(argv []string) []string { return []string{"bash", "-c", "{ " + quoted(argv) + "; } | cat"} }},
	{"as an orphan", func(argv []string) []string {
		return []string{"bash", "-c", "exec 5> >(cat); (setsid " + quoted(argv) + " >&5 &); exec 5>&-; wait $!"}
	}},
}

// toldLine receives the output of a command, and reports its first line.
type toldLine struct {
	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
	line chan string
}

func newToldLine() *toldLine { return &toldLine{line: make(chan string, 1)} }

// Write keeps everything.
func (f *toldLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(p)
	if before, _, ok := strings.Cut(f.text.String(), "\n"); ok {
		f.once.Do(func() { f.line <- before })
	}
	return len(p), nil
}

// Close does nothing.
func (f *toldLine) Close() error { return nil }

// String returns what was written.
func (f *toldLine) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.ReplaceAll(f.text.String(), "\r", "") // a terminal adds them
}

// begin starts a program in a box in this way.
func (s *starting) begin(t *testing.T, b *sandbox.Box, argv []string) (*sandbox.Job, *toldLine) {
	t.Helper()
	out := newToldLine()
	c := sandbox.Cmd{Grant: b.Grant(), Timeout: time.Minute, Record: out}
	s.make(t, &c, argv)
	if s.warm && !b.WaitWarm() {
		t.Fatal("there is no warm shell")
	}
	j, err := b.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return j, out
}

// touch has a command in a box try all contacts with a victim.
func (s *starting) touch(t *testing.T, b *sandbox.Box, v escape.Victim, wrap func([]string) []string) map[string]escape.Outcome {
	t.Helper()
	argv, err := escape.Touch(v)
	if err != nil {
		t.Fatal(err)
	}
	j, out := s.begin(t, b, wrap(argv))
	r, err := j.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := escape.Touched(out.String())
	if err != nil {
		t.Fatalf("%s ended as %v, code %d: %v", s.name, r.Status, r.Code, err)
	}
	return outcomes
}

// No command can do anything to another command of its box, in whatever ways the two were
// started. Each contact is a case.
func TestCommandsApart(t *testing.T) {
	testApart(t, 99)
}

// The same is true without a Landlock that separates the commands.
func TestCommandsApartByNamespace(t *testing.T) {
	testApart(t, 0)
}

// The same is true if Landlock does not scope signals yet, except for signals: they get
// through, and the supervisor says so.
func TestCommandsApartButForSignals(t *testing.T) {
	testApart(t, 5)
}

func testApart(t *testing.T, landlock int) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	ways := touchable(t)
	s, _ := world(t)
	s.SetLandlock(landlock)
	b, err := s.Open(t.Context(), "box", policytest.GrantWith(t, "pids: 256, memory: 512MiB, tmp: 128MiB"))
	if err != nil {
		t.Fatal(err)
	}
	if err := escape.Install(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	canTouchOwn(t, b)
	left, random := testenv.Cases(t, 6*len(ways))
	for pair := 0; left > 0; pair++ {
		victim, attacker := startings[random.IntN(len(startings))], startings[random.IntN(len(startings))]
		deepVictim, deep := depths[random.IntN(len(depths))], depths[random.IntN(len(depths))]
		name := fmt.Sprintf("%s (%s) of %s (%s)", attacker.name, deep.name, victim.name, deepVictim.name)
		var v escape.Victim
		end := func() {}
		if spare := random.IntN(8) == 0; spare && !b.WaitWarm() {
			t.Fatal("there is no warm shell")
		} else if spare {
			name = fmt.Sprintf("%s (%s) of a shell that waits", attacker.name, deep.name)
			v = escape.Victim{Token: "BASH_EXECUTION_STRING", Pid: b.WarmPid()} // is part of the shell's arguments
			if attacker.warm {
				attacker = startings[2] // an attack that does not use the shell that waits
			}
		} else {
			j, out := victim.begin(t, b, deepVictim.wrap(escape.Beside(rand.Text())))
			v = meet(t, j, out)
			end = func() { j.Kill(0) }
		}
		for what, o := range attacker.touch(t, b, v, deep.wrap) {
			left--
			switch signal := escape.IsSignal(what) && !s.SignalsApart(); {
			case o.Through && !signal:
				t.Errorf("pair %d, %s: %s: got through: %s", pair, name, what, o.Detail)
			case what == "signal it" && signal && !o.Through:
				t.Errorf("pair %d, %s: %s: that it gets through is said, and it does not: %s", pair, name, what, o.Detail)
			}
		}
		end()
		if t.Failed() {
			break
		}
	}
}

// meet waits until a victim has reported who it is.
func meet(t *testing.T, j *sandbox.Job, out *toldLine) (v escape.Victim) {
	t.Helper()
	select {
	case line := <-out.line:
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("the victim says %q: %v", line, err)
		}
	case <-j.Done():
		t.Fatalf("the victim ended as %v: %s", j.Status(), out)
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
	return v
}

// touchable tries all contacts outside, on a process of the same user in a session of its
// own, and returns their names. Each must get through there, because it shows nothing in a
// box otherwise.
func touchable(t *testing.T) []string {
	t.Helper()
	out := newToldLine()
	victim := &exec.Cmd{Path: "/proc/self/exe", Args: escape.Beside(rand.Text()), Env: os.Environ(), Stdout: out, Stderr: new(bytes.Buffer), SysProcAttr: &unix.SysProcAttr{Setsid: true}}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()
	var v escape.Victim
	if err := json.Unmarshal([]byte(<-out.line), &v); err != nil {
		t.Fatal(err)
	}
	argv, err := escape.Touch(v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&exec.Cmd{Path: "/proc/self/exe", Args: argv, Env: os.Environ()}).Output()
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := escape.Touched(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for what, o := range outcomes {
		if !o.Through {
			t.Errorf("outside, %s does not get through either, so it shows nothing: %s", what, o.Detail)
		}
	}
	return slices.Sorted(maps.Keys(outcomes))
}

// canTouchOwn has a command in the box try the same on a process of its own. What programs
// do with their children must get through, because refusals for other processes show
// nothing otherwise.
func canTouchOwn(t *testing.T, b *sandbox.Box) {
	t.Helper()
	touch, err := escape.Touch(escape.Victim{})
	if err != nil {
		t.Fatal(err)
	}
	r, out := shell(t, b, "exec 9< <(setsid "+quoted(escape.Beside(rand.Text()))+"); read -r who <&9; "+quoted(touch[:2])+` "$who"`)
	outcomes, err := escape.Touched(out)
	if err != nil {
		t.Fatalf("%v, code %d: %v", r.Status, r.Code, err)
	}
	for _, what := range []string{
		"read its memory", "write its memory", "read its environment", "read its arguments", "read its state", "open its output", "list its descriptors",
		"follow its program", "signal it", "signal its thread", "signal it by a descriptor", "have it killed first for memory",
	} {
		if o := outcomes[what]; !o.Through {
			t.Errorf("a command cannot %s of its own: %q", what, o.Detail)
		}
	}
}

// told makes two named pipes: by one a job is told whom to attack, by the other it reports
// that it is done.
const told = "mkfifo /tmp/who /tmp/tried"

// beside has a job attack a command that a warm shell runs. The command waits for the
// attack. beside returns how the command ended.
func beside(t *testing.T, attack, command string) (sandbox.Result, string) {
	t.Helper()
	b, _ := openBox(t, grant(t))
	shell(t, b, told)
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Background: true, Timeout: time.Minute,
		// In a pid namespace of its own, this number is that of the job itself.
		Shell: "read -r pid </tmp/who\nif ((pid != $$)); then\n" + attack + "\nfi\necho >/tmp/tried",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Kill(0)
	if !b.WaitWarm() {
		t.Fatal("there is no warm shell")
	}
	return shell(t, b, command)
}

// A job cannot write into the output of a later command and end it. Otherwise a server that
// a dependency left running could decide what a test run reports.
func TestJobForgesNoOutput(t *testing.T) {
	kill := "kill -9 $pid 2>/dev/null"
	if s, _ := world(t); !s.SignalsApart() {
		kill = "" // the signal gets through, and the supervisor says so
	}
	r, out := beside(t, `echo "ALL TESTS PASSED" >/proc/$pid/fd/1
tr '\0' '\n' </proc/$pid/environ >/tmp/seen
`+kill, `echo $$ >/tmp/who; read -r </tmp/tried; echo "3 TESTS FAILED"; cat /tmp/seen 2>/dev/null; exit 1`)
	if r.Code != 1 || r.Status != sandbox.Exited || out != "3 TESTS FAILED\n" {
		t.Errorf("got %v, code %d, %q", r.Status, r.Code, out)
	}
}

// A job cannot change a word in the memory of a command either. Otherwise something else
// would run than what a person has approved.
func TestJobRewritesNoCommand(t *testing.T) {
	_, out := beside(t, `while read -r range rights _; do
  from=$((16#${range%-*})) to=$((16#${range#*-}))
  [[ $rights == rw* ]] && ((to - from < 1 << 22)) || continue
  while IFS=: read -r at _; do
    printf evil | dd of=/proc/$pid/mem bs=1 seek=$((from + at)) conv=notrunc status=none
  done < <(dd if=/proc/$pid/mem bs=4096 skip=$((from / 4096)) count=$(((to - from) / 4096)) status=none | grep -abo docs)
done </proc/$pid/maps`, `echo $$ >/tmp/who; read -r </tmp/tried; echo push docs`)
	if out != "push docs\n" {
		t.Errorf("got %q", out)
	}
}

// moves has the tools that exist move directories and link files from one directory to
// another, like builds and repositories do.
const moves = `mkdir -p tree/in out && echo text >tree/in/file && mv tree/in out/ && cp -al out/in linked && mv -T linked tree/again
test "$(cat tree/again/file)" = text
if command -v git >/dev/null; then
	git init -q repository && cd repository && git config user.name n && git config user.email e@example.org
	mkdir d e && echo x >d/f && git add . && git commit -qm one && git mv d/f e/g && git commit -qm two && git gc -q && git worktree add -q ../other && git -C ../other mv e/g h
fi`

// Each version of Landlock separates commands as far as it can, and leaves the right to
// move files from one directory to another.
func TestLandlockVersions(t *testing.T) {
	for _, version := range []int{0, 1, 2, 5, 6} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			s, _ := world(t)
			s.SetLandlock(version)
			b, err := s.Open(t.Context(), "box", grant(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"/tmp", "/workspace"} {
				if r, out := shell(t, b, "cd "+dir+"; mkdir a b && echo x >a/f && ln a/f b/g && mv b/g a/h"); r.Code != 0 {
					t.Errorf("files cannot be moved in %s: %s", dir, out)
				}
				if r, out := shell(t, b, "cd "+dir+"; set -e; "+moves); r.Code != 0 {
					t.Errorf("tools cannot move files in %s: %s", dir, out)
				}
			}
			shell(t, b, told)
			j, err := b.Start(t.Context(), sandbox.Cmd{
				Grant: b.Grant(), Background: true, Timeout: time.Minute,
				Shell: "read -r pid </tmp/who; ((pid != $$)) && { : </proc/$pid/environ; } 2>/tmp/why && echo read; echo >/tmp/tried",
			})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = shell(t, b, "echo $$ >/tmp/who; read -r </tmp/tried")
			if r, err := j.Wait(t.Context()); err != nil || read(t, r.Output) != "" {
				t.Errorf("a job reads the environment of another command: %v, %v", r.Status, err)
			}
		})
	}
}

// layersEnv makes the test binary put itself below as many domains of Landlock as leave
// room for one more, which the box takes, and then run a command in the box.
const layersEnv = "SANDBOX_TEST_LAYERS"

// layered is what the test binary does if layersEnv is set.
func layered() error {
	if os.Getenv(layersEnv) == "to do" {
		const most = 16 // landlock(7), "Ruleset layers"
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		// files are not restricted, because nothing could be mounted otherwise
		attr := [3]uint64{2: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
		fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		for n := 1; n < most && errno == 0; n++ {
			_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
		}
		if errno != 0 {
			return errno
		}
		if err := os.Setenv(layersEnv, "done"); err != nil {
			return err
		}
		return unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	g := policies.Default().Decide(policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}).Grant
	b, err := s.Open(context.Background(), "box", g)
	if err != nil {
		return err
	}
	r, err := b.Run(context.Background(), sandbox.Cmd{Grant: g, Shell: "echo ran", Timeout: time.Minute})
	if err == nil {
		return fmt.Errorf("it ran: %v, code %d", r.Status, r.Code)
	}
	fmt.Println(err)
	return nil
}

// A command whose domain cannot be made does not run.
func TestCommandWithoutDomain(t *testing.T) {
	b, _ := openBox(t, grant(t))
	if !b.HasLeaves() {
		t.Skip("here commands are parted by namespaces")
	}
	if sandbox.Landlock() < 6 {
		t.Skip("this kernel's Landlock has no domain that leaves files alone")
	}
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), layersEnv+"=to do")
	out, err := c.CombinedOutput()
	if want := "could not be isolated from the other commands"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// forgeDir defines two functions that write /usr wherever a shell could report the
// directory that it ends in: to files of the box, and through the descriptors of all
// processes. They leave out the shell that they run in.
const forgeDir = `shopt -s nullglob
files() { for f in /run/user/.[!.]* /run/user/* /tmp/.cwd* /dev/shm/*; do echo /usr >"$f"; done 2>/dev/null; }
descriptors() { for f in /proc/[0-9]*/fd/[0-9][0-9]*; do [[ $f == /proc/$$/* || $f == /proc/$BASHPID/* ]] || echo /usr >"$f"; done 2>/dev/null; }
`

// No job can decide in which directory a later command runs: each shell reports its last
// directory on a descriptor that no other command can open.
func TestJobMovesNoCommand(t *testing.T) { testJobMoves(t, 99, 40) }

// The same is true if namespaces separate the commands.
func TestJobMovesNoCommandByNamespace(t *testing.T) { testJobMoves(t, 0, 20) }

func testJobMoves(t *testing.T, landlock, few int) {
	t.Helper()
	s, _ := world(t)
	s.SetLandlock(landlock)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	run := func(c sandbox.Cmd) string {
		t.Helper()
		c.Grant, c.Timeout = b.Grant(), min(time.Minute*testenv.Patience(t), 10*time.Minute) // what the profile allows
		r, err := b.Run(t.Context(), c)
		if err != nil || r.Status != sandbox.Exited {
			t.Fatalf("%q: %v, %v", c.Shell, r.Status, err)
		}
		return r.Dir
	}
	// a warm shell runs the first one
	ways := []sandbox.Cmd{{}, {Env: map[string]string{"A": "b"}}, {Stdin: []byte("input")}}
	// A command may report any directory as its own, and so may a process that it started.
	for i, c := range ways {
		c.Shell = "cd /tmp; trap - EXIT; bash -c " + quoted([]string{forgeDir + "descriptors"}) + "; :"
		if got := run(c); got != "/usr" {
			t.Errorf("way %d: what the command started says /usr, and the directory is %q", i, got)
		}
	}
	said := newToldLine()
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Background: true, Timeout: time.Hour, Record: said,
		Shell: forgeDir + "while :; do files; done &\nwhile :; do descriptors; done &\necho ready; wait",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Kill(0)
	<-said.line
	left, random := testenv.Cases(t, few)
	forged := 0
	for n := range left {
		c := ways[random.IntN(len(ways))]
		c.Shell = fmt.Sprintf("for ((i = %d; i > 0; i--)); do :; done; cd /tmp", random.IntN(3000))
		if got := run(c); got != "/tmp" {
			forged++
			t.Logf("case %d: after cd /tmp the directory is %q", n, got)
		}
	}
	if forged > 0 || j.Status() != sandbox.Running {
		t.Errorf("a job moved %d of %d later commands; it is %v", forged, left, j.Status())
	}
}

// A signal reaches all processes of a command, also SIGSTOP, which no process passes on,
// and those of a command with a pid namespace of its own.
func TestSignalsReachTheCommand(t *testing.T) {
	for wall, landlock := range map[string]int{"Landlock": 99, "namespace": 0} {
		t.Run(wall, func(t *testing.T) {
			s, _ := world(t)
			s.SetLandlock(landlock)
			b, err := s.Open(t.Context(), "box", grant(t))
			if err != nil {
				t.Fatal(err)
			}
			j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 50 & sleep 50; true", Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			are := func(state string) {
				t.Helper()
				var got []string
				if !testenv.Until(10*time.Second*testenv.Patience(t), func() bool {
					got = nil
					for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
						if p.Name == "sleep" {
							got = append(got, p.State)
						}
					}
					return slices.Equal(got, []string{state, state})
				}) {
					t.Errorf("the states of the processes are %q, want both %s", got, state)
				}
			}
			are("S")
			for _, step := range []struct {
				signal unix.Signal
				state  string
			}{{unix.SIGSTOP, "T"}, {unix.SIGCONT, "S"}} {
				if err := j.Signal(step.signal); err != nil {
					t.Fatal(err)
				}
				are(step.state)
			}
			if err := j.Signal(unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if r, err := j.Wait(t.Context()); err != nil || r.Signal != unix.SIGTERM {
				t.Errorf("the command ended with %+v, %v", r, err)
			}
		})
	}
}
