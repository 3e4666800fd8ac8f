package tools

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	boximages "belljar.dev/sandbox/images"
	"belljar.dev/sandbox/images/imagetest"
)

// consents is an Approver that approves everything. It calls use when an approval is used.
type consents struct {
	use   func()
	asked []policies.Facts
}

func (c *consents) Ways(string) ([]string, bool) { return []string{"command line"}, true }

func (c *consents) Ask(_ context.Context, q mcp.Question) (mcp.Approval, error) {
	c.asked = append(c.asked, q.Facts)
	return mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}, nil
}

func (c *consents) Wait(context.Context, string, time.Duration) (mcp.Approval, error) {
	return mcp.Approval{}, nil
}

func (c *consents) Use(context.Context, mcp.Question, string) (bool, error) {
	c.use()
	return true, nil
}

func (c *consents) Answer(context.Context, string, mcp.ClientAnswer) error { return nil }

// If a script changes after the approval was used and before the command starts, it is not
// run, and the command does not run in another directory.
func TestWhatChangesAfterAYesIsNotRun(t *testing.T) {
	person := &consents{use: func() {}}
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: work}
profiles: {work: {fs: {system: true, workspace: rw}, env: {PATH: "/workspace/bin:/usr/bin:/bin"}}}
rules: [{id: scripts, match: {command: ["bash *", "git **", "pwd"]}, decision: ask}]
`, func(cfg *mcp.Config) { cfg.Approver = person })
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(b.workspace, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("x.sh", "echo good\n")
	if err := os.Symlink("x.sh", filepath.Join(b.workspace, "link.sh")); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"Bash", "BackgroundBash"} {
		for range 2 { // the first call opens the box
			write("x.sh", "echo good\n")
			person.use = func() {}
			if r := b.call(tool, map[string]any{"command": "bash x.sh"}); r.IsError || !strings.Contains(words(r), "good") {
				t.Errorf("%s of what was approved: %s", tool, words(r))
			}
			person.use = func() { write("x.sh", "echo evil\n") }
			r := b.call(tool, map[string]any{"command": "bash x.sh"})
			if text := words(r); !r.IsError || strings.Contains(text, "evil") || !strings.Contains(text, "has changed since a person approved the call") {
				t.Errorf("%s of a script that was swapped: %s", tool, text)
			}
		}
	}

	// A program that takes the place of the system's is shown, and must not appear after
	// the approval.
	person.use = func() { write("bin/git", "#!/bin/sh\necho evil\n") }
	if r := b.call("Bash", map[string]any{"command": "git status"}); !r.IsError || strings.Contains(words(r), "evil") {
		t.Errorf("a git that appeared after the yes: %s", words(r))
	}
	person.use, person.asked = func() {}, nil
	b.call("Bash", map[string]any{"command": "git status"})
	if s := person.asked[0].Scene; len(s.Files) != 1 || s.Files[0].Path != "/workspace/bin/git" || s.Files[0].As != "git" {
		t.Errorf("a git of the workspace is shown as %+v", s)
	}

	// A link must not appear where no file was: the file that it leads to was not shown at
	// all.
	for _, c := range []struct{ command, link string }{{"bash new.sh", "new.sh"}, {"git log", "bin/git"}} {
		b.run("rm -f bin/git; printf '#!/bin/sh\necho evil\n' > evil.sh; chmod +x evil.sh")
		person.use = func() {
			if err := os.Symlink("/workspace/evil.sh", filepath.Join(b.workspace, c.link)); err != nil {
				t.Fatal(err)
			}
		}
		if r := b.call("Bash", map[string]any{"command": c.command}); !r.IsError || strings.Contains(words(r), "evil") {
			t.Errorf("%s, which became a link after the yes: %s", c.command, words(r))
		}
	}
	b.run("rm -f new.sh evil.sh bin/git")

	// The command runs in the directory that the person saw.
	b.run("mkdir -p a b; cd a")
	person.use = func() { b.run("cd /workspace/b") }
	if r := b.call("Bash", map[string]any{"command": "pwd"}); !strings.HasPrefix(words(r), "/workspace/a\n") {
		t.Errorf("approved in /workspace/a it runs in %s", words(r))
	}

	// A link is not followed, and the scene says so. The scene also counts the running
	// tasks.
	person.use, person.asked = func() {}, nil
	b.call("BackgroundBash", map[string]any{"command": "sleep 100"})
	b.call("Bash", map[string]any{"command": "bash link.sh", "cwd": "/workspace"})
	if s := person.asked[0].Scene; len(s.Doubts) != 1 || !strings.Contains(s.Doubts[0], "/workspace/link.sh is a link") || s.Tasks != 1 {
		t.Errorf("doubts about a link beside a task: %q, %d tasks", s.Doubts, s.Tasks)
	}
}

// A command that begins in a deep directory names a script by a path that is too long to be
// opened from elsewhere. The question shows this as a doubt.
func TestAScriptTooDeepToLookAtIsADoubt(t *testing.T) {
	person := &consents{use: func() {}}
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: work}
profiles: {work: {fs: {system: true, workspace: rw}}}
rules: [{id: scripts, match: {command: ["bash *"]}, decision: ask}]
`, func(cfg *mcp.Config) { cfg.Approver = person })
	const name = "a-script-with-quite-a-long-name.sh"
	for _, way := range []string{
		`while p=$(pwd) && n=$((4095 - ${#p} - 1)) && [ "$n" -gt 0 ]; do d=` + strings.Repeat("d", 250) + `; mkdir -p "${d:0:$n}" && cd "${d:0:$n}" || break; done`,
		`d=$(printf 'd/%.0s' {1..200}); mkdir -p $d && cd $d`,
	} {
		b.run("cd /workspace && { " + way + "; } && echo 'echo ran' >" + name)
		person.asked = nil
		r := b.call("Bash", map[string]any{"command": "bash " + name})
		if !strings.Contains(words(r), "ran") {
			t.Fatalf("it did not run, so the test proves nothing: %s", words(r))
		}
		if s := person.asked[0].Scene; len(s.Files) == 0 && len(s.Doubts) == 0 {
			t.Errorf("nothing is said of the script in a directory of %d bytes", len(s.Dir))
		}
		b.run("cd /workspace")
	}
}

