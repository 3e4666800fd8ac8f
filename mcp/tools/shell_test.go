package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/job"
	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

var _ = addCase("BackgroundBash", toolCase{
	hints:   "Destructive",
	refuses: []string{`{}`, `{"command":" "}`, `{"command":"sleep 1 &"}`, `{"command":"true","timeout_ms":0}`, `{"command":"true","delay_ms":10001}`, `{"command":"true","cwd":"/none"}`, `{"command":"true","env":{"A=B":"x"}}`, `{"command":"true","notify":"x"}`},
	unseen:  reasons{peopleRead: {"description"}},
})

var _ = addCase("Bash", toolCase{
	hints: "Destructive",
	works: `{"command":"printf 'a\\n\"b\" \\377'; exit 3"}`, says: "exit=3",
	refuses: []string{`{}`, `{"command":""}`, `{"command":7}`, `{"command":"true","timeout":0}`, `{"command":"true","max_output_bytes":1000000}`, `{"command":"true","on_timeout":"wait"}`, `{"command":"true","cwd":"/none"}`, `{"command":"a\u0000b"}`, `{"command":"true","comand":"x"}`, `{"command":"true","command":"false"}`, `[]`},
	unseen:  reasons{fewWords: {"on_timeout"}, peopleRead: {"description"}},
})

var _ = addCase("KillBgTask", toolCase{
	hints:   "Destructive Idempotent",
	refuses: []string{`{}`, `{"task_id":9}`, `{"task_id":-1}`, `{"task_id":"1"}`, `{"task_id":1.5}`, `{"task_id":1,"grace_ms":99999}`},
})

var _ = addCase("ListBgTasks", toolCase{
	hints: "ReadOnly Idempotent",
	works: `{}`, says: "No background",
	refuses: []string{`{"status":"running"}`, `"x"`},
})

var _ = addCase("ReadBgOutput", toolCase{
	hints:   "ReadOnly",
	refuses: []string{`{}`, `{"task_id":9}`, `{"id":"ap-none"}`, `{"task_id":1,"id":"ap-none"}`, `{"task_id":1,"wait_ms":60001}`, `{"task_id":1,"filter":"("}`, `{"task_id":1,"tail_lines":-1}`, `{"task_id":1,"offset":-1}`},
	unseen:  reasons{isKept: {"id"}, choosesShown: {"filter"}},
})

func TestMain(m *testing.M) {
	sandbox.Init()
	testenv.Main(m)
}

// bench is a server with the shell tools, and a session of it.
type bench struct {
	supervisor *sandbox.Supervisor
	t          *testing.T
	server     *mcp.Server
	shells     *shells
	session    *mcp.Session
	workspace  string
	state      string
	store      *store.Store
	jobs       *job.Book
	ended      chan job.Job // gets the jobs that have ended
}

// boxes starts a bench with a policy; an empty text stands for the default policy.
func boxes(t *testing.T, policy string, change ...func(*mcp.Config)) *bench {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	p := policies.Default()
	if policy != "" {
		var err error
		if p, err = policies.Parse("test.yaml", []byte(policy)); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, workspace: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), ended: make(chan job.Job, 256)}
	sup, err := sandbox.New(sandbox.Config{Workspace: b.workspace, State: b.state, Checkpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sup.Close() })
	b.supervisor = sup
	cfg := mcp.Config{Gate: p}
	for _, f := range change {
		f(&cfg)
	}
	if b.server, err = mcp.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.server.Shutdown(context.Background()) })
	b.store = store.New(b.state)
	t.Cleanup(func() { b.store.Close() })
	b.jobs = job.New(job.Config{
		Config: store.Config{Store: b.store, Place: b.workspace, Self: "me"},
		Dir:    filepath.Join(b.state, "jobs"), Ended: func(j job.Job) { b.ended <- j },
	})
	b.shells = newShells(Backends{Sandbox: sup.Home(), Log: slog.New(slog.DiscardHandler), Jobs: b.jobs})
	addShells(b.server, b.shells)
	b.session = b.open()
	return b
}

