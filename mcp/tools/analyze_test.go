package tools

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// If the server stops a helper because of its answer, the result does not say that it was
// stopped from outside.
func TestUnanswered(t *testing.T) {
	a := &analyses{&shells{backends: Backends{Log: slog.New(slog.DiscardHandler)}}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: it is text", errNotAnswer), "its answer is not valid. Nothing was measured. Instead: call again, or ask the person"},
		{io.ErrUnexpectedEOF, "it was stopped from outside. Nothing was measured. Instead: call again."},
		{io.ErrClosedPipe, "it was stopped from outside. "},
		{errors.New("invalid character"), "its answer is not valid. Nothing was measured. Instead: call again, or ask the person"},
	} {
		status := sandbox.Killed
		if errors.Is(c.err, errNotAnswer) {
			status = sandbox.Exited // it has answered, and ended by itself
		}
		r := a.unanswered(mcp.Call{}, sandbox.Result{Status: status}, c.err)
		if got := r.Content[0].Text; !r.IsError || !strings.Contains(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// The decision about a call, which may be a person's, covers the files that the call names.
// No file that a policy denies to cat is read.
func TestFileJudge(t *testing.T) {
	const head = "version: 1\ndefaults: {decision: allow, profile: p}\nprofiles: {p: {fs: {workspace: rw}}}\nrules:\n"
	const out, other = "/workspace/out/cover.out", "/workspace/out/other"
	for name, tt := range map[string]struct {
		rules      string
		out, other bool // whether the file is left out
	}{
		"no rule":        {`  - {id: r, match: {tool: Browser}, decision: deny, reason: x}`, false, false},
		"asked":          {`  - {id: r, match: {path: "/workspace/out/**"}, decision: ask}`, false, true},
		"cat is asked":   {`  - {id: r, match: {tool: Bash, command: "cat /workspace/out/*"}, decision: ask}`, false, true},
		"cat is denied":  {`  - {id: r, match: {tool: Bash, command: "cat out/*"}, decision: deny, reason: x}`, true, true},
		"tool is denied": {`  - {id: r, match: {tool: quality_gate, path: "/workspace/out/other"}, decision: deny, reason: x}`, false, true},
		"listed":         {`  - {id: r, match: {path: "/workspace/**"}, unless: {path: [/workspace, "/workspace/out/cover.*"]}, decision: deny, reason: x}`, false, true},
	} {
		policy, err := policies.Parse("p.yaml", []byte(head+tt.rules+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		j := newFileJudge(policy.Decide, policies.Facts{Tool: "quality_gate", Paths: []string{"/workspace", "/workspace/./out/cover.out"}})
		if a, b := j.leaveOut(out), j.leaveOut(other); a != tt.out || b != tt.other {
			t.Errorf("%s: the named file is left out: %v, want %v; the other: %v, want %v", name, a, tt.out, b, tt.other)
		}
	}
}
