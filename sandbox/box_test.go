package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/limit"
)

// TestRun runs each script in two ways: in a new shell, and in a shell that waited for a
// script.
func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   string
		code   int
	}{
		{"output", "echo out; echo on >&1", "out\non\n", 0},
		{"exit code", "exit 7", "", 7},
		{"last command decides", "false; true", "", 0},
		{"unknown program", "nosuchprogram 2>/dev/null", "", 127},
		{"a signal ends it", "kill -9 $$", "", 137},
		{"a signal that it may handle ends it", "kill $$", "", 143},
		{"a syntax error names its line", "true\n)", "bash: -c: line 2: syntax error near unexpected token `)'\nbash: -c: line 2: `)'\n", 2},
		{"line numbers are the script's", "nosuch", "bash: line 1: nosuch: command not found\n", 127},
		{"the script's own trap wins", "trap 'echo bye' EXIT", "bye\n", 0},
		{"no variable of ours stays", "env | grep -c -e BELLJAR -e BASH_ENV", "0\n", 1},
		{"user", "id -u; id -un; id -G", "1000\nagent\n1000\n", 0},
		{"home", "cd; pwd; touch x && echo ok", "/home/agent\nok\n", 0},
		{"start directory", "pwd", "/workspace\n", 0},
		{"stdout by name", "echo x > /dev/stdout; (echo y > /dev/stderr) 2>&1; echo z | cat /dev/stdin", "x\ny\nz\n", 0},
		{"process substitution", "cat <(echo sub)", "sub\n", 0},
		{"pseudo terminal", "command -v script >/dev/null && script -qec 'tty' /dev/null | tr -d '\\r' || echo /dev/pts/0", "/dev/pts/0\n", 0},
		{"loopback works", "exec 2>/dev/null 3<>/dev/tcp/127.0.0.1/9 || echo refused", "refused\n", 0},
		{"descriptors", "ls /proc/self/fd | wc -l", "4\n", 0}, // 0, 1, 2 and the descriptor of ls itself
		{"empty stdin", "cat", "", 0},
		{"stdin is not a terminal", "test -t 0 || echo no", "no\n", 0},
		{"shm", "echo x > /dev/shm/a && cat /dev/shm/a", "x\n", 0},
		{"a file that ends too early", "exec 2>&1\necho a\nif true", "a\nbash: -c: line 4: syntax error: unexpected end of file\n", 2},
		{"special parameters", "echo $0 $_ $# $- $LINENO $SHLVL $BASH_SUBSHELL $? $OPTIND; echo $BASH_EXECUTION_STRING | wc -c; declare -p OLDPWD", "bash bash 0 hBc 1 1 0 0 1\n114\ndeclare -x OLDPWD\n", 0}, //nolint:dupword // it is what bash says
		{"no time has passed", "echo $SECONDS", "0\n", 0},
		{"trace", "exec 2>&1; set -x; echo hi", "+ echo hi\nhi\n", 0}, //nolint:dupword // it is what bash says
		{"functions and jobs", "declare -F; jobs; f() { caller; echo ${FUNCNAME[0]}; }; f", "1 NULL\nf\n", 0},
		{"quotes", `echo 'it'"'"'s' "\\ $(echo '$x')" \'`, "it's \\ $x '\n", 0},
		{"here document", "cat <<'E'\na'b\nE", "a'b\n", 0},
		{"errexit", "set -e; false; echo no", "", 1},
		{"unset variable", "set -u; echo $nope; echo no", "bash: line 1: nope: unbound variable\n", 127},
		{"exec", "exec echo x", "x\n", 0},
		{"braces that do not match", "echo a; }; echo b; {", "bash: -c: line 1: syntax error near unexpected token `}'\nbash: -c: line 1: `echo a; }; echo b; {'\n", 2},
		{"more than a pipe holds", "head -c 300000 /dev/zero | tr '\\0' x", strings.Repeat("x", 300_000), 0},
		{"many processes", "for i in $(seq 200); do /bin/true; done; echo $?", "0\n", 0},
	}
	cold, _ := openCold(t, grant(t))
	warm, _ := openBox(t, grant(t))
	shell(t, warm, "true")
	for _, tt := range tests {
		for name, b := range map[string]*sandbox.Box{"cold": cold, "warm": warm} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				if b == warm && !b.WaitWarm() {
					t.Fatal("there is no warm shell")
				}
				r, out := shell(t, b, tt.script)
				if r.Status != sandbox.Exited || r.Code != tt.code || out != tt.want {
					t.Errorf("%s: %v, code %d, output %q; want exited, code %d, output %q", tt.script, r.Status, r.Code, out, tt.code, tt.want)
				}
			})
		}
	}
}

