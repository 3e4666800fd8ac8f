package policies_test

import (
	"strings"
	"testing"

	"belljar.dev/policies"
)

func TestRefusals(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(anchors+`
  - {id: no-plans, match: {tool: PlanMode}, decision: deny}
  - {id: no-keys, match: {tool: ReadImage, path: "**/.ssh/**"}, decision: deny, reason: "Keys stay\n  where they are."}
  - {id: shots, match: {tool: ReadImage, path: "/workspace/**"}, decision: allow, profile: readonly}
  - {id: tmp, match: {tool: ReadImage, path: "/tmp/**"}, decision: allow, profile: net}
`))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := policies.Parse("/etc/belljar/policy.yaml", []byte("version: 1\nprofiles: {offline: {}}\nrules:\n  - {id: ls, match: {tool: Bash, command: \"ls **\"}, decision: allow}\n"))
	if err != nil {
		t.Fatal(err)
	}
	image := func(s ...string) policies.Facts { return policies.Facts{Tool: "ReadImage", Paths: s} }
	tests := []struct {
		name  string
		p     *policies.Policy
		facts policies.Facts
	}{
		{"deny-part", p, bash("git status && git push --force origin main; ls")},
		{"deny-one-command", p, bash("git push -f")},
		{"deny-default-texts", p, bash("ls\nrm -rf /")},
		{"deny-tool", p, policies.Facts{Tool: "PlanMode"}},
		{"deny-path", p, image("/home/u/.ssh/id_ed25519")},
		{"deny-unreadable", p, policies.Facts{Tool: "ReadDocs", URLs: []string{"https://pkg.go.dev@evil.example/x"}}},
		{"deny-unknown-profile", p, policies.Facts{Tool: "Bash", Command: "ls", Profile: "online\nAllowed."}},
		{"deny-mixed-profiles", p, image("/workspace/a.png", "/tmp/b.png")},
		{"ask", p, bash("git push origin feature")},
		{"ask-unknown-word", p, bash("x=rm; echo; $x -rf \"\x1b[2J\u202e\" /\n")},
		{"ask-default", p, bash("make install")},
		{"ask-not-proved", p, bash("git log > /workspace/out.txt")},
		{"default-deny-command", closed, bash("make")},
		{"default-deny-not-proved", closed, bash("ls $HOME")},
		{"default-deny-tool", closed, policies.Facts{Tool: "WebSearch"}},
		{"long-part", closed, bash("make " + strings.Repeat("word ", 200))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, "refusal/"+tt.name+".golden", tt.p.Decide(tt.facts).Refusal("c-81f2")+"\n")
		})
	}
	if got := p.Decide(bash("ls")).Refusal("c-1"); got != "" {
		t.Errorf("an allowed call is refused: %q", got)
	}
	for _, d := range []policies.Decision{{}, {Verdict: policies.Ask}} {
		if got := d.Refusal(""); !strings.HasPrefix(got, "DENIED by policy") || !strings.Contains(got, "Nothing was run.") || strings.Contains(got, "Call id") {
			t.Errorf("%+v: got %q", d, got)
		}
	}
}
