package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
)

// talk contains what a person types and reads, with names in place of texts that differ
// from run to run.
type talk struct {
	*asking
	text strings.Builder
	ids  []string
}

func (k *talk) say(t *testing.T, args ...string) {
	t.Helper()
	out, err := k.approve(t, args...)
	fmt.Fprintf(&k.text, "$ belljar approve %s\n%s", strings.Join(args, " "), out)
	var status *exec.ExitError
	switch {
	case errors.As(err, &status):
		fmt.Fprintf(&k.text, "[exit %d]\n", status.ExitCode())
	case err != nil:
		t.Fatal(err)
	}
	k.text.WriteByte('\n')
}

// agent makes a call that is asked about, and returns the id of its approval.
func (k *talk) agent(t *testing.T, command string) string {
	t.Helper()
	fmt.Fprintf(&k.text, "# the agent: %s\n\n", command)
	id := k.waits(t, command)
	k.ids = append(k.ids, id)
	return id
}

var (
	spoken   = regexp.MustCompile(`\b[0-9]+ (s|min|h)\b`)
	sessions = regexp.MustCompile(`session s-[A-Z0-9]+\n`)
	who      = regexp.MustCompile(`[a-z0-9_.-]+ \(uid [0-9]+\)|\buid [0-9]+\b`)
)

func (k *talk) plain() string {
	text := k.text.String()
	for i, id := range k.ids {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("ap-%d", i+1))
	}
	text = strings.ReplaceAll(text, k.ws, "/srv/project")
	text = sessions.ReplaceAllString(text, "session SESSION\n")
	text = who.ReplaceAllString(text, "USER")
	return spoken.ReplaceAllString(text, "N $1")
}

// TestApproveTalk checks the texts that a person reads at `belljar approve`.
func TestApproveTalk(t *testing.T) {
	t.Parallel()
	k := &talk{asking: startAsking(t, "5m")}
	k.say(t, "list")
	one := k.agent(t, `X=1 timeout 5 echo publish "grün" >> notes < in; echo "$(date)" publish`)
	k.say(t, "list")
	k.say(t, "show", one)
	k.say(t, "yes", one, "--for", "session")
	k.say(t, "revoke", one)
	k.say(t, "yes", one)
	k.say(t, "yes", one)
	k.say(t, "no", one)
	k.say(t, "show", one)
	two := k.agent(t, "echo publish two")
	k.say(t, "yes", two, "--for", "ever")
	k.say(t, "yes", two, "--for", "9h")
	k.say(t, "no", two, "--note", "not today")
	k.say(t, "yes", two)
	k.say(t, "show", two)
	k.say(t, "revoke", two)
	three := k.agent(t, "echo publish three")
	k.say(t, "yes", three, "--for", "2h")
	k.say(t, "revoke", three)
	k.say(t, "yes", three)
	four := k.agent(t, "echo publish four")
	k.say(t, "yes", four)
	k.bash(t, "echo publish four")
	k.say(t, "show", four)
	k.say(t, "list", "--all")
	long := strings.Builder{}
	for i := range 70 {
		fmt.Fprintf(&long, "echo publish %d; ", i)
	}
	five := k.agent(t, long.String())
	k.say(t, "show", five)
	k.say(t, "yes", "ap-none")
	six := k.agent(t, `echo publish "six`)
	k.say(t, "show", six)
	words := "sort"
	for i := range 300 {
		words += fmt.Sprintf(" f%d", i)
	}
	k.text.WriteString("# the agent: sort f0 ... f299; echo publish, with an input of 12 lines and GIT_DIR\n\n")
	given := k.call(t, "Bash", map[string]any{"command": words + "; echo publish", "stdin": strings.Repeat("a line\n", 12), "env": map[string]string{"GIT_DIR": "/workspace/evil"}})
	k.ids = append(k.ids, given.StructuredContent.Refusal.ApprovalID)
	k.say(t, "show", given.StructuredContent.Refusal.ApprovalID)
	seven := k.agent(t, "echo release seven")
	k.say(t, "yes", seven, "--for", "session")
	k.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, k.out)
	k.say(t, "list")
	k.say(t, "yes")
	k.text.WriteString("# the policy was changed, and the server started again\n\n")
	k.policyIs(t, "3s")
	k.start(t)
	k.say(t, "yes", seven)
	eight := k.agent(t, "echo publish eight")
	k.call(t, "ReadBgOutput", map[string]any{"id": eight, "wait_ms": 20000})
	k.say(t, "yes", eight)
	k.say(t, "show", eight)

	golden.Equal(t, "approve.golden", k.plain())
}