func TestRunArgv(t *testing.T) {
	b, _ := openBox(t, grant(t))
	r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"printf", "%s|", "a b", "$HOME"}, Timeout: time.Second * 10})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, r.Output), "a b|$HOME|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"nosuchprogram"}, Timeout: time.Second})
	var refusal *limit.Refusal
	if !errors.As(err, &refusal) || refusal.Ran {
		t.Errorf("an unknown program gives %v, want a refusal that says nothing ran", err)
	}
}

// A command starts on its init's processor, and must be allowed to move to another one.
func TestProcessors(t *testing.T) {
	script := "grep Cpus_allowed: /proc/self/status"
	want, err := exec.Command("/bin/bash", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	box, _ := openBox(t, grant(t))
	for range 3 {
		if r, got := shell(t, box, script); r.Code != 0 || got != string(want) {
			t.Errorf("in a box: %q, outside: %q", got, want)
		}
	}
}

// lowEnv is the variable that tells TestRunUnderLowerHardLimits that its limits are lower.
const lowEnv = "BELLJAR_TEST_LOW_LIMITS"

// The hard limits with which the supervisor was started bound its boxes: a process in a user
// namespace cannot raise one (prlimit(2)), so a box that asks for more is not made. No box sets
// the limit of the stack (-s) yet.
func TestRunUnderLowerHardLimits(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	if os.Getenv(lowEnv) == "" {
		c := exec.CommandContext(t.Context(), "bash", "-c", `ulimit -n 300 -f 524288 -s 4096 && exec "$0" -test.run='^TestRunUnderLowerHardLimits$'`, os.Args[0])
		c.Env = append(os.Environ(), lowEnv+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("with lower hard limits; is each limit that root.go sets a row of rlimits? %v\n%s", err, out)
		}
		return
	}
	b, _ := openBox(t, grant(t))
	if r, got := shell(t, b, "ulimit -Hn; ulimit -Hf"); r.Code != 0 || got != "300\n524288\n" {
		t.Errorf("the box has %q of open files and of the size of a file, want 300 and 524288", got)
	}
}

func TestRunStdinEnvDir(t *testing.T) {
	b, dir := openBox(t, grant(t))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Shell: "cat; echo $X; pwd; cd /tmp", Stdin: []byte("in\n"),
		Env: map[string]string{"X": "y"}, Dir: "/workspace/sub", Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, r.Output), "in\ny\n/workspace/sub\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
	if r.Dir != "/tmp" {
		t.Errorf("last directory %q, want /tmp", r.Dir)
	}
	if r, _ := shell(t, b, "cd /tmp; exec true"); r.Dir != "" {
		t.Errorf("last directory after exec is %q, want none", r.Dir)
	}
}

// However many commands run at the same time, each reports the directory of its own shell.
func TestManyLastDirectories(t *testing.T) {
	// so many that the numbers of the init's descriptors exceed DirFile
	const many = boxinit.DirFile
	long := min(time.Minute*testenv.Patience(t), 10*time.Minute) // longest time that the profile allows
	b, _ := openCold(t, grant(t))
	if r, out := shell(t, b, "mkfifo /tmp/go; mkdir /tmp/{1.."+strconv.Itoa(many)+"}"); r.Code != 0 {
		t.Fatal(out)
	}
	var jobs []*sandbox.Job
	for n := range many {
		j, err := b.Start(t.Context(), sandbox.Cmd{
			Grant: b.Grant(), Timeout: long, Shell: fmt.Sprintf("read -r </tmp/go; cd /tmp/%d; exit $(ls /proc/self/fd | wc -l)", n+1),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Kill(0) })
		jobs = append(jobs, j)
	}
	feeder, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Timeout: long, Shell: fmt.Sprintf("exec 3<>/tmp/go; for ((i = 0; i < %d; i++)); do echo; done >&3; exec sleep 10000", many),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer feeder.Kill(0)
	for n, j := range jobs {
		r, err := j.Wait(t.Context())
		if want := fmt.Sprintf("/tmp/%d", n+1); err != nil || r.Dir != want || r.Code != 4 {
			t.Errorf("the shell that ended in %s reports %q, %v; its programs have %d descriptors, want 4", want, r.Dir, err, r.Code)
		}
	}
}

