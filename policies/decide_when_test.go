package policies_test

import (
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
)

const conditional = `version: 1
defaults: {decision: deny, profile: offline}
profiles: {offline: {}, dev: {}}
rules:
  - {id: docs, match: {tool: ReadDocs}, when: args.wait_ms <= 10000, decision: allow}
  - {id: no-patience, match: {tool: ReadDocs}, when: args.wait_ms > 60000, decision: deny}
  - {id: evening, match: {tool: ReadDocs}, when: now.getHours("+01:00") >= 20, decision: ask}
  - {id: only-git, match: {tool: "*Bash", command: "**"}, when: 'commands.all(c, c[0] == "git")', decision: allow}
  - {id: no-push, match: {tool: "*Bash", command: "**"}, when: 'commands.exists(c, c.size() > 1 && c[1] == "push")', decision: deny}
  - {id: jobs, match: {tool: BackgroundBash}, decision: allow}
  - {id: long, match: {tool: Bash}, when: args.timeout > 600000, decision: ask}
  - {id: proxied, match: {tool: "ext.*", upstream: github}, when: 'args.repo.startsWith("ours/")', decision: allow}
  - {id: no-delete, match: {tool: "ext.*"}, when: 'args.delete', decision: deny}
  - {id: reader, match: {upstream: "*", annotations: {readOnlyHint: true}}, unless: {upstream: evil}, decision: allow}
  - {id: hosts, match: {tool: WebSearch, host: [a.example, "*.b.example"]}, when: 'profile == "dev" || tenant == "ci"', decision: allow}
  - {id: no-host, match: {host: "*.evil.example"}, decision: deny}
tests:
  - {call: {tool: ReadDocs, args: {url: "https://a.example/", wait_ms: 5}}, now: "2026-11-22T10:00:00Z", want: allow, rule: docs}
  - {call: {tool: ReadDocs, url: "https://a.example/"}, now: "2026-11-22T19:30:00Z", want: ask, rule: evening}
  - {call: {tool: ext.issue, upstream: github, args: {repo: ours/x, delete: false, n: [1, {a: null}]}}, want: allow}
  - {call: {tool: ext.read, upstream: other, annotations: {readOnlyHint: true}, args: {delete: false}}, want: allow, rule: reader}
`

