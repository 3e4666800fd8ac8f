package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

// execRules denies by default, so that each program that is allowed is allowed by a rule.
const execRules = `version: 1
defaults: {decision: deny, profile: p}
profiles:
  p: {exec: enforce}
  q: {}
rules:
  - {id: work, match: {command: ["make **", "git status **", "git push **", "true", "/opt/tool **", "rm **"]}, decision: allow}
  - {id: no-force, match: {command: "git push **", any_flag: ["-f", "--force"]}, decision: deny}
  - {id: ask-push, match: {command: "git push origin **"}, decision: ask}
  - {id: no-root, match: {command: "rm ** /"}, decision: deny}
  - {id: elsewhere, match: {command: "curl **"}, decision: allow, profile: q}
`

func TestDecideExec(t *testing.T) {
	g := policytest.GrantFor(t, execRules, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	if g.Exec() != policies.ExecEnforce {
		t.Fatalf("mode %v", g.Exec())
	}
	argv := func(s ...string) policies.Exec { return policies.Exec{Path: "/usr/bin/" + s[0], Argv: s} }
	said := (policies.Grant{}).DecideExec(nil, policies.Exec{Path: "/bin/ls"}).Stopped(1).Text() + "\n"
	many := append([]string{"rm"}, strings.Split(strings.Repeat("x ", 20_000), " ")...)
	for _, tt := range []struct {
		name string
		exec policies.Exec
		want policies.Verdict
		rule string
	}{
		{"allowed", argv("git", "status"), policies.Allow, "work"},
		{"denied", argv("git", "push", "-f"), policies.Deny, "no-force"},
		{"asked", argv("git", "push", "origin", "main"), policies.Ask, "ask-push"},
		{"no rule", argv("ls"), policies.Deny, "default"},
		{"what the program may start is not in doubt", argv("make", "-C", "$(X)"), policies.Allow, "work"},
		{"a wrapper of what is allowed", argv("timeout", "5", "git", "status"), policies.Allow, "default"},
		{"a wrapper of what is not", argv("timeout", "5", "ls"), policies.Deny, "default"},
		{"a wrapper of what is denied", argv("xargs", "git", "push", "-f"), policies.Deny, "default"},
		{"a shell with what is allowed", argv("sh", "-c", "git status; make all"), policies.Allow, "default"},
		{"a shell with a builtin that is not", argv("sh", "-c", "git status; echo > x"), policies.Deny, "default"},
		{"a shell whose script names a program by a variable", argv("sh", "-c", "$CC x"), policies.Deny, "default"},
		{"another file of an allowed name", policies.Exec{Path: "/tmp/git", Argv: []string{"git", "status"}}, policies.Deny, "default"},
		{"a file of the current directory", policies.Exec{Path: "git", Argv: []string{"git", "status"}}, policies.Deny, "default"},
		{"another file of a denied name", policies.Exec{Path: "/tmp/git", Argv: []string{"git", "push", "-f"}}, policies.Deny, "no-force"},
		{"by its path", policies.Exec{Path: "/opt/tool", Argv: []string{"tool", "x"}}, policies.Allow, "work"},
		{"a denied program that calls itself by an allowed name", policies.Exec{Path: "/usr/bin/git", Argv: []string{"true", "push", "-f"}}, policies.Deny, "no-force"},
		{"an allowed program that calls itself by a denied name", policies.Exec{Path: "/usr/bin/make", Argv: []string{"git", "push", "-f"}}, policies.Deny, "no-force"},
		{"no words at all", policies.Exec{Path: "/usr/bin/true"}, policies.Allow, "work"},
		{"a word with spaces is one", argv("git", "push -f"), policies.Deny, "default"},
		{"a word that would be a command in a shell", argv("make", "; git push -f"), policies.Allow, "work"},
		{"a cut list of words proves nothing", policies.Exec{Path: "/bin/rm", Argv: []string{"rm", "a"}, Cut: true}, policies.Deny, "default"},
		{"a cut list of words that no rule is about", policies.Exec{Path: "/usr/bin/ls", Argv: []string{"ls", "a"}, Cut: true}, policies.Deny, "default"},
		{"many words", policies.Exec{Path: "/bin/rm", Argv: many}, policies.Allow, "work"},
		{"many words, the last of them denied", policies.Exec{Path: "/bin/rm", Argv: append(many, "/")}, policies.Deny, "no-root"},
		{"allowed in another profile", argv("curl", "x"), policies.Deny, "elsewhere"},
	} {
		d := g.DecideExec(nil, tt.exec)
		said += d.Stopped(1).Text() + "\n"
		if d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%s: %v by %q (%s), want %v by %q", tt.name, d.Verdict, d.Rule, d.Reason, tt.want, tt.rule)
		}
		if !d.Grant.IsZero() || d.Verdict != policies.Allow && (d.Reason == "" || d.Instead == "" || d.Part == "") {
			t.Errorf("%s: the decision is not whole, or grants: %+v", tt.name, d)
		}
	}
	golden.Equal(t, "exec.golden", said)
}

