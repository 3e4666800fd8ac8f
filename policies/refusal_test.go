package policies_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
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
	nobody := parse(t, head+"ask: deny\nrules:\n  - {id: all, match: {tool: \"*\"}, decision: allow}\n")
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
		{"deny-questions", nobody, policies.Facts{Tool: "AskUserQuestion"}},
		{"long-part", closed, bash("make " + strings.Repeat("word ", 200))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			golden.Equal(t, "refusal/"+tt.name+".golden", tt.p.Decide(tt.facts).Refusal("c-81f2")+"\n")
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

// TestRefusalTexts compares the three texts and their members letter by letter: agents and
// the programs around them read both.
func TestRefusalTexts(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(anchors))
	if err != nil {
		t.Fatal(err)
	}
	push := p.Decide(bash("git status && git push origin feature"))
	denied := p.Decide(bash("git status && git push --force origin main; ls"))
	connect := policies.Block{
		What: "connect to pypi.example:443", Times: 3, Host: true, Reason: `profile "offline" has no network`, Rule: "default", Profile: "offline",
		Instead: "Use what is in the workspace.",
	}
	other := connect
	other.Times, other.Instead, other.Retry = 0, `To use the network, repeat the call with profile "dev" (a person is asked).`, policies.RetryProfile+"dev"
	minutes := 10 * time.Minute
	for name, r := range map[string]policies.Refusal{
		"denied":           denied.Denied("c-81f2"),
		"no-approver":      push.Denied("c-81f2"),
		"blocked":          connect.Refusal(),
		"blocked-profile":  other.Refusal(),
		"blocked-not-run":  policies.Block{Reason: "3 commands are running in this session; wait for some to end", Ran: "Nothing was run.", Instead: "Instead: try again."}.Refusal(),
		"blocked-profiled": policies.Block{What: "look-up of x.example", Host: true, Profile: "dev", Instead: "Allowed here: api.github.com."}.Refusal(),
		"blocked-exec":     p.Decide(bash("git push --force origin main")).Stopped(3),
		"blocked-exec-ask": p.Decide(bash("git push origin feature")).Stopped(1),
		"waiting":          push.Waits("c-81f4", policies.Question{ID: "ap-7q2x", Asked: []string{"command line", "webhook"}, Expires: minutes, Command: "belljar approve yes ap-7q2x"}),
		"waiting-short":    policies.Decision{Verdict: policies.Ask, Rule: "publish"}.Waits("", policies.Question{ID: "ap-7q2x", Expires: 50 * time.Second}),
		"declined":         push.Declined("c-81f4", policies.Answer{ID: "ap-7q2x", By: "uid 1000"}),
		"declined-note":    push.Declined("c-81f4", policies.Answer{ID: "ap-7q2x", By: "uid 1000", Note: "not before\nthe \u202erelease"}),
		"expired":          push.Declined("c-81f4", policies.Answer{ID: "ap-7q2x", Waited: minutes}),
		"itself":           push.Declined("c-81f4", policies.Answer{ID: "ap-7q2x", By: "the client c in 7 ms", Itself: true}),
		"revoked":          push.Declined("c-81f4", policies.Answer{ID: "ap-7q2x", By: "uid 1000", Revoked: true}),
	} {
		t.Run(name, func(t *testing.T) {
			members, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "refusal/text-"+name+".golden", r.Text()+"\n\n"+string(members)+"\n")
		})
	}
	if got := p.Decide(bash("git status")).Denied("c-1"); got.Text() != "" || got.Decision != "" {
		t.Errorf("an allowed call is refused: %+v", got)
	}
}

func TestSpoken(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 50 * time.Second: "50 s", 110 * time.Second: "110 s", 10 * time.Minute: "10 min",
		599 * time.Second: "10 min", 8 * time.Hour: "8 h", 90 * time.Minute: "90 min",
	} {
		if got := policies.Spoken(d); got != want {
			t.Errorf("%v is spoken %q, want %q", d, got, want)
		}
	}
}