// open starts another session.
func (b *bench) open() *mcp.Session {
	b.t.Helper()
	s, err := b.server.Open(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(s.Close)
	return s
}

// call calls a tool in the bench's session.
func (b *bench) call(tool string, args map[string]any) *mcp.Result {
	b.t.Helper()
	return b.callIn(b.session, tool, args)
}

func (b *bench) callIn(s *mcp.Session, tool string, args map[string]any) *mcp.Result {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.server.Call(b.t.Context(), s, tool, raw)
	if err != nil {
		b.t.Fatalf("%s %s: %v", tool, raw, err)
	}
	enough(b.t, tool, r)
	return r
}

// run calls Bash with a command, and returns the text and the structured result.
func (b *bench) run(command string, more ...any) (string, bashOutput) {
	b.t.Helper()
	args := map[string]any{"command": command}
	for i := 0; i+1 < len(more); i += 2 {
		args[fmt.Sprint(more[i])] = more[i+1]
	}
	r := b.call("Bash", args)
	if r.IsError {
		b.t.Fatalf("Bash %q: %s", command, words(r))
	}
	return words(r), structure[bashOutput](b.t, r)
}

// words returns the text of a result.
func words(r *mcp.Result) string {
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, "\n")
}

// structure returns the structured result as a client reads it.
func structure[T any](t *testing.T, r *mcp.Result) T {
	t.Helper()
	var v T
	text, err := json.Marshal(r.Structured)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatalf("structured result %s: %v", text, err)
	}
	return v
}

func matches(t *testing.T, what, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("%s: got %q, want a match of %s", what, got, pattern)
	}
}

func TestBash(t *testing.T) {
	b := boxes(t, "")

	text, out := b.run("echo out; echo err >&2; exit 3")
	matches(t, "text", text, `\A(out\nerr|err\nout)\n\[belljar exit=3 duration_ms=\d+ cwd=/workspace\]\z`)
	if out.Status != "exited" || out.ExitCode == nil || *out.ExitCode != 3 || out.Stdout != "out\n" || out.Stderr != "err\n" {
		t.Errorf("got %+v, want exit code 3 and both streams", out)
	}
	want := b.supervisor.Limits()
	want[policies.LimitDisk] = limit.Enforced // this profile's storage is in memory
	if diff := cmp.Diff(want, out.Limits); diff != "" {
		t.Errorf("the limits are not as this host holds them (-want +got):\n%s", diff)
	}

	// The next command keeps the directory, and does not keep the environment.
	b.run("mkdir -p sub/deep && cd sub && export KEPT=1")
	if text, _ := b.run(`pwd; echo "kept=$KEPT"`); !strings.HasPrefix(text, "/workspace/sub\nkept=\n") {
		t.Errorf("second call: got %q, want the first one's directory without its environment", text)
	}
	if text, _ := b.run("pwd", "cwd", "deep"); !strings.HasPrefix(text, "/workspace/sub/deep\n") {
		t.Errorf("relative cwd: got %q", text)
	}
	if text, _ := b.run("pwd", "cwd", "/tmp"); !strings.HasPrefix(text, "/tmp\n") {
		t.Errorf("absolute cwd: got %q", text)
	}
	if text, _ := b.run(`cat; echo "$A"`, "stdin", "in ", "env", map[string]string{"A": "x"}, "cwd", "/workspace"); !strings.HasPrefix(text, "in x\n") {
		t.Errorf("stdin and env: got %q", text)
	}

	b.run("echo hello > file")
	if text, err := os.ReadFile(filepath.Join(b.workspace, "file")); err != nil || string(text) != "hello\n" {
		t.Errorf("workspace on the host: got %q, %v", text, err)
	}

	if text, out := b.run("kill -KILL $$"); out.Signal != "SIGKILL" || *out.ExitCode != 137 || out.Status != "exited" {
		t.Errorf("a command that kills itself: got %q, %+v", text, out)
	}
}

func TestBashRefuses(t *testing.T) {
	b := boxes(t, "")
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"command": ""}, "command: got nothing"},
		{map[string]any{"command": "ls", "timeout": -1}, "timeout: got -1, want 1 to 600000 milliseconds. Nothing was run."},
		{map[string]any{"command": "ls", "timeout": 600001}, "use BackgroundBash for longer commands"},
		{map[string]any{"command": "ls", "max_output_bytes": 0}, "max_output_bytes: got 0, want 1 to 262144 bytes"},
		{map[string]any{"command": "ls", "on_timeout": "explode"}, `on_timeout: got "explode", want kill or background`},
		{map[string]any{"command": "ls", "cwd": "/nowhere"}, "BLOCKED by the sandbox: the working directory /nowhere"},
		{map[string]any{"command": strings.Repeat("#", 200<<10)}, "BLOCKED by the sandbox: the command is 204800 bytes long"},
	} {
		r := b.call("Bash", c.args)
		if got := words(r); !r.IsError || !strings.Contains(got, c.want) {
			t.Errorf("%.80v: got error %v, %q\nwant %q", c.args, r.IsError, got, c.want)
		}
	}
}