// TestDecideExecThen checks decisions about the program that is started in place of a file,
// and about the file that a link leads to: a rule may refuse them, and the default does not
// apply to them.
func TestDecideExecThen(t *testing.T) {
	g := policytest.GrantFor(t, execRules, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	push := &policies.Exec{Path: "/usr/bin/git", Argv: []string{"/usr/bin/git", "push", "-f", "/opt/tool"}}
	shell := &policies.Exec{Path: "/bin/sh", Argv: []string{"/bin/sh", "/opt/tool"}}
	for name, tt := range map[string]struct {
		exec policies.Exec
		want policies.Verdict
		rule string
	}{
		"script":               {policies.Exec{Path: "/opt/tool", Argv: []string{"tool"}, Then: shell}, policies.Allow, "work"},
		"script of a denied":   {policies.Exec{Path: "/opt/tool", Argv: []string{"tool"}, Then: push}, policies.Deny, "no-force"},
		"two scripts":          {policies.Exec{Path: "/opt/tool", Argv: []string{"tool"}, Then: &policies.Exec{Path: "/tmp/x", Argv: []string{"/tmp/x"}, Then: push}}, policies.Deny, "no-force"},
		"link":                 {policies.Exec{Path: "/opt/tool", Target: "/usr/bin/git", Argv: []string{"tool", "push", "-f"}}, policies.Deny, "no-force"},
		"link to what is not":  {policies.Exec{Path: "/opt/tool", Target: "/opt/tool-1.2", Argv: []string{"tool"}}, policies.Allow, "work"},
		"link in a script":     {policies.Exec{Path: "/opt/tool", Argv: []string{"tool"}, Then: &policies.Exec{Path: "/tmp/x", Target: "/usr/bin/git", Argv: []string{"/tmp/x", "push", "-f"}}}, policies.Deny, "no-force"},
		"asked":                {policies.Exec{Path: "/opt/tool", Argv: []string{"tool"}, Then: &policies.Exec{Path: "/usr/bin/git", Argv: []string{"git", "push", "origin"}}}, policies.Ask, "ask-push"},
		"what is not allowed":  {policies.Exec{Path: "/tmp/y", Argv: []string{"y"}, Then: &policies.Exec{Path: "/usr/bin/true", Argv: []string{"true"}}}, policies.Deny, "default"},
		"a link to an allowed": {policies.Exec{Path: "/tmp/y", Target: "/usr/bin/true", Argv: []string{"y"}}, policies.Deny, "default"},
	} {
		if d := g.DecideExec(nil, tt.exec); d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%s: %v by %q (%s), want %v by %q", name, d.Verdict, d.Rule, d.Reason, tt.want, tt.rule)
		}
	}
}

