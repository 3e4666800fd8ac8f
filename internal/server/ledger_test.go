package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// newLedger returns a ledger of a policy with the audit block in text, and the policy.
func newLedger(t *testing.T, text string) (*ledger, *policies.Policy) {
	t.Helper()
	p, err := policies.Parse("p.yaml", []byte(`version: 1
defaults: {profile: box}
profiles:
  box: {fs: {system: true, workspace: rw}}
  net: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow: [a.example]}}
  held: {audit: required}
rules:
  - {id: all, match: {tool: "*"}, decision: allow}
  - {id: quiet, match: {tool: Quiet}, decision: allow, audit: none}
  - {id: brief, match: {tool: Brief}, decision: allow, audit: meta}
audit: {`+text+`}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Place: Place{Policy: p, Workspace: t.TempDir(), State: t.TempDir(), Log: slog.New(slog.DiscardHandler)},
		cfg:   Config{Command: "call"}, gate: &gate{},
	}
	s.places = newPlaces(s, &layout{site: &site{home: s.Workspace}, all: []string{s.Workspace}})
	s.gate.now.Store(p)
	if err := s.openLedger(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.audit, p
}

func decided(p *policies.Policy, profile string) mcp.Decided {
	f := policies.Facts{Tenant: "local", Session: "s-0123456789ABCDEF", Tool: "Bash", Profile: profile, Command: "true"}
	return mcp.Decided{Call: mcp.Call{ID: "c-1", Tool: "Bash"}, Facts: f, Decision: p.Decide(f)}
}

// written returns the kinds of the call records that are now in the file.
func written(t *testing.T, l *ledger) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, kind := range []string{"decision", "outcome"} {
		if strings.Contains(string(text), `"kind":"`+kind+`"`) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, " ")
}

// If a record is required, or the call may reach the network, the decision is written
// before the call may run. If the record is required and cannot be written, the call may
// not run.
func TestLedgerWaits(t *testing.T) {
	for _, tt := range [][2]string{{"required: true", "box"}, {"level: meta", "net"}, {"level: request", "held"}} {
		text, profile := tt[0], tt[1]
		l, p := newLedger(t, text)
		if err := (placed{ledger: l}).Decided(t.Context(), decided(p, profile)); err != nil {
			t.Fatal(err)
		}
		if got := written(t, l); got != "decision" {
			t.Errorf("%s: after the decision the file has %q", text, got)
		}
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
		err := placed{ledger: l}.Decided(t.Context(), decided(p, profile))
		if required := text != "level: meta"; errors.Is(err, audit.ErrClosed) != required {
			t.Errorf("%s: a log that cannot be written: got %v", text, err)
		}
	}
}

// A question to a person is on the disk before anybody can answer it.
func TestLedgerWaitsForQuestions(t *testing.T) {
	l, p := newLedger(t, "level: request")
	d := decided(p, "box")
	d.Decision.Verdict = policies.Ask
	if err := (placed{ledger: l}).Decided(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := written(t, l); got != "decision" {
		t.Errorf("after the decision the file has %q", got)
	}
}

// A rule decides how much is written of its calls.
func TestLedgerLevels(t *testing.T) {
	l, p := newLedger(t, "level: request")
	for _, tool := range []string{"Quiet", "Brief", "Other"} {
		f := policies.Facts{Tenant: "local", Session: "s-1", Tool: tool, Args: map[string]any{"text": "said to " + tool}}
		d := p.Decide(f)
		call := mcp.Call{ID: "c-" + tool, Tool: tool, Session: &mcp.Session{}}
		if err := (placed{ledger: l}).Decided(t.Context(), mcp.Decided{Call: call, Facts: f, Decision: d}); err != nil {
			t.Fatal(err)
		}
		placed{ledger: l}.Finished(mcp.Finished{Call: call, Decision: d, Result: mcp.Text("answer")})
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(l.dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for want, n := range map[string]int{`"c-Quiet"`: 0, `"c-Brief"`: 2, "said to Brief": 0, `"args_level":"meta"`: 1, `"c-Other"`: 2, "said to Other": 1} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%s stands there %d times, want %d:\n%s", want, got, n, text)
		}
	}
}

// A record has the annotations of a tool of an upstream. Those of the tools of belljar are
// known, so they are left out.
func TestLedgerHasAnnotationsOfUpstreams(t *testing.T) {
	l, p := newLedger(t, "level: request")
	d := decided(p, "box")
	d.Facts.Annotations = map[string]bool{"readOnlyHint": true}
	if r := l.decision(d); r.Facts.Annotations != nil {
		t.Errorf("a tool of belljar: got the annotations %v, want none", r.Facts.Annotations)
	}
	d.Facts.Upstream = "files"
	if r := l.decision(d); !r.Facts.Annotations["readOnlyHint"] {
		t.Errorf("a tool of an upstream: got the annotations %v, want readOnlyHint", r.Facts.Annotations)
	}
}

// No record contains the whole ID of a session.
func TestLedgerKeepsSessionsClosed(t *testing.T) {
	l, p := newLedger(t, "level: full")
	if err := (placed{ledger: l}).Decided(t.Context(), decided(p, "net")); err != nil {
		t.Fatal(err)
	}
	l.ran("c-1", policies.Decision{}, sandbox.Result{}, errors.New("no box"), time.Second)
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "audit.jsonl"))
	if err != nil || strings.Contains(string(text), "s-0123456789ABCDEF") || !strings.Contains(string(text), `"s-0123456789"`) {
		t.Errorf("%v:\n%s", err, text)
	}
	if got := written(t, l); got != "decision outcome" {
		t.Errorf("got %q, want the outcome of a command that did not start too", got)
	}
}

// A policy that would let boxes write to the log is refused while the log is kept.
func TestReloadKeepsTheLogOutOfReach(t *testing.T) {
	l, _ := newLedger(t, "level: meta")
	wide, err := policies.Parse("wide.yaml", []byte("version: 1\nprofiles: {a: {fs: {system: true, write: ["+filepath.Dir(filepath.Dir(l.dir))+"]}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.bears(wide, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "boxes of the profile a can write") {
		t.Errorf("got %v", err)
	}
	if err := (*ledger)(nil).bears(wide, []string{t.TempDir()}); err != nil {
		t.Errorf("without a log: %v", err)
	}
}

// The error for a path that cannot be resolved does not state that the path lies in the
// workspace.
func TestPathsThatCannotBeFollowed(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func(dir string, workspaces []string, p *policies.Policy) error{"state": config.Unseen, "log": outOfReach} {
		err := check(filepath.Join(loop, "x"), []string{t.TempDir()}, policies.Default())
		if err == nil || strings.Contains(err.Error(), "lies in") || !strings.Contains(err.Error(), "too many levels of symbolic links") {
			t.Errorf("%s: got %v, want that the links lead nowhere", name, err)
		}
	}
}