// A command whose call is cancelled just after the command went to the background is ended:
// nobody gets its number.
func TestACancelledCallLeavesNoTask(t *testing.T) {
	b := boxes(t, "")
	b.run("true")
	sh := b.shells.all(b.session)[0]
	box, _ := sh.current()
	cmd, err := box.Start(t.Context(), sandbox.Cmd{Grant: sh.granted(), Shell: "sleep 1000", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Promote(time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	task, err := sh.settle(ctx, mcp.Call{Session: b.session}, &command{sh: sh, session: b.session, cmd: cmd}, ending{job: cmd.ID()}, bashPlan{show: outputShown})
	if task != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", task, err)
	}
	if got := cmd.Status(); got == sandbox.Running {
		t.Error("the command still runs")
		cmd.Kill(0)
	}
}

func TestBashDirectoryGone(t *testing.T) {
	b := boxes(t, "")
	b.run("mkdir gone; cd gone")
	if err := os.Remove(filepath.Join(b.workspace, "gone")); err != nil {
		t.Fatal(err)
	}
	r := b.call("Bash", map[string]any{"command": "rm -rf ./*"})
	if !r.IsError || !strings.Contains(words(r), "/workspace/gone") || !strings.Contains(words(r), "Nothing was run.") {
		t.Errorf("got %q, want a refusal: the command was meant for another directory", words(r))
	}
	if text, _ := b.run("pwd"); !strings.HasPrefix(text, "/workspace\n") {
		t.Errorf("the call after that: got %q, want it in /workspace", text)
	}
}

func TestBashTimeout(t *testing.T) {
	b := boxes(t, "")
	long := testenv.Seconds()
	text, out := b.run("echo begun; sleep "+long+" & sleep "+long, "timeout", 300)
	matches(t, "text", text, `\Abegun\n\[still running after 300ms and stopped .*\]\n\[belljar exit=137 status=timed_out signal=SIGKILL duration_ms=\d+ cwd=/workspace\]\z`)
	if !out.TimedOut || out.Status != "timed_out" || out.TaskID != 0 {
		t.Errorf("got %+v, want timed out", out)
	}
	if n := testenv.Sleeping(t, long); n > 0 {
		t.Errorf("after the timeout: %d processes are left", n)
	}
}

func TestBashToBackground(t *testing.T) {
	b := boxes(t, "")
	text, out := b.run("echo begun; read -r line < pipe; echo $line", "cwd", b.pipe(), "timeout", 300, "on_timeout", "background")
	matches(t, "text", text, `\Abegun\n\[still running after 300ms; it continues as background task 1, for at most 2h0m0s in all: .*\]\n\[belljar status=running task_id=1 duration_ms=\d+ cwd=/workspace\]\z`)
	if out.Status != "running" || out.ExitCode != nil || out.TaskID != 1 || !out.TimedOut {
		t.Errorf("got %+v, want a running task 1", out)
	}
	b.run("echo end > pipe")
	read := structure[readOutput](t, b.call("ReadBgOutput", map[string]any{"task_id": 1, "wait_ms": 10_000, "filter": "^end"}))
	if read.Output != "end\n" {
		t.Errorf("its rest: got %+v, want end", read)
	}
}

// Output of a task is unread until a call shows that the result with the output arrived.
func TestOutputWhoseResultIsLost(t *testing.T) {
	ended := make(chan struct{}, 16)
	b := boxes(t, "", func(c *mcp.Config) { c.OnSessionEnd = func(*mcp.Session) { ended <- struct{}{} } })
	task := map[string]any{"task_id": 1}
	var c *sdk.ClientSession
	for _, step := range []struct {
		tool string
		args map[string]any
	}{
		{"BackgroundBash", map[string]any{"command": "echo one; echo two", "delay_ms": 10_000}},
		{"ReadBgOutput", task},
		{"ReadBgOutput", map[string]any{"task_id": 1, "tail_lines": 1}},
		{"KillBgTask", task},
		{"ReadBgOutput", task},
	} {
		if c != nil {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			<-ended
		}
		c = clientOf(t, b.server, nil)
		if got := say(t, c, step.tool, step.args); !strings.Contains(got, "two\n") {
			t.Errorf("%s after a result that nobody may have read: %s", step.tool, got)
		}
	}
	if got := say(t, c, "ListBgTasks", nil); !strings.Contains(got, ", 0 bytes unread") {
		t.Errorf("after a call that followed the output: %s", got)
	}
	if got := say(t, c, "ReadBgOutput", task); !strings.HasPrefix(got, "(no new output)") {
		t.Errorf("the next read shows %s", got)
	}
}

// pipe makes a named pipe in the workspace, and returns its directory in the box.
func (b *bench) pipe() string {
	b.t.Helper()
	b.run("mkfifo pipe")
	return "/workspace"
}

func TestBashLongOutput(t *testing.T) {
	b := boxes(t, "")
	text, out := b.run("seq 20000", "max_output_bytes", 1000)
	if len(text) > 1500 || !strings.HasPrefix(text, "1\n2\n") || !strings.Contains(text, "\n20000\n[belljar exit=0") {
		t.Errorf("got %d bytes: %.100q ... %q", len(text), text, text[max(0, len(text)-150):])
	}
	m := regexp.MustCompile(`\[\.\.\. (\d+) of 108894 bytes left out here; read (output://\S+) \.\.\.\]`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no line says what was left out: %q", text)
	}
	res := b.shells.outputResource()
	middle, _, err := res.Read(t.Context(), b.session, m[2])
	if err != nil || !strings.Contains(string(middle), "\n10000\n") || fmt.Sprint(len(middle)) != m[1] {
		t.Errorf("%s: got %d bytes, %v, want the %s left out", m[2], len(middle), err, m[1])
	}
	whole, _, err := res.Read(t.Context(), b.session, out.OutputURI)
	if err != nil || int64(len(whole)) != out.OutputBytes {
		t.Errorf("%s: got %d bytes, %v, want %d", out.OutputURI, len(whole), err, out.OutputBytes)
	}

	// Another session cannot read the output, whether it has a box of its own or not.
	other := b.open()
	for range 2 {
		if _, _, err := res.Read(t.Context(), other, out.OutputURI); !errors.Is(err, mcp.ErrNotFound) {
			t.Errorf("from another session: got %v, want not found", err)
		}
		b.callIn(other, "Bash", map[string]any{"command": "true"})
	}
}

func TestBashProgressAndCancel(t *testing.T) {
	b := boxes(t, "")
	grant := policies.Default().Decide(policies.Facts{Tenant: b.session.Tenant(), Tool: "Bash", Command: "x"}).Grant
	ctx, cancel := context.WithCancel(t.Context())
	var told strings.Builder
	call := mcp.Call{Session: b.session, Tool: "Bash", Grant: grant, Progress: func(done, _ float64, message string) {
		told.WriteString(message)
		if done > 0 {
			cancel()
		}
	}}
	long := testenv.Seconds()
	r, err := b.shells.bash(ctx, call, bashInput{Command: "echo begun; sleep " + long + " & sleep " + long})
	if r != nil || !errors.Is(err, context.Canceled) || told.String() != "begun\n" {
		t.Errorf("got %v, %v, told %q, want the cancel after the first output", r, err, told.String())
	}
	if n := testenv.Sleeping(t, long); n > 0 {
		t.Errorf("after the cancel: %d processes are left", n)
	}
}

func TestBackground(t *testing.T) {
	b := boxes(t, "")
	if got := words(b.call("ListBgTasks", nil)); got != "No background processes found.\n[belljar tasks=0]" {
		t.Errorf("before any: got %q", got)
	}
	r := b.call("KillBgTask", map[string]any{"task_id": 1})
	if !r.IsError || !strings.Contains(words(r), "task 1 does not exist") {
		t.Errorf("no task: got %q", words(r))
	}

	b.pipe()
	start := structure[backgroundOutput](t, b.call("BackgroundBash", map[string]any{
		"command": "echo up; while read -r l; do echo got $l; done < pipe", "description": "echo", "delay_ms": 0,
	}))
	if start.TaskID != 1 || start.Status != "running" || start.ExitCode != nil || start.Cwd != "/workspace" {
		t.Errorf("started: got %+v", start)
	}
	read := func(args map[string]any) readOutput {
		t.Helper()
		args["task_id"] = 1
		r := b.call("ReadBgOutput", args)
		if r.IsError {
			t.Fatalf("ReadBgOutput %v: %s", args, words(r))
		}
		return structure[readOutput](t, r)
	}
	first := start.Output + read(map[string]any{"wait_ms": 10_000, "offset": 0}).Output
	if !strings.HasSuffix(first, "up\n") {
		t.Errorf("first output: got %q, want up", first)
	}
	read(map[string]any{}) // moves the cursor past the output, if the start did not
	if got := read(map[string]any{"wait_ms": 50}); got.Output != "" || got.Status != "running" || got.UnreadBytes != 0 {
		t.Errorf("nothing new: got %+v", got)
	}
	list := structure[listOutput](t, b.call("ListBgTasks", nil))
	if len(list.Tasks) != 1 || list.Tasks[0].Description != "echo" || list.Tasks[0].Status != "running" || list.Tasks[0].UnreadBytes != 0 {
		t.Errorf("list: got %+v", list)
	}
	matches(t, "list", words(b.call("ListBgTasks", nil)), `\A- \[task 1\] \(echo\) running, [\d.]+m?s, 0 bytes unread: echo up; .*\n\[belljar tasks=1\]\z`)

	// The writer closes the pipe, which ends the task.
	b.run("echo a > pipe")
	var all string
	for {
		got := read(map[string]any{"wait_ms": 10_000})
		all += got.Output
		if got.Status != "running" {
			if got.Status != "exited" || got.ExitCode == nil || *got.ExitCode != 0 {
				t.Errorf("end: got %+v", got)
			}
			break
		}
	}
	if all != "got a\n" {
		t.Errorf("read on: got %q, want only what is new", all)
	}
	if got := read(map[string]any{"offset": 3, "tail_lines": 1}); got.Output != "got a\n" || got.SkippedBytes != 0 {
		t.Errorf("again from an offset: got %+v", got)
	}
	killed := b.call("KillBgTask", map[string]any{"task_id": 1})
	if k := structure[killOutput](t, killed); killed.IsError || !k.Already || k.Status != "exited" {
		t.Errorf("kill of an ended task: got %q, %+v", words(killed), k)
	}
	r = b.call("ReadBgOutput", map[string]any{"task_id": 9})
	if !r.IsError || !strings.Contains(words(r), "The tasks of this session are: 1.") {
		t.Errorf("unknown task: got %q", words(r))
	}

	// A session sees its own tasks only.
	r = b.callIn(b.open(), "ReadBgOutput", map[string]any{"task_id": 1})
	if !r.IsError || !strings.Contains(words(r), "no background task was started in this session") {
		t.Errorf("from another session: got %q", words(r))
	}
}

func TestBackgroundEnds(t *testing.T) {
	b := boxes(t, "")
	start := b.call("BackgroundBash", map[string]any{"command": "echo broken; exit 4", "delay_ms": 10_000})
	matches(t, "instant failure", words(start), `\Abroken\nTask 1 has already ended\.\n\[belljar task_id=1 status=exited exit=4 duration_ms=\d+ cwd=/workspace\]\z`)

	b.call("BackgroundBash", map[string]any{"command": "trap '' TERM; echo up; while :; do sleep 1000; done", "delay_ms": 1})
	read := structure[readOutput](t, b.call("ReadBgOutput", map[string]any{"task_id": 2, "wait_ms": 10_000, "offset": 0}))
	if read.Output != "up\n" {
		t.Errorf("got %+v, want up", read)
	}
	killed := structure[killOutput](t, b.call("KillBgTask", map[string]any{"task_id": 2, "grace_ms": 100}))
	if killed.Status != "killed" || killed.Already || killed.Signal != "SIGKILL" {
		t.Errorf("one that ignores TERM: got %+v", killed)
	}

	b.call("BackgroundBash", map[string]any{"command": "sleep 1000", "timeout_ms": 300, "delay_ms": 1})
	read = structure[readOutput](t, b.call("ReadBgOutput", map[string]any{"task_id": 3, "wait_ms": 10_000}))
	if read.Status != "timed_out" || !read.TimedOut {
		t.Errorf("its time was up: got %+v", read)
	}

	for command, want := range map[string]string{
		"sleep 1 &":  "leave out the &",
		"sleep 1&\n": "leave out the &",
		"":           "command: got nothing",
	} {
		if r := b.call("BackgroundBash", map[string]any{"command": command}); !r.IsError || !strings.Contains(words(r), want) {
			t.Errorf("%q: got %q, want %q", command, words(r), want)
		}
	}
}

func TestReadBgOutputRefuses(t *testing.T) {
	b := boxes(t, "")
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"wait_ms": -1}, "wait_ms: got -1, want 0 to 60000 milliseconds."},
		{map[string]any{"wait_ms": 60001}, "wait_ms: got 60001"},
		{map[string]any{"tail_lines": -1}, "tail_lines: got -1"},
		{map[string]any{"offset": -1}, "offset: got -1"},
		{map[string]any{"filter": "("}, "missing closing )"},
		{map[string]any{"filter": strings.Repeat("a", 2000)}, "filter: got 2000 bytes"},
	} {
		c.args["task_id"] = 1
		if r := b.call("ReadBgOutput", c.args); !r.IsError || !strings.Contains(words(r), c.want) {
			t.Errorf("%.80v: got %q, want %q", c.args, words(r), c.want)
		}
	}
}

