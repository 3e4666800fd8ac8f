package policies_test

import (
	"strings"
	"testing"

	"belljar.dev/policies"
)

func TestOptionsAndVariables(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: log, match: {tool: Bash, command: "git log **", flags: [-n, -p, "--format=*", --stat], env: [CI, "LC_*"]}, decision: allow}
  - {id: free, match: {tool: Bash, command: "ls **"}, unless: {any_flag: [-f, "--out*"]}, decision: allow}
  - {id: here, match: {tool: Bash, command: "cat **", path: ["/workspace/**"]}, decision: allow}
  - {id: force, match: {tool: Bash, command: "git push **", any_flag: [-f, "--force*"]}, decision: deny}
  - {id: wipe, match: {tool: Bash, command: "rm **"}, unless: {flags: [-i]}, decision: deny}
  - {id: env, match: {tool: Bash, command: "make **", env: [CC]}, decision: deny}
  - {id: hooks, match: {tool: "*", path: ["**/.git/hooks/**", "/etc/passwd"]}, decision: deny}
`)
	tests := []struct {
		command string
		want    policies.Verdict
		rule    string
	}{
		{"git log", allow, "log"},
		{"git log -n 5 --format=%H --stat -- -", allow, "log"},
		{"git log --format=$x", ask, "default"},
		{"git log --output=x", ask, "default"},
		{"git log --outp x", ask, "default"},
		{"git log -np", ask, "default"},
		{"git log -- -x", ask, "default"},
		{"CI=1 LC_ALL=C git log", allow, "log"},
		{"CI=1 GIT_PAGER=x git log", ask, "force"},
		{"env CI=1 git log", allow, "log"},
		{"env GIT_PAGER=x git log", ask, "force"},
		{"CI=1; git log", allow, "log"},
		{"export CI=1", ask, "default"},
		{"PAGER=x; git log", ask, "force"},
		{"git log; PAGER=x", ask, "force"},
		{"x=1; git log", ask, "default"},
		{"for i in a b; do git log $i; done", allow, "log"},
		{"for i in -n --output=x; do git log $i; done", ask, "default"},

		{"ls -l", allow, "free"},
		{"ls -f", ask, "default"},
		{"ls -lf", ask, "default"},
		{"ls --output=x", ask, "default"},
		{"ls --ou=x", ask, "default"},

		{"cat a > /workspace/b < /workspace/c 2>&1", allow, "here"},
		{"cat a > b", ask, "hooks"},
		{"cat a > /tmp/b", ask, "default"},
		{"cat a > /workspace/../b", ask, "hooks"},
		{"cat a > /workspace/$x", ask, "hooks"},
		{"timeout 5 cat a > /workspace/b", allow, "here"},
		{"timeout 5 cat a > /tmp/b", ask, "default"},
		{"{ cat a; } > /workspace/b", allow, "here"},
		{"cat a > /workspace/.git/hooks/x", deny, "hooks"},
		{"cat a > .git/hooks/x", deny, "hooks"},
		{"cat < /etc/passwd", deny, "hooks"},
		{"cat < ../../etc/passwd", ask, "hooks"},
		{"cat < ~/x", ask, "hooks"},

		{"git push -f", deny, "force"},
		{"git push --force-with-lease=x origin", deny, "force"},
		{"git push -uf", ask, "force"},
		{"git push --forc", ask, "force"},
		{"git push -- -f", ask, "force"},
		{"git push $x", ask, "force"},
		{"git push \"a$x\"", ask, "default"},
		{"git push origin", ask, "default"},

		{"rm x", ask, "default"},
		{"rm -i x", ask, "default"},
		{"rm -r x", deny, "wipe"},
		{"rm $x", ask, "wipe"},

		// What is not known may have any options and variables.
		{". ./x.sh", ask, "force"},
		{"python3 -c 'x()'", ask, "force"},
		{"PATH=/tmp/e git push origin", ask, "force"},

		{"make", deny, "env"},
		{"CC=x make", deny, "env"},
		{"CXX=x make", ask, "force"},
	}
	for _, tt := range tests {
		d := p.Decide(bash(tt.command))
		if d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%s: got %v by %s (part %q: %s), want %v by %s", tt.command, d.Verdict, d.Rule, d.Part, d.Reason, tt.want, tt.rule)
		}
	}
	f := bash("git log")
	for name, want := range map[string]policies.Verdict{"CI": allow, "PATH": ask} {
		f.Env = []string{name}
		if d := p.Decide(f); d.Verdict != want {
			t.Errorf("git log with %s set by the call: got %v, want %v", name, d.Verdict, want)
		}
	}
}

// A rule with "unsure: pass" refuses only commands that it surely speaks about.
func TestUnsure(t *testing.T) {
	p := parse(t, head+`
