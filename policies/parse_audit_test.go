package policies_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

func TestAudit(t *testing.T) {
	const profile = "version: 1\nprofiles: {a: {}}\n"
	whole := policies.DefaultAudit(policies.AuditRequest)
	for text, want := range map[string]policies.Audit{
		"audit: {}":                                       whole,
		"audit: {level: meta}":                            policies.DefaultAudit(policies.AuditMeta),
		"audit: {level: none}":                            policies.DefaultAudit(policies.AuditNone),
		"audit: {redact: [secrets, env]}":                 whole,
		"audit: {redact: secrets}":                        with(whole, func(a *policies.Audit) { a.PlainEnv = true }),
		"audit: {redact: none}":                           with(whole, func(a *policies.Audit) { a.PlainEnv, a.PlainSecrets = true, true }),
		"audit: {required: true, keep: 5}":                with(whole, func(a *policies.Audit) { a.Required, a.Keep = true, 5 }),
		"audit: {fsync: 1s, rotate: 1MiB}":                with(whole, func(a *policies.Audit) { a.Fsync, a.Rotate = time.Second, 1<<20 }),
		"audit: {path: /var/log/belljar}":                 with(whole, func(a *policies.Audit) { a.Path = "/var/log/belljar" }),
		"audit: {redact: [secrets, env, emails, tokens]}": with(whole, func(a *policies.Audit) { a.Emails, a.Tokens = true, true }),
		"audit: {otlp: true}":                             with(whole, func(a *policies.Audit) { a.OTLP = policies.OTLPStandard }),
		"audit: {otlp: false}":                            whole,
		"audit: {otlp: 'http://127.0.0.1:4318'}":          with(whole, func(a *policies.Audit) { a.OTLP = "http://127.0.0.1:4318" }),
		"audit: {level: full, redact: env}":               with(whole, func(a *policies.Audit) { a.Level, a.PlainSecrets = policies.AuditFull, true }),
	} {
		p, err := policies.Parse("p.yaml", []byte(profile+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, ok := p.Audit()
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, ok, diff)
		}
	}
	if _, ok := parse(t, profile).Audit(); ok {
		t.Error("a policy without the key has an audit log")
	}
}

func with(a policies.Audit, change func(*policies.Audit)) policies.Audit {
	change(&a)
	return a
}

func TestAuditFaults(t *testing.T) {
	shown := make(map[string]string)
	for text, want := range map[string]string{
		"audit: on":                     "audit must be a mapping",
		"audit: {otlp: maybe}":          `otlp cannot be "maybe"`,
		"audit: {otlp: 'http://u:p@h'}": "otlp cannot be",
		"audit: {otlp: [a]}":            "otlp cannot be a list",
		"rules: [{id: r, match: {tool: '*'}, decision: deny, audit: none}]": "is always written down",
		"rules: [{id: r, match: {tool: '*'}, decision: deny, audit: all}]":  `audit cannot be "all"`,
		"audit: {lvel: meta}":                    `audit has no key "lvel"`,
		"audit: {level: all}":                    `level cannot be "all"`,
		"audit: {level: none, required: true}":   "cannot be required",
		"audit: {level: reqest, required: true}": `level cannot be "reqest"`,
		"audit: {required: yes}":                 "required must be true or false",
		"audit: {fsync: 200}":                    "fsync cannot be",
		"audit: {fsync: 5m}":                     "would lose too much",
		"audit: {rotate: 0}":                     "must be above zero",
		"audit: {rotate: 1KiB}":                  "less than the size at which",
		"audit: {keep: 0}":                       "must be above zero",
		"audit: {redact: [secrets, password]}":   `redact cannot be "password"`,
		"audit: {redact: [none, env]}":           "redact names none together with other words",
		"audit: {redact: []}":                    "must not be empty",
		"audit: {path: logs}":                    "cannot hold the audit log",
		"audit: {path: /}":                       "cannot hold the audit log",
		"audit: {path: /a/../b}":                 "cannot hold the audit log",
		"audit: {sign: key}":                     `audit has no key "sign"`,
		"audit: {level: meta}\naudit: {keep: 2}": "a second time",
	} {
		_, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {a: {}}\n"+text+"\n"))
		var parse *policies.ParseError
		shown[text] = fmt.Sprint(err)
		if !errors.As(err, &parse) || len(parse.Faults) != 1 || !strings.Contains(parse.Faults[0].Message, want) {
			t.Errorf("%s: got %v, want one fault: %s", text, err, want)
		}
	}
	var all []string
	for _, text := range slices.Sorted(maps.Keys(shown)) {
		all = append(all, shown[text])
	}
	golden.Equal(t, "faults/audit.golden", strings.Join(all, "\n\n")+"\n")
}