func TestSessionEndTakesAll(t *testing.T) {
	b := boxes(t, "")
	s := b.open()
	b.callIn(s, "BackgroundBash", map[string]any{"command": "sleep 1000"})
	all := b.shells.all(s)
	if len(all) != 1 {
		t.Fatalf("the session has %d shells", len(all))
	}
	box, ok := all[0].current()
	if !ok {
		t.Fatal("the session has no box")
	}
	s.Close()
	<-box.Broken()
	if all := b.shells.all(s); len(all) > 0 {
		t.Error("the session's shell is still known")
	}
	if j := <-b.ended; j.Status != job.Lost {
		t.Errorf("what ran at the end of its session: got %s, want lost", j.Status)
	}
}

func TestBrokenBoxIsReplaced(t *testing.T) {
	b := boxes(t, "")
	b.run("cd /tmp; echo x > file")
	box, ok := b.shells.all(b.session)[0].current()
	if !ok {
		t.Fatal("the session has no box")
	}
	box.Close()
	text, out := b.run("pwd; ls /tmp")
	if !strings.HasPrefix(text, "[The box of this session had ended") || !strings.Contains(text, "\n/workspace\n[belljar exit=0") || out.Notice == "" {
		t.Errorf("got %q, %+v, want a new box and a word about it", text, out)
	}
	if text, out := b.run("true"); out.Notice != "" {
		t.Errorf("the call after that: got %q, want no notice", text)
	}
}