rules:
  - {id: all, match: {tool: Bash}, decision: allow}
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: deny, unsure: pass}
  - {id: send, match: {tool: Bash, command: "mail **"}, unless: {any_flag: [-n]}, decision: ask, unsure: pass}
  - {id: wipe, match: {tool: Bash, command: "rm **", profile: net}, decision: deny, unsure: ask}
`)
	for command, want := range map[string]policies.Verdict{
		"git push":                  deny,
		"ls; timeout 5 git push -f": deny,
		`git push "$X"`:             deny,
		"git $X":                    allow,
		"$X push":                   allow,
		"python3 -c 'print(1)'":     allow,
		"git (":                     allow,
		"mail x":                    ask,
		"mail -n x":                 allow,
		"mail $X":                   allow, // $X may be -n
	} {
		if d := p.Decide(bash(command)); d.Verdict != want {
			t.Errorf("%q: got %v by %s, want %v", command, d.Verdict, d.Rule, want)
		}
	}
	f := bash("$X /")
	f.Profile = "net"
	if d := p.Decide(f); d.Verdict != ask || d.Rule != "wipe" {
		t.Errorf("got %v by %s, want ask by wipe", d.Verdict, d.Rule)
	}
}

func TestUnparsable(t *testing.T) {
	rules := "rules:\n  - {id: ls, match: {tool: Bash, command: \"ls **\"}, decision: allow}\n"
	all := "rules:\n  - {id: all, match: {tool: Bash, command: \"**\"}, decision: allow}\n"
	tests := []struct {
		defaults, rules string
		want            policies.Verdict
	}{
		{"decision: allow", rules, ask},
		{"decision: allow, unparsable: deny", rules, deny},
		{"decision: ask, unparsable: deny", rules, deny},
		{"decision: ask", rules, ask},
		{"decision: deny", rules, deny},
		{"decision: deny, unparsable: ask", rules, deny},
		{"decision: ask, unparsable: deny", all, allow},
	}
	for _, tt := range tests {
		p := parse(t, strings.Replace(head, "decision: ask", tt.defaults, 1)+tt.rules)
		for _, command := range []string{"ls\n'x", "ls\r", strings.Repeat("(", 70)} {
			if d := p.Decide(bash(command)); d.Verdict != tt.want {
				t.Errorf("%s, %.20q: got %v by %s (%s), want %v", tt.defaults, command, d.Verdict, d.Rule, d.Reason, tt.want)
			}
		}
	}
	faults(t, strings.Replace(head, "decision: ask", "decision: ask, unparsable: allow", 1))
	faults(t, head+"rules:\n  - {id: x, match: {tool: Bash, flags: -n}, decision: allow}\n")
}

func TestExplain(t *testing.T) {
	p := parse(t, anchors)
	d, parts := p.Explain(bash("env A=1 git push -f \"$x\" | cat"))
	if d.Verdict != deny || len(parts) != 3 || !parts[0].Passed || parts[1].Via != "env" || parts[1].Words != "git push -f ..." ||
		parts[1].Verdict != deny || parts[1].Rule != "no-force-push" || parts[2].Verdict != allow || parts[2].Rule != "reads" {
		t.Errorf("got %v and %+v", d.Verdict, parts)
	}
	if text := d.Refusal(""); !strings.Contains(text, "Part 2 of 3: git push -f ... (started by env)\n") {
		t.Errorf("got the refusal\n%s", text)
	}
	f := bash("ls")
	f.Profile = "none"
	if d, parts := p.Explain(f); d.Verdict != deny || len(parts) != 0 {
		t.Errorf("unknown profile: got %v and %+v", d.Verdict, parts)
	}
}
