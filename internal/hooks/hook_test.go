package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Checked(m).Run()) }

// put writes hooks. The keys of hooks have the form EVENT/NAME.
func put(t *testing.T, dir string, hooks map[string]string) {
	t.Helper()
	for name, text := range hooks {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// onHost returns the Host that runs hooks on this machine in tests.
func onHost(t *testing.T) Host {
	cgroup := testenv.CgroupDir(t)
	return Host{Workspace: "/the/workspace", Program: func() hostexec.Program {
		return hostexec.Program{Dir: "/", Boxes: hostexec.WrittenIn(), Inherit: os.Environ(), Cgroup: cgroup}
	}}
}

// made returns a set with one folder, whose hooks run on this machine. host names the hooks
// that are configured to run outside a box.
func made(t *testing.T, dir string, host []string, change func(*Config)) *Set {
	t.Helper()
	here := onHost(t)
	cfg := Config{Folders: []Folder{{Dir: dir}}, OnHost: host, Host: here, Box: here}
	if change != nil {
		change(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func event(data map[string]any) Event {
	return Event{Name: ToolUse, Session: "s-1", Tenant: "local", Time: time.Unix(1700000000, 0), Data: data}
}

// TestOutcomes checks the effect of each outcome of a hook on a call that waits for the
// hook. Agents and operators read these texts. L9: the time limit is 30 s by default.
func TestOutcomes(t *testing.T) {
	var got strings.Builder
	for _, tt := range []struct{ name, script string }{
		{"does nothing", "cat >/dev/null"},
		{"says something that is no JSON", "echo looks fine"},
		{"allows", `echo '{"decision": "allow"}'`},
		{"notes", `echo '{"note": "run the tests\nafterwards"}'`},
		{"notes what a terminal would not show", `echo '{"note": "run \u202eall\u009b2J of\u200b them"}'`},
		{"denies", `echo '{"decision": "deny", "reason": "not on a Friday"}'`},
		{"denies by status", "echo 'not on a Friday' >&2; exit 2"},
		{"denies without a word", "exit 2"},
		{"fails", "echo oops >&2; exit 1"},
		{"is killed", "kill -9 $$"},
		{"floods", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"},
		{"floods standard error", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >&2; done"},
		{"hangs", "sleep 1000 & sleep 1000"},
		{"breaks off its JSON", `echo '{"decision": "den'`},
		{"decides what is no decision", `echo '{"decision": "maybe"}'`},
		{"is no script", "((("},
	} {
		dir := t.TempDir()
		put(t, dir, map[string]string{"tool_use/sync-check.bash": tt.script})
		s := made(t, dir, []string{"tool_use/sync-check.bash"}, func(c *Config) {
			if tt.name == "hangs" {
				c.Timeout = 200 * time.Millisecond
			}
		})
		v := s.Emit(t.Context(), event(nil))
		switch {
		case tt.name == "is no script": // bash words this error in its own way
			v.Reason = "(as bash says it)"
		case tt.name == "is killed" && os.Geteuid() == 0 && testenv.CgroupDir(t) == "":
			// Process 1 of a pid namespace cannot kill itself.
			v = Verdict{Denied: true, By: "sync-check.bash", Reason: "the hook gave no answer: signal: killed"}
		}
		fmt.Fprintf(&got, "%s: denied %v by %q: %s %q\n", tt.name, v.Denied, v.By, v.Reason, v.Notes)
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool_use/sync-check.rb": "exit"})
	t.Setenv("PATH", t.TempDir())
	v := made(t, dir, []string{"tool_use/sync-check.rb"}, nil).Emit(t.Context(), event(nil))
	fmt.Fprintf(&got, "has no interpreter: denied %v by %q: %s %q\n", v.Denied, v.By, v.Reason, v.Notes)
	golden.Equal(t, "outcomes.golden", got.String())
}

// half is a directory that can only be read in part.
type half struct{}

func (half) Readdirnames(int) ([]string, error) { return []string{"log.py"}, unix.EIO }

// TestHalfADirectory checks that a folder that can only be read in part is an error: the
// hook that refuses may be in the other part.
func TestHalfADirectory(t *testing.T) {
	if all, err := names(half{}, maxHooks); err == nil {
		t.Errorf("got %v, want an error", all)
	}
}

// TestWhatAHookIsGiven checks that a hook gets the documented JSON, arguments and
// variables, for each language that is installed here.
func TestWhatAHookIsGiven(t *testing.T) {
	want := `{"arguments":{"command":"ls"},"event":"tool_use","session":"s-1","tenant":"local","time":"2023-11-14T22:13:20Z","tool":"Bash"}`
	all := map[string]string{
		"sync-a.sh":   `[ "$(cat)" = "$4" ] && [ "$4" = "$HOOK_JSON" ] && echo "{\"note\": \"$1 $2 $3 $HOOK_EVENT $HOOK_SESSION $HOOK_TIME\"}"`,
		"sync-b.bash": `[[ $(cat) == "$4" && $4 == "$HOOK_JSON" ]] && echo "{\"note\": \"$1 $2 $3 $HOOK_EVENT $HOOK_SESSION $HOOK_TIME\"}"`,
		"sync-c":      `[[ $(cat) == "$4" && $4 == "$HOOK_JSON" ]] && echo "{\"note\": \"$1 $2 $3 $HOOK_EVENT $HOOK_SESSION $HOOK_TIME\"}"`,
		"sync-d.py": `import sys, os, json
assert sys.stdin.read() == sys.argv[4] == os.environ["HOOK_JSON"]
e = os.environ
print(json.dumps({"note": " ".join(sys.argv[1:4] + [e["HOOK_EVENT"], e["HOOK_SESSION"], e["HOOK_TIME"]])}))`,
		"sync-e.js": `const a = process.argv, e = process.env
if (require("fs").readFileSync(0, "utf8") !== a[5] || a[5] !== e.HOOK_JSON) process.exit(1)
console.log(JSON.stringify({note: [...a.slice(2, 5), e.HOOK_EVENT, e.HOOK_SESSION, e.HOOK_TIME].join(" ")}))`,
		"sync-f.pl": `local $/; <STDIN> eq $ARGV[3] or exit 1; print qq({"note": "@ARGV[0..2] $ENV{HOOK_EVENT} $ENV{HOOK_SESSION} $ENV{HOOK_TIME}"})`,
		"sync-g.rb": `STDIN.read == ARGV[3] or exit 1; print %({"note": "#{(ARGV[0..2] + ENV.values_at("HOOK_EVENT", "HOOK_SESSION", "HOOK_TIME")).join(" ")}"})`,
	}
	needs := map[string]testenv.Thing{"bash": testenv.Bash, "python3": testenv.Python, "node": testenv.Node, "perl": testenv.Perl}
	for name, script := range all {
		program := interpreters[filepath.Ext(name)].program
		t.Run(name, func(t *testing.T) {
			if need, ok := needs[program]; ok {
				testenv.Need(t, need)
			} else if _, err := exec.LookPath(program); err != nil {
				return // few machines have this program, and no machine needs it
			}
			dir := t.TempDir()
			put(t, dir, map[string]string{"tool_use/" + name: script})
			ran, err := made(t, dir, nil, nil).Test(t.Context(), event(map[string]any{
				"tool": "Bash", "arguments": map[string]any{"command": "ls"}, "event": "something else",
			}))
			note := "tool_use s-1 2023-11-14T22:13:20Z tool_use s-1 2023-11-14T22:13:20Z"
			if err != nil || len(ran) != 1 || ran[0].Note != note || ran[0].Failure != "" {
				t.Fatalf("got %+v, %v, want the note %q", ran, err, note)
			}
		})
	}
	if text, err := event(map[string]any{"tool": "Bash", "arguments": map[string]any{"command": "ls"}}).text(); err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func TestEventsAreBounded(t *testing.T) {
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	many := make(map[string]any)
	for i := range 5000 {
		many[fmt.Sprint("name", i)] = strings.Repeat("ä", 100)
	}
	for name, data := range map[string]map[string]any{
		"long": {"command": strings.Repeat("ä", 1<<20)}, "deep": {"x": deep}, "many": {"arguments": many},
	} {
		text, err := event(data).text()
		if err != nil || len(text) > MaxEvent || !json.Valid(text) {
			t.Errorf("%s: got %d bytes, %v, want at most %d", name, len(text), err, MaxEvent)
		}
	}
}

// TestOrderAndNames checks that hooks that are waited for run first, by name, until one
// refuses; that hooks with "_" and "." are off; that a file that is not a hook is listed
// with the reason. C21: an event may have any name.
func TestOrderAndNames(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "x.sh")
	log := filepath.Join(t.TempDir(), "log")
	write := func(s string) string { return "echo " + s + " >>" + log }
	put(t, dir, map[string]string{
		"tool_use/sync-20-b.sh": write("b"), "tool_use/sync-10-a.sh": write("a"), "tool_use/_sync-off.sh": write("off"), "tool_use/.x.sh": write("off"),
		"tool_use/README.md": "x", "tool_use/prog.exe": "x", "tool_use/big.sh": strings.Repeat("#", MaxScript+1), "BAD NAME/x.sh": "x",
		"session_end/sync-1-no.sh": write("first") + "; exit 2", "session_end/sync-2-never.sh": write("never"), "session_end/later.sh": write("never"),
		"later/1.sh": write("c"),
	})
	put(t, filepath.Dir(outside), map[string]string{"x.sh": write("outside")})
	if err := os.Symlink(outside, filepath.Join(dir, "tool_use/link.sh")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "tool_use/fifo.sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := made(t, dir, nil, nil)
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, h := range all {
		fmt.Fprintf(&got, "%s/%s sync=%v off=%v %s\n", h.Event, h.Name, h.Sync, h.Off, h.Why)
	}
	golden.Equal(t, "list.golden", got.String())
	if v := s.Emit(t.Context(), event(nil)); v.Denied {
		t.Errorf("got %+v, want no refusal", v)
	}
	if v := s.Emit(t.Context(), Event{Name: SessionEnd}); !v.Denied || v.By != "sync-1-no.sh" {
		t.Errorf("got %+v, want that sync-1-no.sh refused", v)
	}
	s.Emit(t.Context(), Event{Name: "later"})
	if v := s.Emit(t.Context(), Event{Name: "nobody-has-this"}); v.Denied {
		t.Errorf("got %+v", v)
	}
	s.Close()
	s.Close()
	s.Emit(t.Context(), Event{Name: "later"})
	text, err := os.ReadFile(log)
	lines := strings.Fields(string(text))
	slices.Sort(lines[2:]) // belljar does not wait for the last hook, so its place varies
	if err != nil || !slices.Equal(lines, []string{"a", "b", "c", "first"}) {
		t.Errorf("got %q, %v", lines, err)
	}
}

// gate is a Runner whose programs end when the test allows it.
type gate struct {
	began chan struct{}
	end   chan struct{}
}

func (g gate) Run(ctx context.Context, _ Command) (int, error) {
	g.began <- struct{}{}
	select {
	case <-g.end:
		return 0, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// TestTheQueueIsBounded checks that hooks without sync- run four at the same time, that 64
// wait, and that further hooks are dropped and logged.
func TestTheQueueIsBounded(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool_use/x.sh": "x"})
	g := gate{make(chan struct{}, 100), make(chan struct{})}
	var mu sync.Mutex
	var b bytes.Buffer
	s := made(t, dir, nil, func(c *Config) {
		c.Box = g
		c.Log = slog.New(slog.NewTextHandler(&locked{&mu, &b}, nil))
	})
	for range workers {
		s.Emit(t.Context(), event(nil))
	}
	for range workers {
		<-g.began
	}
	for range maxQueue + 3 {
		s.Emit(t.Context(), event(nil))
	}
	mu.Lock()
	left := strings.Count(b.String(), "left out")
	mu.Unlock()
	if left != 3 {
		t.Errorf("got %d left out, want 3", left)
	}
	close(g.end)
	s.Close()
	if n := len(g.began); n != maxQueue {
		t.Errorf("got %d more that ran, want %d", n, maxQueue)
	}
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestAFolderBeneathIsNotLeft checks that hooks are refused if their folder in the
// workspace is a link to a directory outside it.
func TestAFolderBeneathIsNotLeft(t *testing.T) {
	base, outside := t.TempDir(), t.TempDir()
	put(t, outside, map[string]string{"tool_use/x.sh": "x"})
	if err := os.Symlink(outside, filepath.Join(base, ".belljar")); err != nil {
		t.Fatal(err)
	}
	s := made(t, "", nil, func(c *Config) { c.Folders = []Folder{{Dir: ".belljar", Beneath: base}} })
	if all, err := s.List(); err == nil || len(all) > 0 {
		t.Errorf("got %v, %v, want an error", all, err)
	}
	if v := s.Emit(t.Context(), event(nil)); !v.Denied || !strings.Contains(v.Reason, "leads out") {
		t.Errorf("got %+v, want a refusal", v)
	}
}

// TestOnHostIsByName checks that only the named hook of a folder runs outside a box, and
// that a name is refused if it means no hook or more than one.
func TestOnHostIsByName(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	put(t, dir, map[string]string{"tool_use/a.sh": "true", "tool_use/b.sh": "true"})
	put(t, other, map[string]string{"tool_use/a.sh": "true"})
	box := where{make(chan string, 9), "box"}
	host := where{box.to, "host"}
	s := made(t, dir, []string{"tool_use/a.sh"}, func(c *Config) { c.Box, c.Host = box, host })
	if _, err := s.Test(t.Context(), event(nil)); err != nil {
		t.Fatal(err)
	}
	if got := []string{<-box.to, <-box.to}; !slices.Equal(got, []string{"a.sh in host", "b.sh in box"}) {
		t.Errorf("got %q", got)
	}
	for name, want := range map[string]string{
		"tool_use/c.sh": "no such hook in the folders of hooks", "tool_use": "want EVENT/NAME", "../x/a.sh": "want EVENT/NAME",
		"tool_use/../a.sh": "want EVENT/NAME", "tool_use/": "want EVENT/NAME", "tool_use/a.sh": "have this name",
	} {
		_, err := New(t.Context(), Config{Folders: []Folder{{Dir: dir}, {Dir: other}}, OnHost: []string{name}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	_, err := New(t.Context(), Config{Folders: []Folder{{Dir: filepath.Base(dir), Beneath: filepath.Dir(dir)}}, OnHost: []string{"tool_use/a.sh"}})
	if err == nil || !strings.Contains(err.Error(), "a box can write it") {
		t.Errorf("a hook in the workspace: got %v", err)
	}
}

// where is a Runner that records where each hook runs.
type where struct {
	to   chan string
	name string
}

func (w where) Run(_ context.Context, c Command) (int, error) {
	w.to <- filepath.Base(c.Path) + " in " + w.name
	return 0, nil
}

// TestOnHostIsOurs checks that a hook does not run outside a box if another user could have
// written its file or one of its directories.
func TestOnHostIsOurs(t *testing.T) {
	const another = 61234 // UID of another user
	ways := map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"its group can write it": {func(path string) error { return os.Chmod(path, 0o770) }, "other users can write"},
		"others can write it":    {func(path string) error { return os.Chmod(path, 0o707) }, "other users can write"},
	}
	if os.Geteuid() == 0 { // only root can give a file to another user
		ways["another user's"] = struct {
			spoil func(path string) error
			want  string
		}{func(path string) error { return os.Chown(path, another, -1) }, "belongs to another user"}
	}
	for name, way := range ways {
		for _, open := range []string{"", "tool_use", "tool_use/sync-a.sh"} {
			dir := t.TempDir()
			put(t, dir, map[string]string{"tool_use/sync-a.sh": "true"})
			s := made(t, dir, []string{"tool_use/sync-a.sh"}, nil)
			if v := s.Emit(t.Context(), event(nil)); v.Denied {
				t.Errorf("before: %+v", v)
			}
			if err := way.spoil(filepath.Join(dir, open)); err != nil {
				t.Fatal(err)
			}
			if v := s.Emit(t.Context(), event(nil)); !v.Denied || !strings.Contains(v.Reason, way.want) {
				t.Errorf("%q: %s: got %+v", open, name, v)
			}
		}
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool_use/sync-a.sh": "true"})
	if err := os.Link(filepath.Join(dir, "tool_use/sync-a.sh"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if v := made(t, dir, []string{"tool_use/sync-a.sh"}, nil).Emit(t.Context(), event(nil)); !v.Denied || !strings.Contains(v.Reason, "second name") {
		t.Errorf("it has a second name: got %+v", v)
	}
}