// If the limit on open files is below the number DirFile, commands run as usual, and no
// last directory is reported.
func TestFewOpenFiles(t *testing.T) {
	for files, want := range map[int]string{boxinit.DirFile + 1: "", boxinit.DirFile + 2: "/tmp"} {
		b, _ := openBox(t, policytest.GrantWith(t, fmt.Sprintf("open_files: %d", files)))
		for _, env := range []map[string]string{nil, {"A": "b"}, nil} {
			r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "cd /tmp; echo out", Env: env, Timeout: time.Minute})
			if out := read(t, r.Output); err != nil || r.Dir != want || out != "out\n" {
				t.Errorf("with %d open files: got %q in %q, %v, want %q", files, out, r.Dir, err, want)
			}
			if want != "" && !b.WaitWarm() {
				t.Error("there is no warm shell")
			}
		}
	}
}

func TestSplit(t *testing.T) {
	b, _ := openBox(t, grant(t))
	r, err := b.Run(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Shell: "for i in 1 2 3; do echo o$i; echo e$i >&2; done", Timeout: 10 * time.Second * testenv.Patience(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	out, errs, err := r.Output.Split(1000)
	if err != nil {
		t.Fatal(err)
	}
	if string(out.Text) != "o1\no2\no3\n" || string(errs.Text) != "e1\ne2\ne3\n" {
		t.Errorf("got %q and %q", out.Text, errs.Text)
	}
}

// The workspace is a directory of the host: files that the box makes belong to the
// directory's owner, and no file gets the bits that would give that owner's rights to
// others.
func TestWorkspace(t *testing.T) {
	b, dir := openBox(t, grant(t))
	write(t, filepath.Join(dir, "given"), "from outside\n")
	_, out := shell(t, b, lines("cat given", "echo more >> given", "echo new > made", "mkdir d", "chmod 755 made", "chmod u+s made 2>/dev/null || echo refused"))
	if want := "from outside\nrefused\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "given"))
	if err != nil || string(text) != "from outside\nmore\n" {
		t.Errorf("given holds %q, %v", text, err)
	}
	var owner, made syscall.Stat_t
	if err := errors.Join(syscall.Stat(dir, &owner), syscall.Stat(filepath.Join(dir, "made"), &made)); err != nil {
		t.Fatal(err)
	}
	if made.Uid != owner.Uid || made.Mode&0o7777 != 0o755 {
		t.Errorf("made belongs to %d with mode %o, want %d and 755", made.Uid, made.Mode&0o7777, owner.Uid)
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	b, dir := openBox(t, policytest.GrantProfile(t, "fs: {system: true, workspace: ro}"))
	write(t, filepath.Join(dir, "given"), "x\n")
	_, out := shell(t, b, "exec 2>/dev/null; cat given; echo y > given || echo kept; rm -f given || echo kept")
	if want := "x\n" + strings.Repeat("kept\n", 2); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

func TestTimeout(t *testing.T) {
	b, _ := openBox(t, grant(t))
	long := testenv.Seconds()
	r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "trap '' TERM; echo begun; sleep " + long, Timeout: 300 * time.Millisecond * testenv.Patience(t)})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.Output); r.Status != sandbox.TimedOut || got != "begun\n" {
		t.Errorf("%v with %q, want timed_out with what was written", r.Status, got)
	}
	if n := testenv.Sleeping(t, long); n > 0 {
		t.Errorf("%d processes are left, want 0", n)
	}
}

func TestCancel(t *testing.T) {
	b, _ := openBox(t, grant(t))
	ctx, cancel := context.WithCancel(t.Context())
	j, err := b.Start(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: "echo begun; sleep 1000", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Output().Wait(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := j.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait gives %v, want the context's cause", err)
	}
	if r := j.Kill(0); r.Status != sandbox.Killed {
		t.Errorf("killed job is %v", r.Status)
	}
	if r := j.Kill(0); r.Status != sandbox.Killed {
		t.Errorf("a second kill gives %v", r.Status)
	}
}

// A command ends with its main process, whatever it has left behind, and whichever process
// keeps its output open.
func TestLeftBehind(t *testing.T) {
	b, _ := openBox(t, grant(t))
	for _, script := range []string{
		"setsid sleep 1000 &",
		"(setsid bash -c 'trap \"\" TERM INT HUP; sleep 1000 & sleep 1000' &) ; true",
		"sleep 1000 & kill -STOP $!",
		"nohup sleep 1000 >/dev/null 2>&1 & disown",
		"for i in $(seq 50); do (sleep 1000 &) ; done",
	} {
		long := testenv.Seconds()
		r, _ := shell(t, b, strings.ReplaceAll(script, "1000", long))
		if r.Status != sandbox.Exited || r.Wall > 10*time.Second*testenv.Patience(t) {
			t.Errorf("%s: %v after %v", script, r.Status, r.Wall)
		}
		if n := testenv.Sleeping(t, long); n > 0 {
			t.Errorf("%s left %d processes", script, n)
		}
	}
}

// Nothing that a command can do to process 1 ends the box.
func TestInitSurvives(t *testing.T) {
	b, _ := openBox(t, grant(t))
	shell(t, b, "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; kill -9 -1; true")
	if _, out := shell(t, b, "echo alive"); out != "alive\n" {
		t.Errorf("output %q, want alive", out)
	}
	_, out := shell(t, b, "cat /proc/1/environ /proc/1/mem /proc/1/maps /proc/1/cmdline /proc/1/comm 2>/dev/null; ls -d /proc/1 /proc/1/fd /proc/1/root 2>/dev/null; ls /proc | grep -x 1; ls -d /proc/self")
	if out != "/proc/self\n" {
		t.Errorf("of process 1 a command sees %q", out)
	}
}

func TestBackground(t *testing.T) {
	b, _ := openBox(t, policytest.GrantWith(t, "jobs: 2, background: 1m, wall: 30s"))
	start := func() (*sandbox.Job, error) {
		return b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "read x; echo done", Timeout: time.Minute, Background: true, In: blocked(t)})
	}
	one, err := start()
	if err != nil {
		t.Fatal(err)
	}
	two, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if one.ID() != 1 || two.ID() != 2 {
		t.Errorf("ids %d and %d, want 1 and 2", one.ID(), two.ID())
	}
	if _, err := start(); !errors.Is(err, limit.ErrTooMany) {
		t.Errorf("a third job gives %v, want ErrTooMany", err)
	}
	fg, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 1000", Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := fg.Promote(time.Minute); !errors.Is(err, limit.ErrTooMany) {
		t.Errorf("promoting a third gives %v, want ErrTooMany", err)
	}
	if r := one.Kill(0); r.Status != sandbox.Killed {
		t.Errorf("killed job is %v", r.Status)
	}
	if err := fg.Promote(time.Minute); err != nil || fg.ID() != 3 {
		t.Errorf("promoting after one ended: %v, id %d", err, fg.ID())
	}
	if got := len(b.Jobs()); got != 3 {
		t.Errorf("%d jobs are listed, want 3", got)
	}
	if j, ok := b.Job(3); !ok || j != fg {
		t.Error("job 3 is not the promoted one")
	}
}