// Of the rules that speak about a call, the one that keeps the most decides. A part about
// which no rule says anything counts as the log's own level.
func TestRulesSayHowMuchIsKept(t *testing.T) {
	p := parse(t, `version: 1
defaults: {profile: a}
profiles: {a: {}, b: {audit: required}}
audit: {level: meta}
rules:
  - {id: all, match: {tool: Bash}, decision: allow}
  - {id: quiet, match: {tool: Bash, command: ["ls **"]}, decision: allow, audit: none}
  - {id: loud, match: {tool: Bash, command: ["make **"]}, decision: allow, audit: full}
  - {id: no, match: {tool: Bash, command: ["ls secret"]}, decision: deny}
  - {id: tool, match: {tool: WebSearch}, decision: deny, audit: request}
`)
	kept := func(l policies.AuditLevel) policies.Kept { return policies.Kept{Said: true, Level: l} }
	for command, want := range map[string]policies.Kept{
		"pwd":             {},
		"ls":              kept(policies.AuditNone),
		"ls && ls -l":     kept(policies.AuditNone),
		"ls && pwd":       kept(policies.AuditMeta),
		"pwd; ls; pwd":    kept(policies.AuditMeta),
		"make":            kept(policies.AuditFull),
		"ls; make; pwd":   kept(policies.AuditFull),
		"ls secret":       kept(policies.AuditMeta),
		"ls; false; make": kept(policies.AuditFull),
	} {
		d := p.Decide(policies.Facts{Tool: "Bash", Command: command})
		if d.Audit != want {
			t.Errorf("%s: got %+v (%v), want %+v", command, d.Audit, d.Verdict, want)
		}
	}
	if d := p.Decide(policies.Facts{Tool: "WebSearch"}); d.Audit != kept(policies.AuditRequest) {
		t.Errorf("a tool: got %+v", d.Audit)
	}
	if d := p.Decide(policies.Facts{Tool: "Nothing"}); d.Audit.Said {
		t.Errorf("what no rule speaks about: got %+v", d.Audit)
	}
	for profile, want := range map[string]bool{"a": false, "b": true} {
		d := p.Decide(policies.Facts{Tool: "Bash", Command: "pwd", Profile: profile})
		if got := d.Grant.AuditRequired(); got != want {
			t.Errorf("profile %s: got %v", profile, got)
		}
	}
}

// A refusal that takes the place of another decision keeps what the rules say about the log:
// a call whose arguments are not to be kept is refused without them too.
func TestRefusalsKeepWhatRulesSay(t *testing.T) {
	p := parse(t, `version: 1
defaults: {profile: a}
profiles: {a: {}, b: {}, c: {}}
tenants: {t: {}}
auth: {scopes: {all: {tools: "*"}}}
rules:
  - {id: brief, match: {tool: Bash, command: "ls **"}, decision: allow, audit: none, limit: {concurrent: 1}}
  - {id: moved, match: {tool: Bash, command: "make **"}, decision: allow, audit: meta, profile: b}
  - {id: other, match: {tool: Bash, command: "pwd **"}, decision: allow, audit: meta, profile: c}
  - {id: browser, match: {tool: Browser}, decision: allow, audit: meta}
`)
	want := policies.Kept{Said: true, Level: policies.AuditMeta}
	allowed := p.Decide(bash("ls"))
	for name, d := range map[string]policies.Decision{
		"rate":           allowed.Limits[0].Beyond(allowed, time.Minute),
		"mixed-profiles": p.Decide(bash("make; pwd")),
		"may-request":    p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Command: "make"}),
		"scope":          p.Decide(policies.Facts{Scopes: []string{"all"}, Tool: "Bash", Command: "make"}),
		"no-acts":        p.Decide(policies.Facts{Tool: policies.ActTool, Acts: []policies.Act{{Kind: policies.ActPoint}}}),
	} {
		if d.Verdict != policies.Deny || d.Rule != name && name != "rate" || d.Audit != want {
			t.Errorf("%s: got %v by %s, and the log keeps %+v", name, d.Verdict, d.Rule, d.Audit)
		}
	}
}

// A layer can make the log keep more of a call, and never less.
func TestLayersKeepMore(t *testing.T) {
	p := parse(t, `version: 1
profiles: {a: {}}
rules:
  - {id: all, match: {tool: Bash}, decision: allow}
  - {id: brief, match: {tool: Bash, command: ["ls **"]}, decision: allow, audit: meta}
`)
	for text, want := range map[string][2]policies.Kept{ // what is kept of pwd and of ls
		"{id: r, match: {tool: Bash}, decision: ask, audit: full}": {{Said: true, Level: policies.AuditFull}, {Said: true, Level: policies.AuditFull}},
		"{id: r, match: {tool: Bash}, decision: ask, audit: meta}": {{}, {Said: true, Level: policies.AuditMeta}},
		"{id: r, match: {tool: Bash}, decision: ask}":              {{}, {Said: true, Level: policies.AuditMeta}},
	} {
		l, err := policies.ParseLayer(policies.LayerSession, "l.yaml", []byte("version: 1\nrules: ["+text+"]\n"), p)
		if err != nil {
			t.Fatal(err)
		}
		for i, command := range []string{"pwd", "ls"} {
			f := policies.Facts{Tenant: "local", Tool: "Bash", Command: command}
			if d := l.Narrow(p.Decide(f), f); d.Audit != want[i] || d.Verdict != policies.Ask {
				t.Errorf("%s, %s: got %+v (%v), want %+v", text, command, d.Audit, d.Verdict, want[i])
			}
		}
	}
}
