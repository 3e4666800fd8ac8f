package console

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/report"
)

// parsed returns a policy that denies one command, and its text.
func parsed(t *testing.T, denied string) (string, *policies.Policy) {
	t.Helper()
	text := `version: 1
profiles: {p: {fs: {system: true, workspace: rw}}}
defaults: {decision: allow, profile: p}
rules:
  - {id: never, match: {tool: Bash, command: "` + denied + `"}, decision: deny, reason: "it is not ours"}
`
	p, err := policies.Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return text, p
}

// The policy is shown, explains a call as the command line does, and is compared with a
// proposed policy.
func TestPolicy(t *testing.T) {
	_, now := parsed(t, "rm *")
	proposed, _ := parsed(t, "ls *")
	g := start(t, full, func(_ *rig, v *Views) { v.Policy, v.AuditDir = held{now}, logged(t, 30) })
	token := g.login(Viewer)
	var is struct {
		SHA256 string    `json:"sha256"`
		Text   string    `json:"text"`
		Rules  []RuleUse `json:"rules"`
	}
	g.send("GET", "api/v1/policy", token, nil).into(t, &is)
	if is.SHA256 != now.Hash() || is.Text == "" || len(is.Rules) != 1 {
		t.Errorf("got %+v", is)
	}
	for command, want := range map[string]string{"rm x": "deny", "ls; rm x": "deny", "ls": "allow"} {
		var got report.Explained
		args := map[string]any{"command": command}
		g.send("POST", "api/v1/policy/explain", token, map[string]any{"tool": "Bash", "arguments": args}).into(t, &got)
		own := report.Explain(now.Explain(policies.Facts{Tool: "Bash", Command: command, Args: args, Tenant: policies.LocalTenant}))
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(own)
		if got.Verdict != want || string(a) != string(b) {
			t.Errorf("%s: got %s, want %s: %s", command, a, want, b)
		}
	}
	var run struct {
		Calls, Changed int
		Changes        []report.Changed
	}
	g.send("POST", "api/v1/policy/replay", token, map[string]string{"policy": proposed}).into(t, &run)
	if run.Calls != 30 || run.Changed != 30 || len(run.Changes) != 1 || run.Changes[0].After.Rule != "never" || len(run.Changes[0].Examples) != replayExamples {
		t.Errorf("got %+v", run)
	}
	for _, tt := range []struct {
		path string
		body any
		want int
	}{
		{"policy/explain", struct{}{}, 400},
		{"policy/replay", map[string]string{"policy": "version: 2\nx: ["}, 400},
		{"policy/replay", map[string]string{"policy": strings.Repeat("[", 100_000)}, 400},
		{"policy/replay", map[string]string{"policy": strings.Repeat("x", maxPolicy)}, 413},
	} {
		if got := g.send("POST", "api/v1/"+tt.path, token, tt.body); got.status != tt.want {
			t.Errorf("%s: got %d %.200s, want %d", tt.path, got.status, got.body, tt.want)
		}
	}
}
