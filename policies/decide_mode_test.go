package policies_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// A rule that is not enforced changes no verdict, and the decision states the verdict that
// the call would have had with the rule.
func TestModes(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: shell, match: {tool: "*Bash", command: "**"}, unless: {command: "make **"}, decision: allow}
  - {id: no-curl, mode: audit, match: {tool: Bash, command: "curl **"}, decision: deny}
  - {id: no-push, mode: warn, match: {tool: Bash, command: "git push **"}, decision: ask, reason: Pushing publishes., instead: git diff}
  - {id: make, mode: audit, match: {tool: Bash, command: "make **"}, decision: allow}
  - {id: no-rm, mode: enforce, match: {tool: Bash, command: "rm **"}, decision: deny}
`)
	type shadow struct {
		rule    string
		mode    policies.Mode
		verdict policies.Verdict
		part    string
	}
	tests := []struct {
		command  string
		want     policies.Verdict
		rule     string
		shadows  []shadow
		warnings []string
	}{
		{command: "ls", want: allow, rule: "shell"},
		{"ls && curl x", allow, "shell", []shadow{{"no-curl", policies.ModeAudit, deny, "curl x"}}, nil},
		{"$x y", ask, "no-rm", []shadow{
			{"no-curl", policies.ModeAudit, ask, "$x y"}, {"no-push", policies.ModeWarn, ask, "$x y"},
		}, nil},
		{"ls; git push", allow, "shell", []shadow{{"no-push", policies.ModeWarn, ask, "git push"}}, []string{
			"WARNING by policy rule no-push (policy.yaml:11): this command was let through, and will need a person's approval once the rule is enforced. Part 2 of 2: git push. Why: Pushing publishes. Do this instead: git diff",
		}},
		{"make", ask, "default", []shadow{{"make", policies.ModeAudit, allow, "make"}}, nil},
		{"make; make $x", ask, "default", []shadow{{"make", policies.ModeAudit, ask, "make"}}, nil},
		{"rm x; make", deny, "no-rm", []shadow{{"make", policies.ModeAudit, deny, "make"}}, nil},
		{"make; rm x; git push", deny, "no-rm", []shadow{{"make", policies.ModeAudit, deny, "make"}, {"no-push", policies.ModeWarn, deny, "git push"}}, nil},
		{"git push; curl x", allow, "shell", []shadow{{"no-curl", policies.ModeAudit, deny, "curl x"}, {"no-push", policies.ModeWarn, ask, "git push"}}, []string{
			"WARNING by policy rule no-push (policy.yaml:11): this command was let through, and will need a person's approval once the rule is enforced. Part 1 of 2: git push. Why: Pushing publishes. Do this instead: git diff",
		}},
	}
	for _, tt := range tests {
		d := p.Decide(bash(tt.command))
		if d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%s: got %v by %s, want %v by %s", tt.command, d.Verdict, d.Rule, tt.want, tt.rule)
		}
		var got []shadow
		for _, s := range d.Shadow {
			got = append(got, shadow{s.Rule, s.Mode, s.Verdict, s.Part})
		}
		if diff := cmp.Diff(tt.shadows, got, cmp.AllowUnexported(shadow{})); diff != "" {
			t.Errorf("%s: shadows (-want +got):\n%s", tt.command, diff)
		}
		if diff := cmp.Diff(tt.warnings, d.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", tt.command, diff)
		}
	}
}

// A tool that only a rule on trial denies is still listed. A tool that only a rule on trial
// allows is not listed.
func TestModesHideNothing(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: deny}
profiles: {offline: {}}
rules:
  - {id: shell, match: {tool: Bash}, decision: allow}
  - {id: no-shell, mode: warn, match: {tool: Bash}, decision: deny}
  - {id: plan, mode: audit, match: {tool: PlanMode}, decision: allow}
`)
	if p.HiddenFrom(policies.Facts{Tool: "Bash"}) || !p.HiddenFrom(policies.Facts{Tool: "PlanMode"}) {
		t.Errorf("hidden: Bash %v, PlanMode %v; want false, true", p.HiddenFrom(policies.Facts{Tool: "Bash"}), p.HiddenFrom(policies.Facts{Tool: "PlanMode"}))
	}
	if d := p.Decide(policies.Facts{Tool: "PlanMode"}); d.Verdict != deny || len(d.Shadow) != 1 || d.Shadow[0].Verdict != allow {
		t.Errorf("PlanMode: got %+v", d)
	}
}