func TestWhen(t *testing.T) {
	p := parse(t, conditional)
	morning := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	docs := func(args map[string]any, now time.Time) policies.Facts {
		return policies.Facts{Tool: "ReadDocs", URLs: []string{"https://a.example/"}, Args: args, Now: now}
	}
	ext := func(upstream string, args map[string]any) policies.Facts {
		return policies.Facts{Tool: "ext.issue", Upstream: upstream, Args: args}
	}
	hint := func(upstream string, hints map[string]bool) policies.Facts {
		return policies.Facts{Tool: "any", Upstream: upstream, Annotations: hints}
	}
	search := func(profile, tenant string, hosts ...string) policies.Facts {
		return policies.Facts{Tool: "WebSearch", Profile: profile, Tenant: tenant, Hosts: hosts}
	}
	job := func(command string) policies.Facts {
		return policies.Facts{Tool: "BackgroundBash", Command: command}
	}
	with := func(f policies.Facts, args map[string]any) policies.Facts {
		f.Args = args
		return f
	}
	tests := []struct {
		name  string
		facts policies.Facts
		want  policies.Verdict
		rule  string
	}{
		{"a number", docs(map[string]any{"wait_ms": 10000.0}, morning), allow, "docs"},
		{"a number above", docs(map[string]any{"wait_ms": 10001.0}, morning), deny, "default"},
		{"a number far above", docs(map[string]any{"wait_ms": 60001.0}, morning), deny, "no-patience"},
		{"left out", docs(nil, morning), allow, "docs"},
		{"another type", docs(map[string]any{"wait_ms": "5"}, morning), deny, "no-patience"},
		{"evening", docs(nil, morning.Add(11*time.Hour)), ask, "evening"},
		{"no clock", docs(nil, time.Time{}), ask, "evening"},
		{"commands", bash("git status && git log"), allow, "only-git"},
		{"another command", bash("git status && ls"), deny, "default"},
		{"a denied one", bash("git status && git push"), deny, "no-push"},
		{"perhaps", bash("git status && git $x"), deny, "default"},
		{"perhaps what is allowed", job("git status && git $x"), ask, "no-push"},
		{"perhaps and surely", job("git push; $x"), deny, "no-push"},
		{"unreadable", job("git status; ("), ask, "no-push"},
		{"an argument of another tool", with(bash("git status"), map[string]any{"timeout": 700000.0}), ask, "long"},
		{"a proxied tool", ext("github", map[string]any{"repo": "ours/x", "delete": false}), allow, "proxied"},
		{"another upstream", ext("gitlab", map[string]any{"repo": "ours/x", "delete": false}), deny, "default"},
		{"a value that is not there", ext("github", map[string]any{"repo": "ours/x"}), deny, "no-delete"},
		{"nor for an allow", ext("github", map[string]any{"delete": false}), deny, "default"},
		{"no truth value", ext("github", map[string]any{"repo": "ours/x", "delete": "no"}), deny, "no-delete"},
		{"hint", hint("x", map[string]bool{"readOnlyHint": true}), allow, "reader"},
		{"no hint", hint("x", nil), deny, "default"},
		{"own tool", hint("", map[string]bool{"readOnlyHint": true}), deny, "default"},
		{"exception", hint("evil", map[string]bool{"readOnlyHint": true}), deny, "default"},
		{"host", search("dev", "", "A.example."), allow, "hosts"},
		{"host below", search("", "ci", "x.b.example"), allow, "hosts"},
		{"host itself", search("dev", "", "b.example"), deny, "default"},
		{"host, no profile", search("", "", "a.example"), deny, "default"},
		{"two hosts", search("dev", "", "a.example", "x.evil.example"), deny, "no-host"},
		{"host of a URL", policies.Facts{Tool: "ReadDocs", URLs: []string{"http://x.EVIL.example:81/"}, Now: morning}, deny, "no-host"},
	}
	for _, tt := range tests {
		if d := p.Decide(tt.facts); d.Verdict != tt.want || d.Rule != tt.rule {
			t.Errorf("%s: got %v by %s (%s), want %v by %s", tt.name, d.Verdict, d.Rule, d.Reason, tt.want, tt.rule)
		}
	}
	if d := p.Decide(job("git status && git $x")); !strings.Contains(d.Reason, "its condition looks at all commands of the call, and not all of them are known") {
		t.Errorf("got the reason %q", d.Reason)
	}
	// A tool that is denied under a condition can still be called.
	cond := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\nrules:\n  - {id: x, match: {tool: WebSearch}, when: 'tenant == \"a\"', decision: deny}\n")
	if cond.HiddenFrom(policies.Facts{Tool: "WebSearch"}) {
		t.Error("a tool with a condition is hidden")
	}
}

// A rule about several tools knows the arguments of each of them.
func TestWhenArguments(t *testing.T) {
	for match, texts := range map[string]map[string]bool{
		"tool: Bash":                   {"args.timeout > 1": true, "args.delay_ms > 1": false},
		"tool: [Bash, BackgroundBash]": {"args.timeout > 1 && args.delay_ms > 1": true, "args.url == ''": false},
		`tool: "*Bash"`:                {"args.timeout > 1 && args.delay_ms > 1": true, "args.url == ''": false},
		`tool: "{Bash,ReadDocs}"`:      {"args.url == '' && args.timeout > 1": true, "args.query == ''": false},
		`tool: "{Bash,ext.x}"`:         {"args.anything == 1": true},
		`tool: "*"`:                    {"args.anything == 1": true},
		`tool: [Bash, ext.x]`:          {"args.anything == 1": true},
		`tool: "ext.*"`:                {"args.anything == 1": true},
		`profile: a`:                   {"args.anything == 1": true},
	} {
		for text, want := range texts {
			_, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {a: {}}\nrules:\n  - {id: x, match: {"+match+"}, when: \""+text+"\", decision: deny}\n"))
			if (err == nil) != want {
				t.Errorf("%s, when %s: got %v", match, text, err)
			}
		}
	}
}

func TestWhenBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nprofiles: {a: {}}\nrules:\n")
	for i := range 201 {
		b.WriteString("  - {id: r" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ", match: {tool: Bash}, when: 'true', decision: deny}\n")
	}
	if e := faults(t, b.String()); len(e.Faults) != 1 || !strings.Contains(e.Faults[0].Message, "more than 200 conditions") {
		t.Errorf("got %v", e)
	}
	long := "version: 1\nprofiles: {a: {}}\nrules:\n  - {id: x, match: {tool: Bash}, when: 'true" + strings.Repeat(" ", 5000) + "', decision: deny}\n"
	if e := faults(t, long); !strings.Contains(e.Faults[0].Message, "bytes, more than 4096") {
		t.Errorf("got %v", e)
	}
}
