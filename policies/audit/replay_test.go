package audit

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// The record of a decision at the level request contains enough to decide the call again.
// If something is missing, Lacks says so.
func TestReadPast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := begin(t, config(dir))
	p, err := policies.Parse("p.yaml", []byte(`version: 1
defaults: {profile: a}
profiles: {a: {browser: {walls: sandboxed, act: true}}, b: {}}
rules:
  - {id: git, match: {tool: Bash, command: ["git status"]}, decision: allow}
  - {id: forms, match: {tool: Browser, act: submit, on: "https://a.example/**"}, decision: allow}
  - {id: env, match: {tool: Bash, path: ["/etc/**"]}, decision: deny}
`))
	if err != nil {
		t.Fatal(err)
	}
	all := []policies.Facts{
		{Tool: "Bash", Command: "git status", Args: map[string]any{"command": "git status", "timeout": 5.0}},
		{Tool: "Bash", Command: "git push", Args: map[string]any{"command": "git push"}, Profile: "b", Env: []string{"CI"}},
		{Tool: "Bash", Command: "git status", Paths: []string{"/etc/x"}, Args: map[string]any{"command": "git status", "cwd": "/etc/x"}},
		{Tool: "Bash", Command: "ls"}, // a call of belljar run, which has no arguments
		{Tool: "ext_x", ToolNames: []string{"ext_old"}, Upstream: "x", Args: map[string]any{"command": "no shell's"}, Annotations: map[string]bool{"readOnlyHint": true}},
		{Tool: "Browser", Acts: []policies.Act{{Kind: policies.ActSubmit, On: "https://a.example/", To: "https://b.example/", Method: "POST"}}, Args: map[string]any{}},
		{Tool: "Browser", Acts: []policies.Act{{Kind: policies.ActSecret, On: "https://a.example/", Field: "password", Secret: "pw"}, {Kind: policies.ActSave, Path: "/x"}}, Args: map[string]any{}},
		{Tool: "WebSearch", Hosts: []string{"a.example"}, URLs: []string{"https://a.example/x"}, Args: map[string]any{}},
	}
	for i := range all {
		all[i].Tenant, all[i].Session = "local", "s-1"
		f, d := all[i], p.Decide(all[i])
		r := Decision{
			CallID: "c", Tenant: f.Tenant, Session: f.Session, Tool: f.Tool, Args: f.Args, Verdict: d.Verdict.String(), Policy: p.Hash(),
			Facts: Facts{Profile: f.Profile, Command: f.Command, Env: f.Env, Paths: f.Paths, Hosts: f.Hosts, URLs: f.URLs, Acts: ActsOf(f.Acts), Upstream: f.Upstream, ToolNames: f.ToolNames, Annotations: f.Annotations},
		}
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Append(Decision{Verdict: "deny", Args: map[string]any{}, Facts: Facts{Acts: make([]Act, maxListed+1)}}); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"PASSWORD=letmein x", strings.Repeat("x", maxString+1)} {
		if err := l.Append(Decision{Verdict: "deny", Args: map[string]any{"command": command}, Facts: Facts{Command: command}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Append(Decision{Verdict: "deny", Args: map[string]any{"a": "b"}, Level: policies.AuditMeta}); err != nil {
		t.Fatal(err)
	}
	finish(t, l)
	for _, path := range []string{dir, filepath.Join(dir, currentName)} {
		var lacks []string
		n := 0
		err := ReadPast(t.Context(), path, func(got Past) error {
			if n < len(all) {
				all[n].Now = got.Time // conditions see the time of the call
				if diff := cmp.Diff(all[n], got.Facts); diff != "" || got.Lacks != "" || got.Policy != p.Hash() {
					t.Errorf("call %d (%s):\n%s", n, got.Lacks, diff)
				}
				if d := p.Decide(got.Facts); d.Verdict != got.Verdict {
					t.Errorf("call %d: decided %v then, %v now", n, got.Verdict, d.Verdict)
				}
			} else {
				lacks = append(lacks, got.Lacks)
			}
			n++
			return nil
		})
		want := []string{"long texts of it were cut", "secrets were taken out of it", "long texts of it were cut", "its arguments are not kept: the log's level is meta, or they were too large"}
		if diff := cmp.Diff(want, lacks); err != nil || n != len(all)+4 || diff != "" {
			t.Errorf("%s: %d calls, %v\n%s", path, n, err, diff)
		}
	}
	if err := ReadPast(t.Context(), filepath.Join(dir, "none"), func(Past) error { return nil }); err == nil {
		t.Error("a log that is not there was read")
	}
}
