package policies_test

import (
	"testing"

	"belljar.dev/policies"
)

// A redirection to a file of which only the beginning is known can lead anywhere: what
// follows may contain "..".
func TestTargetsThatAreNotKnown(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: ask}
profiles: {a: {}}
rules:
  - {id: tmp, match: {tool: Bash, command: "echo **", path: "/tmp/**"}, decision: allow}
  - {id: any, match: {tool: Bash, command: "pwd", path: "**"}, decision: allow}
`)
	open := parse(t, `version: 1
defaults: {decision: allow}
profiles: {a: {}}
rules: [{id: etc, match: {tool: Bash, path: "/etc/**"}, decision: deny}]
`)
	for command, want := range map[string][2]policies.Verdict{ // where the path is allowed, and where it is denied
		"echo a > /tmp/b":        {allow, allow},
		"echo a > /tmp/$x":       {ask, ask}, // /tmp/../etc/passwd
		"echo a > \"/tmp/b-$x\"": {ask, ask},
		"echo a > /tmp/*":        {ask, ask},
		"echo a > x/$x":          {ask, ask},
		"echo a > $x":            {ask, ask},
		"pwd > /tmp/$x":          {allow, ask},
		"echo a > /etc/x":        {ask, deny},
	} {
		for i, p := range []*policies.Policy{p, open} {
			if d := p.Decide(bash(command)); d.Verdict != want[i] {
				t.Errorf("%s: got %v by %s, want %v", command, d.Verdict, d.Rule, want[i])
			}
		}
	}
}