// Closing a box ends the commands in it, and later calls return ErrClosed.
func TestClose(t *testing.T) {
	b, _ := openBox(t, grant(t))
	j, err := b.Start(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "sleep 1000", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := j.Wait(t.Context()); err != nil || r.Status != sandbox.Killed {
		t.Errorf("the command is %v, %v; want killed", r.Status, err)
	}
	if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "true", Timeout: time.Second}); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("running in a closed box gives %v, want ErrClosed", err)
	}
	<-b.Broken()
}

func TestRefusals(t *testing.T) {
	b, _ := openBox(t, policytest.GrantWith(t, "wall: 1m"))
	ok := sandbox.Cmd{Grant: b.Grant(), Shell: "true", Timeout: time.Second}
	tests := map[string]struct {
		change func(*sandbox.Cmd)
		want   string
	}{
		"no grant":         {func(c *sandbox.Cmd) { c.Grant = policies.Grant{} }, "no grant"},
		"wider grant":      {func(c *sandbox.Cmd) { c.Grant = policytest.GrantWith(t, "memory: 64GiB") }, "cannot be widened"},
		"no timeout":       {func(c *sandbox.Cmd) { c.Timeout = 0 }, "not above zero"},
		"negative timeout": {func(c *sandbox.Cmd) { c.Timeout = -1 }, "not above zero"},
		"long timeout":     {func(c *sandbox.Cmd) { c.Timeout = time.Hour }, "above the 1m0s that profile"},
		"long script":      {func(c *sandbox.Cmd) { c.Shell = strings.Repeat("#", 130<<10) }, "at most 122880"},
		"NUL":              {func(c *sandbox.Cmd) { c.Shell = "echo \x00" }, "NUL"},
		"nothing to run":   {func(c *sandbox.Cmd) { c.Shell = "" }, "either shell text or an argument list"},
		"relative dir":     {func(c *sandbox.Cmd) { c.Dir = "x" }, "not an absolute path"},
		"missing dir":      {func(c *sandbox.Cmd) { c.Dir = "/nosuch" }, "/nosuch cannot be used"},
		"file as dir":      {func(c *sandbox.Cmd) { c.Dir = "/etc/passwd" }, "/etc/passwd cannot be used"},
		"bad variable":     {func(c *sandbox.Cmd) { c.Env = map[string]string{"a=b": "c"} }, "no program can be given"},
		"large stdin":      {func(c *sandbox.Cmd) { c.Stdin = make([]byte, 2<<20) }, "at most 1048576"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := ok
			tt.change(&c)
			_, err := b.Run(t.Context(), c)
			var refusal *limit.Refusal
			if !errors.As(err, &refusal) || refusal.Ran || !strings.Contains(refusal.Message, tt.want) {
				t.Errorf("got %v, want a refusal that says %q and that nothing ran", err, tt.want)
			}
		})
	}
	if _, err := b.Run(t.Context(), ok); err != nil {
		t.Errorf("after the refusals: %v", err)
	}
}