// A program in a system directory is shown if the profile lets boxes write to that directory.
func TestWritableMountsAreShown(t *testing.T) {
	dir := t.TempDir()
	person := &consents{use: func() {}}
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: work}
profiles: {work: {fs: {system: true, workspace: rw, write: ["`+dir+`:/usr/local/bin"]}}}
rules: [{id: scripts, match: {command: ["bash **", "tool"]}, decision: ask}]
`, func(cfg *mcp.Config) { cfg.Approver = person })
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho mounted\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first call opens the box
		b.call("Bash", map[string]any{"command": "tool"})
	}
	for _, command := range []string{"tool", "bash /usr/local/bin/tool"} {
		person.asked = nil
		if r := b.call("Bash", map[string]any{"command": command}); !strings.HasPrefix(words(r), "mounted\n") {
			t.Errorf("%s: %s", command, words(r))
		}
		if s := person.asked[0].Scene; len(s.Files) != 1 || s.Files[0].Path != "/usr/local/bin/tool" {
			t.Errorf("%s: shown are %+v", command, s)
		}
	}
}

// The file that is shown is the file that is run. It is not another file with a similar
// name, and not just the first of several.
func TestWhatIsShownIsWhatIsRun(t *testing.T) {
	person := &consents{use: func() {}}
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: work}
profiles: {work: {fs: {system: true, workspace: rw}}}
rules: [{id: scripts, match: {command: ["bash **", "tool", "pwd"]}, decision: ask}]
`, func(cfg *mcp.Config) { cfg.Approver = person })
	b.run("mkdir -p evil/sub one two; echo 'echo good' > x.sh; echo 'echo evil' > evil/x.sh; ln -s evil/sub link; ln -s evil linked; " +
		"echo good > one/tool; printf '#!/bin/sh\necho evil\n' > two/tool; chmod +x two/tool")
	path := func(p string) map[string]any { return map[string]any{"PATH": p + ":/usr/bin:/bin"} }
	for _, c := range []struct {
		args   map[string]any
		prints string // output of the command
		files  []string
		doubt  string
	}{
		{map[string]any{"command": "bash link/../x.sh"}, "evil", nil, "/workspace/x.sh lies behind a link"},
		{map[string]any{"command": "bash evil/../x.sh"}, "good", []string{"/workspace/x.sh"}, ""},
		{map[string]any{"command": "cd -P link/.. && bash x.sh"}, "evil", []string{"/workspace/x.sh"}, "/workspace/x.sh lies behind a link"},
		{map[string]any{"command": "bash /proc/self/cwd/x.sh"}, "good", nil, "/proc/self/cwd/x.sh is in a file system of the kernel"},
		{map[string]any{"command": "bash " + strings.Repeat("./", 200) + strings.Repeat("evil/../", 100) + "x.sh"}, "good", []string{"/workspace/x.sh"}, ""},
		{map[string]any{"command": "cat x.sh | bash -s"}, "good", []string{"/workspace/x.sh"}, ""},
		{map[string]any{"command": "tool", "env": path("/workspace/one:/workspace/two")}, "evil", []string{"/workspace/one/tool", "/workspace/two/tool"}, ""},
		{map[string]any{"command": "tool", "env": path("/usr/../workspace/two")}, "evil", []string{"/workspace/two/tool"}, ""},
		{map[string]any{"command": "tool", "env": map[string]any{"PATH": "/usr/bin:/bin:/workspace/two"}}, "evil", []string{"/workspace/two/tool"}, ""},
		{map[string]any{"command": "tool", "env": path("/workspace/one/../../workspace/linked/../two")}, "evil", nil, "/workspace/two/tool lies behind a link"},
		{map[string]any{"command": "pwd", "cwd": "/workspace/linked"}, "/workspace/evil", nil, "/workspace/linked is a link"},
	} {
		person.asked = nil
		if c.args["cwd"] == nil {
			c.args["cwd"] = "/workspace" // an earlier command changed the directory
		}
		r := b.call("Bash", c.args)
		if len(person.asked) == 0 {
			t.Errorf("%v: nobody was asked: %s", c.args, words(r))
			continue
		}
		if !strings.HasPrefix(words(r), c.prints+"\n") {
			t.Errorf("%v printed %q, want %q", c.args, words(r), c.prints)
		}
		s := person.asked[0].Scene
		var files []string
		for _, f := range s.Files {
			files = append(files, f.Path)
		}
		if doubts := strings.Join(s.Doubts, "|"); !slices.Equal(files, c.files) || !strings.Contains(doubts, c.doubt) || c.doubt == "" && doubts != "" {
			t.Errorf("%v: shown are %v, doubts %q", c.args, files, doubts)
		}
	}
}