// A program in a directory of the system that the profile lets the box write is not one of
// the system's: a rule that allows matches its path alone.
func TestDecideExecWritten(t *testing.T) {
	rules := `version: 1
defaults: {decision: deny, profile: p}
profiles:
  p: {exec: enforce, fs: {system: true, read: [/usr/share/x], write: [/usr/local, "/srv/tools:/usr/lib/tools", "/usr/games:/g"]}}
rules:
  - {id: work, match: {command: ["git **", "true", "/usr/local/bin/named **"]}, decision: allow}
`
	g := policytest.GrantFor(t, rules, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	for name, want := range map[string]policies.Verdict{
		"/usr/bin/git": policies.Allow, "/bin/git": policies.Allow, "/usr/share/x/git": policies.Allow, "/usr/localx/git": policies.Allow,
		"/usr/local/bin/git": policies.Deny, "/usr/lib/tools/git": policies.Deny, "/usr/games/git": policies.Deny,
		"/usr/local/bin/named": policies.Allow,
	} {
		if d := g.DecideExec(nil, policies.Exec{Path: name, Argv: []string{"git", "status"}}); d.Verdict != want {
			t.Errorf("%s: got %v by %s, want %v", name, d.Verdict, d.Rule, want)
		}
	}
	if d := g.DecideExec(nil, policies.Exec{Path: "/usr/bin/git", Target: "/usr/local/bin/git-2", Argv: []string{"git"}}); d.Verdict != policies.Deny {
		t.Errorf("a link to a file that the box writes: %v by %s", d.Verdict, d.Rule)
	}
	if d := g.DecideExec(nil, policies.Exec{Path: "/usr/local/bin/timeout", Argv: []string{"timeout", "5", "git", "status"}}); d.Verdict != policies.Deny {
		t.Errorf("a wrapper that the box writes: %v by %s", d.Verdict, d.Rule)
	}
	bin := policytest.GrantFor(t, strings.Replace(rules, "/usr/local,", "/usr/bin,", 1), policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	if d := bin.DecideExec(nil, policies.Exec{Path: "/bin/git", Argv: []string{"git"}}); d.Verdict != policies.Deny {
		t.Errorf("/bin/git where the box writes /usr/bin: %v by %s", d.Verdict, d.Rule)
	}
	// The workspace may lie among the host's programs.
	for name, want := range map[string]policies.Verdict{"/usr/src/app/git": policies.Deny, "/usr/src/apps/git": policies.Allow} {
		if d := g.DecideExec(nil, policies.Exec{Path: name, Argv: []string{"git"}}, "/usr/src/app"); d.Verdict != want {
			t.Errorf("%s with the workspace /usr/src/app: got %v by %s, want %v", name, d.Verdict, d.Rule, want)
		}
	}
	if d := g.DecideExec(nil, policies.Exec{Path: "/usr/bin/true", Target: "/usr/src/app/true", Argv: []string{"true"}}, "/usr/src/app"); d.Verdict != policies.Deny {
		t.Errorf("a link to a file of the workspace: %v by %s", d.Verdict, d.Rule)
	}
}

// A policy that was loaded after the call began decides as well.
func TestDecideExecNow(t *testing.T) {
	g := policytest.GrantFor(t, execRules, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	now := func(rules string) *policies.Policy {
		p, err := policies.Parse("now.yaml", []byte("version: 1\ndefaults: {decision: allow}\n"+rules))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	status := policies.Exec{Path: "/bin/git", Argv: []string{"git", "status"}}
	for rules, want := range map[string]policies.Verdict{
		"profiles: {p: {}}": policies.Allow,
		"profiles: {p: {}}\nrules: [{id: no, match: {command: \"git **\"}, decision: deny}]": policies.Deny,
		"profiles: {other: {}}": policies.Deny,
	} {
		if d := g.DecideExec(now(rules), status); d.Verdict != want {
			t.Errorf("%s: %v by %s, want %v", rules, d.Verdict, d.Rule, want)
		}
	}
	if d := g.DecideExec(now("profiles: {p: {}}"), policies.Exec{Path: "/bin/ls"}); d.Verdict != policies.Deny {
		t.Errorf("a newer policy allows what the call's did not: %+v", d)
	}
	push := policies.Exec{Path: "/bin/git", Argv: []string{"git", "push", "origin"}}
	for rules, want := range map[string]policies.Verdict{
		"profiles: {p: {}}": policies.Ask, // as the call's policy says
		"profiles: {p: {}}\nrules: [{id: no, match: {command: \"git **\"}, decision: deny}]": policies.Deny,
	} {
		if d := g.DecideExec(now(rules), push); d.Verdict != want {
			t.Errorf("%s, for a program that needs a question: %v by %s, want %v", rules, d.Verdict, d.Rule, want)
		}
	}
	if d := (policies.Grant{}).DecideExec(nil, status); d.Verdict != policies.Deny {
		t.Errorf("without a grant: %+v", d)
	}
}

// A person's approval of a call covers the programs that a rule asks about, but not those
// that a rule denies.
func TestDecideExecApproved(t *testing.T) {
	p, err := policies.Parse("exec.yaml", []byte(execRules))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Command: "git push origin main"})
	g := d.Approved().Grant
	if d.Verdict != policies.Ask || g.IsZero() {
		t.Fatalf("%+v", d)
	}
	for _, tt := range []struct {
		argv []string
		want policies.Verdict
	}{
		{[]string{"git", "push", "origin", "main"}, policies.Allow},
		{[]string{"git", "push", "origin", "-f"}, policies.Deny},
	} {
		if d := g.DecideExec(nil, policies.Exec{Path: "/usr/bin/git", Argv: tt.argv}); d.Verdict != tt.want {
			t.Errorf("%q: %v by %s, want %v", tt.argv, d.Verdict, d.Rule, tt.want)
		}
	}
}

// Conditions of rules see the arguments of the call that starts the program.
func TestDecideExecWhen(t *testing.T) {
	const rules = `version: 1
profiles: {p: {exec: enforce}}
rules:
  - {id: all, match: {tool: Bash}, decision: allow}
  - {id: long, match: {tool: Bash}, when: args.timeout > 600000, decision: ask}
  - {id: slow-git, match: {tool: Bash, command: "git **"}, when: args.timeout > 1000, decision: deny}
`
	g := policytest.GrantFor(t, rules, policies.Facts{Tool: "Bash", Command: "make", Args: map[string]any{"timeout": 5000.0, "command": "make"}})
	for program, want := range map[string]policies.Verdict{"make": policies.Allow, "git": policies.Deny} {
		if d := g.DecideExec(nil, policies.Exec{Path: "/bin/" + program, Argv: []string{program, "x"}}); d.Verdict != want {
			t.Errorf("%s: %v by %s, want %v", program, d.Verdict, d.Rule, want)
		}
	}
}

// The layers of the session decide about programs too.
func TestDecideExecLayers(t *testing.T) {
	p, err := policies.Parse("exec.yaml", []byte(execRules))
	if err != nil {
		t.Fatal(err)
	}
	l, err := policies.ParseLayer(policies.LayerSession, "plan.yaml", []byte("version: 1\nrules: [{id: planning, match: {command: \"git **\"}, decision: deny}]\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	f := policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"}
	for name, d := range map[string]policies.Decision{"with": p.With(l).Decide(f), "narrowed": l.Narrow(p.Decide(f), f)} {
		for program, want := range map[string]policies.Verdict{"make": policies.Allow, "git": policies.Deny} {
			e := policies.Exec{Path: "/usr/bin/" + program, Argv: []string{program, "status"}}
			if got := d.Grant.DecideExec(nil, e); got.Verdict != want {
				t.Errorf("%s, %s: %v by %s, want %v", name, program, got.Verdict, got.Rule, want)
			}
		}
	}
}

func TestExecMode(t *testing.T) {
	for text, want := range map[string]policies.ExecMode{
		"": policies.DefaultExec, "exec: off": policies.ExecOff, "exec: observe": policies.ExecObserve, "exec: enforce": policies.ExecEnforce,
	} {
		if got := policytest.GrantProfile(t, "fs: {system: true}\n"+text).Exec(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if _, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {p: {exec: enforced}}\n")); err == nil || !strings.Contains(err.Error(), "enforce") {
		t.Errorf("exec: enforced: %v; want a fault that names enforce", err)
	}
	a, b := policytest.GrantProfile(t, "exec: observe"), policytest.GrantProfile(t, "exec: enforce")
	if a.Covers(b) || b.Covers(a) {
		t.Error("a box of one mode serves calls of another")
	}
}

// BenchmarkDecideExec measures how long each start of a program waits with exec: enforce.
func BenchmarkDecideExec(b *testing.B) {
	g := policytest.GrantFor(b, execRules, policies.Facts{Tenant: "t", Tool: "Bash", Command: "true"})
	for _, n := range []int{2, 200, 16_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := policies.Exec{Path: "/usr/bin/make", Argv: append([]string{"make"}, make([]string, n)...)}
			b.ReportAllocs()
			for b.Loop() {
				g.DecideExec(nil, e)
			}
		})
	}
}