// An open box does not get more rights than it was opened with: a call that needs more has
// a box of its own, and the first box stays as it is.
func TestWiderGrantHasItsOwnBox(t *testing.T) {
	b := boxes(t, `
version: 1
defaults: {decision: deny, profile: looking}
profiles:
  looking: {fs: {system: true, workspace: ro}}
  working: {fs: {system: true, workspace: rw}}
rules:
  - id: look
    match: {tool: Bash, command: "ls *"}
    decision: allow
  - id: work
    match: {tool: Bash, command: "touch *"}
    decision: allow
    profile: working
`)
	b.run("ls .")
	text, _ := b.run("touch file")
	if !strings.HasPrefix(text, `[The policy grants this call profile "working", and it granted earlier calls of this session another profile, so this call has a box of its own.`) || !strings.Contains(text, "[belljar exit=0") {
		t.Errorf("got %q, want a box of its own and a word about it", text)
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "file")); err != nil {
		t.Errorf("the command did not reach the workspace: %v", err)
	}
	box, ok := b.shells.all(b.session)[0].current()
	if !ok {
		t.Fatal("the first box is gone")
	}
	if r, err := box.Run(t.Context(), sandbox.Cmd{Grant: box.Grant(), Shell: "touch other", Timeout: time.Minute}); err != nil || r.Code == 0 {
		t.Errorf("got %+v, %v, want a command that cannot write", r, err)
	}
	if _, err := os.Stat(filepath.Join(b.workspace, "other")); err == nil {
		t.Error("the first box can write the workspace by now")
	}
}

func TestNoSandboxNoRun(t *testing.T) {
	server, err := mcp.New(mcp.Config{Gate: policies.Default()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(t.Context())
	Add(server, Backends{})
	s, err := server.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := server.Call(t.Context(), s, "Bash", json.RawMessage(`{"command":"true"}`))
	if err != nil || !r.IsError || !strings.Contains(words(r), "without a sandbox") {
		t.Errorf("got %v, %v, want an error result", r, err)
	}
}
