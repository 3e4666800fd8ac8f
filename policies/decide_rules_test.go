package policies_test

import "testing"

// A command that only starts another one needs no rule. If it possibly matches a deny, that
// is a question, also where the default is to deny.
func TestWrapperThatMayBeDenied(t *testing.T) {
	p := parse(t, `version: 1
profiles: {a: {}}
rules:
  - {id: status, match: {tool: Bash, command: "git status **"}, decision: allow}
  - {id: long, match: {tool: Bash, command: ["timeout 9999 **", "git gc **"]}, decision: deny}
`)
	for command, want := range map[string]string{
		"timeout 5 git status":          "allow status",
		"timeout 9999 git status":       "deny long",
		"timeout \"9$T\" git status":    "ask long",
		"timeout \"9$T\" make":          "deny default",
		"timeout \"9$T\" git status >f": "deny default",
		"git \"g$X\"":                   "deny default",
	} {
		d := p.Decide(bash(command))
		if got := d.Verdict.String() + " " + d.Rule; got != want {
			t.Errorf("%s: got %s (part %q), want %s", command, got, d.Part, want)
		}
	}
}