func TestOpenRefusals(t *testing.T) {
	s, _ := world(t)
	if _, err := s.Open(t.Context(), "zero", policies.Grant{}); err == nil {
		t.Error("a zero grant opened a box")
	}
	one, err := s.Open(t.Context(), "one", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "one", grant(t)); err == nil {
		t.Error("the same name opened two boxes")
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "one", grant(t)); err != nil {
		t.Errorf("the name is not free after Close: %v", err)
	}
	bare, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := bare.Open(t.Context(), "x", grant(t)); err == nil || !strings.Contains(err.Error(), "--workspace") {
		t.Errorf("a grant of a workspace without one gives %v", err)
	}
	if _, err := sandbox.New(sandbox.Config{Workspace: "/nosuch/dir"}); err == nil {
		t.Error("a workspace that does not exist was taken")
	}
}

// blocked returns an input that gives nothing until the test ends.
func blocked(t testing.TB) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); r.Close() })
	return r
}

func TestTerminal(t *testing.T) {
	b, _ := openBox(t, grant(t))
	var out strings.Builder
	in := blocked(t)
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Argv: []string{"bash", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo name > /dev/tty; exit 5"},
		Timeout: 10 * time.Second * testenv.Patience(t), In: in, Out: &out, Terminal: &sandbox.Size{Rows: 33, Columns: 44},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.Wait(t.Context())
	if err != nil || r.Code != 5 || out.String() != "33 44\r\nname\r\n" {
		t.Errorf("code %d, %q, %v; want 5 and the size it was given", r.Code, out.String(), err)
	}
	if err := j.Resize(sandbox.Size{Rows: 1, Columns: 1}); err != nil {
		t.Errorf("resizing an ended job: %v", err)
	}
}

// until is a text that closes seen when it contains a word.
type until struct {
	strings.Builder
	want string
	seen chan struct{}
}

func (u *until) Write(text []byte) (int, error) {
	had := strings.Contains(u.String(), u.want)
	n, err := u.Builder.Write(text)
	if !had && strings.Contains(u.String(), u.want) {
		close(u.seen)
	}
	return n, err
}

// The terminal of a command that has the box alone has a name in the box, which opens it
// again. It is not a terminal of the host or of another box.
func TestTerminalWithAName(t *testing.T) {
	testenv.Need(t, testenv.Python)
	s, _ := world(t)
	b, err := s.Open(t.Context(), "box", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	out := until{want: "mine", seen: make(chan struct{})}
	c := sandbox.Cmd{
		Grant: b.Grant(), Timeout: 20 * time.Second * testenv.Patience(t), In: blocked(t), Out: &out, Terminal: &sandbox.Size{Rows: 33, Columns: 44}, Alone: true,
		Argv: []string{"bash", "-c", `tty; python3 -c 'import os; print(os.ttyname(0), os.ttyname(2))'
			stty size <"$(tty)"; echo name >"$(tty)"; echo again >/dev/stderr; echo own >/dev/tty; ls /dev/pts; test -O /dev/pts/0 && echo mine
			until test "$(stty size)" = "11 22"; do sleep 0.01; done`},
	}
	j, err := b.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// No other command runs next to such a command, and it does not start next to another
	// one.
	if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: time.Second}); !errors.Is(err, limit.ErrTooMany) {
		t.Errorf("a command beside it: %v, want %v", err, limit.ErrTooMany)
	}
	other, err := s.Open(t.Context(), "other", grant(t))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r, err := other.Run(t.Context(), sandbox.Cmd{Grant: other.Grant(), Shell: "ls /dev/pts; exec 2>/dev/null 3<>/dev/pts/0", Timeout: 10 * time.Second})
	if err != nil || r.Code == 0 || !strings.HasPrefix(read(t, r.Output), "ptmx\n") {
		t.Errorf("another box: %q, %v", read(t, r.Output), err)
	}
	<-out.seen
	if err := j.Resize(sandbox.Size{Rows: 11, Columns: 22}); err != nil {
		t.Error(err)
	}
	if r, err := j.Wait(t.Context()); err != nil || r.Code != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	const want = "/dev/pts/0\r\n/dev/pts/0 /dev/pts/0\r\n33 44\r\nname\r\nagain\r\nown\r\n0  ptmx\r\nmine\r\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Argv: []string{"true"}, Timeout: 10 * time.Second}); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// Every call that is in progress when a supervisor is closed ends in a result or in
// ErrClosed, and nothing is left (TestMain).
func TestCloseInTheMiddle(t *testing.T) {
	for range 10 {
		s, err := sandbox.New(sandbox.Config{Workspace: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		g := grant(t)
		var wg sync.WaitGroup
		begun := make(chan struct{}, 4)
		for i := range 4 {
			wg.Go(func() {
				b, err := s.Open(t.Context(), fmt.Sprint(i), g)
				begun <- struct{}{}
				for err == nil {
					_, err = b.Run(t.Context(), sandbox.Cmd{Grant: g, Shell: "sleep 0.01 & exit 0", Timeout: time.Second})
				}
				if !errors.Is(err, sandbox.ErrClosed) && !strings.Contains(err.Error(), "init") {
					t.Errorf("in the middle of a close: %v", err)
				}
			})
		}
		<-begun
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// lateContext ends as soon as a command of the box has begun. While the command starts, Err
// waits for that.
type lateContext struct {
	context.Context
	box   *sandbox.Box
	begun string // path of a file that the command makes
}

func (c *lateContext) Err() error {
	if len(c.box.Jobs()) == 0 {
		return nil
	}
	for {
		if _, err := os.Stat(c.begun); err == nil {
			return context.Canceled
		}
		runtime.Gosched()
	}
}

// A command that has started is never reported as one that did not run, however late its
// caller gave up: otherwise its output would be lost.
func TestStartedCommandIsReturned(t *testing.T) {
	b, dir := openBox(t, policytest.Grant(t))
	ctx := &lateContext{Context: t.Context(), box: b, begun: filepath.Join(dir, "begun")}
	j, err := b.Start(ctx, sandbox.Cmd{Grant: b.Grant(), Shell: "echo begun; touch begun; sleep 60", Timeout: time.Minute, Background: true})
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() == nil {
		t.Fatal("the context has not ended")
	}
	if got := read(t, j.Kill(0).Output); got != "begun\n" {
		t.Errorf("got output %q, want %q", got, "begun\n")
	}
}
