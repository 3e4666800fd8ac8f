package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// eachDescriptor runs the text that replaces ACT for each descriptor of the shell except
// the standard ones: the shell may have more than a script asks for.
const eachDescriptor = `for at in /proc/$$/fd/*; do
  fd=${at##*/}
  ((fd > 2)) && [[ -e $at ]] || continue
  ACT
done 2>/dev/null
`

// TestWarmShellIsNotForged checks that a script in a warm shell cannot forge what belljar
// reports about it: whether it ran, and how it ended. The script runs once, and the next
// script gets a new shell.
func TestWarmShellIsNotForged(t *testing.T) {
	const ran = "echo >>/workspace/ran\n"
	act := func(what string) string { return ran + strings.ReplaceAll(eachDescriptor, "ACT", what) }
	for _, tt := range []struct {
		name, script string
		code         int
		runs         string
	}{
		// These scripts break out of the shell text that they are put into. None of their
		// words may run before the shell has reported that it begins.
		{"ends the body that it is read as, directory", ":;}; echo >>/workspace/ran; printf d >&4; exit 127; f() { :", 2, ""},
		{"ends the body that it is read as, syntax", ":;}; echo >>/workspace/ran; printf s >&4; exit 127; f() { :", 2, ""},
		{"ends the eval", `'; echo >>/workspace/ran; printf d >&4; exit 127; : '`, 127, ""},

		// These scripts act immediately, while belljar only waits for the end of the shell.
		{"takes the report back by its number", "read -rN1 -t0.1 x </proc/self/fd/60; printf d >&60; read -rN1 -t0.1 x </proc/self/fd/4; printf d >&4\n" + ran + "exit 7", 7, "\n"},
		{"takes the report back", act(`read -rN1 -t0.1 <$at; printf d >$at; printf d >&$fd`) + "exit 7", 7, "\n"},
		{"takes the report back and runs on", act(`read -rN1 -t0.1 <$at; printf s >$at; printf s >&$fd`) + "read -t1 <>/dev/null; exit 7", 7, "\n"},
		{"takes the report back and is killed", act(`read -rN1 -t0.1 <$at; printf s >&$fd`) + "kill -9 $$", 137, "\n"},
		{"reports again", act(`printf r >&$fd; printf rd >$at`) + "exit 7", 7, "\n"},
		{"changes the mode of a pipe", act(`chmod 777 $at; read -rN1 -t0.1 <$at; printf s >$at`) + "exit 7", 7, "\n"},
		{"closes all", act(`eval "exec $fd>&-"`) + "exit 7", 7, "\n"},
		{"replaces all", act(`eval "exec $fd<>/dev/null"`) + "exit 7", 7, "\n"},
		{"is another shell", act(`:`) + "exec bash -c 'exit 7'", 7, "\n"},
		{"keeps copies in a child", act(`(exec {mine}<&$fd; while :; do sleep 1; done) & (exec {mine}>&$fd; while :; do sleep 1; done) &`) + "exit 7", 7, "\n"},
		{"writes a script for the next", act(`echo 'echo >>/workspace/ran; exit 9' >$at & echo 'echo >>/workspace/ran; exit 9' >&$fd &`) + "exit 7", 7, "\n"},
		{"fills all", act(`head -c 1000000 /dev/zero >$at & head -c 1000000 /dev/zero >&$fd &`) + "exit 7", 7, "\n"},
		{"makes reads fail", act(`dd iflag=nonblock count=0 <$at; exec {mine}<>$at`) + "exit 7", 7, "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, dir := openBox(t, grant(t))
			shell(t, b, "true")
			if !b.WaitWarm() {
				t.Fatal("there is no warm shell")
			}
			r, out := shell(t, b, tt.script)
			if r.Status != sandbox.Exited || r.Code != tt.code {
				t.Errorf("got %v, code %d, %q; want code %d", r.Status, r.Code, out, tt.code)
			}
			if !b.WaitWarm() {
				t.Fatal("there is no other warm shell")
			}
			if r, out := shell(t, b, "echo next; exit 3"); r.Status != sandbox.Exited || r.Code != 3 || out != "next\n" {
				t.Errorf("the next command: %v, code %d, %q", r.Status, r.Code, out)
			}
			text, err := os.ReadFile(filepath.Join(dir, "ran"))
			if err != nil && !errors.Is(err, os.ErrNotExist) || string(text) != tt.runs {
				t.Errorf("it ran %d times, %v; want %d", len(text), err, len(tt.runs))
			}
		})
	}
}

// TestWarmShellReadsNoOtherScript checks that a command which continues as a background job
// reads nothing from its shell's descriptors: the next script goes to another shell.
func TestWarmShellReadsNoOtherScript(t *testing.T) {
	b, dir := openBox(t, grant(t))
	shell(t, b, "mkfifo /tmp/up; true")
	if !b.WaitWarm() {
		t.Fatal("there is no warm shell")
	}
	long := time.Minute * testenv.Patience(t)
	j, err := b.Start(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Timeout: 30 * time.Second * testenv.Patience(t),
		Shell: strings.ReplaceAll(eachDescriptor, "ACT", `(while :; do cat <&$fd; cat $at; read -t0.01 <>/dev/null; done >>/workspace/stolen) &`) + "echo >/tmp/up; wait",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Kill(0)
	if err := j.Promote(long); err != nil {
		t.Fatal(err)
	}
	shell(t, b, "read -r </tmp/up")
	for range 3 {
		if !b.WaitWarm() {
			t.Fatal("there is no warm shell")
		}
		if r, out := shell(t, b, "echo secret; exit 3"); r.Code != 3 || out != "secret\n" {
			t.Errorf("got %v, code %d, %q", r.Status, r.Code, out)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "stolen")); err == nil && len(text) > 0 {
		t.Errorf("the job read %q", text)
	}
}

// TestNoDirectory checks that a script whose directory cannot be used does not run, whether
// its shell was warm or new, and that the error says so.
func TestNoDirectory(t *testing.T) {
	for name, open := range map[string]func(testing.TB, policies.Grant) (*sandbox.Box, string){"cold": openCold, "warm": openBox} {
		for dir, before := range map[string]string{
			"/workspace/gone": "true", "/tmp/gone": "true", "/tmp/closed": "mkdir -m 0 /tmp/closed",
		} {
			b, _ := open(t, grant(t))
			shell(t, b, before)
			if name == "warm" && !b.WaitWarm() {
				t.Fatal("there is no warm shell")
			}
			c := sandbox.Cmd{Grant: b.Grant(), Shell: "echo >>/tmp/ran", Dir: dir, Timeout: time.Minute}
			var refusal *limit.Refusal
			if _, err := b.Run(t.Context(), c); !errors.As(err, &refusal) || refusal.Ran || !strings.Contains(err.Error(), "working directory "+dir+" ") {
				t.Errorf("%s, %s: got %v, want a refusal that names it and says that nothing ran", name, dir, err)
			}
			c.Dir, c.Shell = "/tmp", "ls /tmp/ran"
			if r, err := b.Run(t.Context(), c); err != nil || r.Code != 2 {
				t.Errorf("%s, %s: it ran: %v, code %d", name, dir, err, r.Code)
			}
		}
	}
}