// Without a workspace, commands start in the working directory of the image. A person who is
// asked sees that directory, before the box is open and after that.
func TestAnImageSaysWhereCommandsStart(t *testing.T) {
	person := &consents{use: func() {}}
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {image: test}}}
rules: [{id: asked, match: {command: ["pwd -P", "pwd -L"]}, decision: ask}]
`, func(cfg *mcp.Config) { cfg.Approver = person })
	store, err := boximages.Open(boximages.Config{Dir: filepath.Join(b.state, sandbox.ImagesDir)})
	if err != nil {
		t.Fatal(err)
	}
	layout := imagetest.Layout(t, imagetest.Runtime{WorkingDir: "/srv/app"}, imagetest.Tar(t, imagetest.HostRoot(t, "bash")...))
	if _, err := store.Import(t.Context(), "test", boximages.Source{Path: layout}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, want string }{
		{"pwd -P", "/srv/app"}, {"pwd", "/srv/app"}, {"pwd -L", "/srv/app"}, {"cd /tmp", ""}, {"pwd -P", "/tmp"},
	} {
		person.asked = nil
		if r := b.call("Bash", map[string]any{"command": tt.command}); r.IsError || !strings.HasPrefix(words(r), tt.want) {
			t.Errorf("%s: got %s, want %s", tt.command, words(r), tt.want)
		}
		if len(person.asked) > 0 && person.asked[0].Scene.Dir != tt.want {
			t.Errorf("%s: the person saw %s, want %s", tt.command, person.asked[0].Scene.Dir, tt.want)
		}
	}
}

// A command may name thousands of files, and nothing is read of those that are too large.
func TestLargeFilesAreNotRead(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxSceneBytes+1); err != nil {
		t.Fatal(err)
	}
	l := looking{scene: &policies.Scene{}, left: maxSceneBytes, seen: make(map[string]bool), links: make(map[string]bool)}
	var all []*os.File // share the offset with the files that are looked at
	l.open = func(string) (*os.File, error) {
		f, err := os.Open(big)
		if err != nil {
			return nil, err
		}
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			return nil, err
		}
		all = append(all, os.NewFile(uintptr(fd), big))
		return f, nil
	}
	for _, name := range []string{"/workspace/a", "/workspace/b"} {
		l.file(t.Context(), name, "")
	}
	if len(all) != 2 || len(l.scene.Files) > 0 || len(l.scene.Doubts) != 2 || !strings.Contains(l.scene.Doubts[1], "too large") {
		t.Errorf("%d files were opened; the scene is %+v", len(all), l.scene)
	}
	for _, f := range all {
		if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != 0 {
			t.Errorf("%d bytes of a large file were read, want none; %v", at, err)
		}
		f.Close()
	}
}
