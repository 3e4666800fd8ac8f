package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/tools"
)

// The server opens no file of the workspace for an analysis: the helper in the box does.
// The kernel says which process opens a file (fanotify(7)).
func TestTheServerReadsNoSource(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Root)
	p := newPlace(t)
	var files []string
	for _, name := range []string{"ws/main.go", "ws/a/b.py", "ws/c.rs"} {
		files = append(files, p.file(t, name, "package main\n\nfunc main() {}\n"))
	}
	watch, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_LARGEFILE)
	if err != nil {
		t.Fatalf("fanotify_init: %v", err)
	}
	defer unix.Close(watch)
	for _, file := range files {
		if err := unix.FanotifyMark(watch, unix.FAN_MARK_ADD, unix.FAN_OPEN, unix.AT_FDCWD, file); err != nil {
			t.Fatalf("watch %s: %v", file, err)
		}
	}
	server := 0
	for _, tool := range tools.ToolkitNames() {
		if !strings.HasPrefix(tool, "analyze_") && tool != "quality_gate" {
			continue
		}
		cmd := p.command(t.Context(), "toolkit", "--workspace", p.ws, "--state", p.state, tool, `{"query":"main"}`)
		if tool != "analyze_name_similarity" {
			cmd.Args[len(cmd.Args)-1] = `{}`
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tool, err, out)
		}
		server = cmd.Process.Pid
		openers := opened(t, watch)
		if len(openers) < len(files) && tool != "analyze_code_churn" {
			t.Errorf("%s: only %d opens were seen: nobody read the files", tool, len(openers))
		}
		if slices.Contains(openers, server) || slices.Contains(openers, os.Getpid()) {
			t.Errorf("%s: the server has opened a file of the workspace", tool)
		}
	}
	// This test opens a file on the host and sees that open: so the check above can fail.
	if _, err := os.ReadFile(filepath.Join(p.ws, "main.go")); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(opened(t, watch), os.Getpid()) {
		t.Error("an open of this process was not seen: the test proves nothing")
	}
}

// opened returns the processes that have opened a watched file since the last call of
// opened.
func opened(t *testing.T, watch int) (pids []int) {
	t.Helper()
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(watch, buf)
		if err != nil {
			return pids // no more events
		}
		// struct fanotify_event_metadata: len u32, vers u8, reserved u8, metadata_len u16, mask u64, fd s32, pid s32
		for b := buf[:n]; len(b) >= 24; b = b[binary.NativeEndian.Uint32(b):] {
			if fd := int32(binary.NativeEndian.Uint32(b[16:])); fd >= 0 {
				unix.Close(int(fd))
			}
			pids = append(pids, int(int32(binary.NativeEndian.Uint32(b[20:]))))
		}
	}
}

// The input schemas of the 14 tools together are small: each agent reads them.
func TestTheToolkitIsSmall(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	p := newPlace(t)
	p.flags = append(p.flags, "--toolkit")
	w := wire{era: "2026-07-28"}
	all, err := p.start(t, w).connect(t, w, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	size, seen := 0, 0
	for _, tool := range all.Tools {
		if !slices.Contains(tools.ToolkitNames(), tool.Name) {
			continue
		}
		seen++
		text, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if seen != 14 || size > 9000 {
		t.Errorf("got %d tools with input schemas of %d characters, want 14 of at most 9000", seen, size)
	}
}

// If the program of a running server is replaced on disk, the server starts the new program
// in its next box. The new program refuses to measure, because its results would be those
// of another version.
func TestAReplacedProgramDoesNotMeasure(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	p := newPlace(t)
	p.file(t, "ws/main.go", "package main\n\nfunc main() {}\n")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p.program = filepath.Join(p.dir, "belljar")
	for _, name := range []string{p.program, p.program + ".new"} {
		if err := os.WriteFile(name, self, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.flags = []string{"--toolkit"}
	s := p.start(t, wire{http: true})
	over := wire{http: true, era: "2025-06-18"}
	measure := func() string {
		return s.connect(t, over, nil).all(t, "analyze_complexity", map[string]any{})
	}
	if got := measure(); !strings.Contains(got, "1 function in 1 file") {
		t.Fatalf("got %q, want a function", got)
	}
	if err := os.Rename(p.program+".new", p.program); err != nil {
		t.Fatal(err)
	}
	if got := measure(); !strings.Contains(got, "belljar was replaced on disk since this server started") {
		t.Errorf("got %q, want a refusal of the new program", got)
	}
}

// The helper keeps what it has parsed in the home of the session's box: a second call of
// the session finds it, and another session does not.
func TestTheCacheIsInTheHomeOfTheSession(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	p := newPlace(t)
	p.file(t, "ws/main.go", "package main\n\nfunc main() {}\n")
	p.flags = []string{"--toolkit"}
	over := wire{http: true, era: "2025-06-18"}
	s := p.start(t, over)
	one, two := s.connect(t, over, nil), s.connect(t, over, nil)
	offline := func(c client) string {
		return c.all(t, "analyze_deep_context", map[string]any{"cache_strategy": "offline", "format": "json"})
	}
	one.all(t, "analyze_deep_context", nil)
	if got := offline(one); !strings.Contains(got, `"files":1,`) {
		t.Errorf("the same session: got %s, want a file of the cache", got)
	}
	if got := offline(two); !strings.Contains(got, `"files":0,`) {
		t.Errorf("another session: got %s, want no file", got)
	}
	const list = "ls ~/.cache/belljar-toolkit | grep -c segment"
	if got := one.all(t, "Bash", map[string]any{"command": list}); !strings.HasPrefix(got, "1\n") {
		t.Errorf("got %q, want one segment", got)
	}
}

// A document of the toolkit shows a hostile file name as plain text wherever it is printed,
// and the name can still be read back unchanged.
func TestDocumentsArePrintable(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	p := newPlace(t)
	const name = "c\u009b31m\u202e\u007f.go"
	p.file(t, "ws/"+name, "package main\n\nfunc main() { if true {} }\n")
	for _, args := range [][]string{
		{"analyze_complexity", "max_cyclomatic=1", "--format", "json"},
		{"analyze_deep_context", "--format", "json"},
		{"analyze_deep_context"},
		{"quality_gate", "complexity_threshold=1", "--format", "sarif"},
		{"quality_gate", "complexity_threshold=1", "--format", "junit"},
		{"analyze_comprehensive", "--format", "markdown"},
	} {
		out, err := p.command(t.Context(), append([]string{"toolkit", "--workspace", p.ws, "--state", p.state}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		if at := strings.IndexFunc(string(out), func(r rune) bool { return r != '\n' && r != '\t' && !printable.Rune(r) }); at >= 0 {
			t.Errorf("%v: %q is in the output", args, out[at:min(len(out), at+20)])
		}
		var v struct {
			TopFiles struct{ Rankings []struct{ File string } } `json:"top_files"`
		}
		if args[0] == "analyze_complexity" && (json.Unmarshal(out, &v) != nil || len(v.TopFiles.Rankings) != 1 || v.TopFiles.Rankings[0].File != name) {
			t.Errorf("%v: got %+v, want the name %q", args, v, name)
		}
	}
}
