package policies_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

const termed = `version: 1
defaults:
  decision: ask
  profile: offline
  ask: {timeout: 5m, return_after: 10s, remember: [once, session], max_remember: 2h}
profiles: {offline: {}, dev: {}}
rules:
  - {id: shell, match: {tool: Bash, command: ["ls **", "make **"]}, decision: allow, limit: {calls: 30/h, concurrent: 4}}
  - {id: build, match: {tool: Bash, command: "make **"}, decision: allow, obligations: {redact: [emails, tokens], limit: {concurrent: 1}}}
  - {id: push, match: {tool: Bash, command: "git push **"}, decision: ask, remember: [once, 1h], limit: {calls: 2/min}}
  - {id: tag, match: {tool: Bash, command: "git tag **"}, decision: ask, remember: [session, 30m]}
  - {id: once, match: {tool: Bash, command: "git reset **"}, decision: ask, remember: once}
  - {id: no-rm, match: {tool: Bash, command: "rm **"}, decision: deny}
  - {id: docs, match: {tool: ReadDocs}, decision: allow, profile: dev}
  - {id: dev, match: {tool: ReadDocs, profile: dev}, decision: allow, limit: {calls: 1/s}}
`

func TestTerms(t *testing.T) {
	p := parse(t, termed)
	tests := []struct {
		command  string
		want     policies.Verdict
		limits   []string
		redact   []policies.Redaction
		remember string
	}{
		{"ls", allow, []string{"shell calls: 30/h, concurrent: 4"}, nil, ""},
		{"ls; make; ls", allow, []string{"shell calls: 30/h, concurrent: 4", "build concurrent: 1"}, []policies.Redaction{"emails", "tokens"}, ""},
		{"ls; git push", ask, []string{"shell calls: 30/h, concurrent: 4", "push calls: 2/min"}, nil, "once, 1h0m0s"},
		{"git tag x", ask, nil, nil, "once, session, 30m0s"},
		{"git tag x; git push", ask, []string{"push calls: 2/min"}, nil, "once, 30m0s"},
		{"git tag x; git reset", ask, nil, nil, "once"},
		{"git tag $x", ask, nil, nil, "once"},
		{"cargo build", ask, nil, nil, "once, session"},
		{"cargo build $x", ask, nil, nil, "once"},
		{"ls; rm x", deny, nil, nil, ""},
		{"ls; $x y", ask, []string{"shell calls: 30/h, concurrent: 4", "push calls: 2/min"}, nil, "once"},
	}
	for _, tt := range tests {
		d := p.Decide(bash(tt.command))
		var limits []string
		for _, l := range d.Limits {
			limits = append(limits, l.Rule+" "+l.String())
			if l.Source.Line == 0 || (l.Calls > 0) != (l.Per > 0) {
				t.Errorf("%s: got limit %+v", tt.command, l)
			}
		}
		remember := ""
		if d.Verdict == ask {
			remember = d.Remember.String()
		} else if d.Remember != (policies.Remember{}) {
			t.Errorf("%s: %v has %+v", tt.command, d.Verdict, d.Remember)
		}
		want := policies.Asking{Timeout: 5 * time.Minute, ReturnAfter: 10 * time.Second}
		if d.Verdict == policies.Deny {
			want = policies.Asking{}
		}
		if d.Ask != want {
			t.Errorf("%s: %v has %+v, want %+v", tt.command, d.Verdict, d.Ask, want)
		}
		if d.Verdict != tt.want || remember != tt.remember {
			t.Errorf("%s: got %v, remember %q; want %v, %q", tt.command, d.Verdict, remember, tt.want, tt.remember)
		}
		if diff := cmp.Diff(append([]string{}, tt.limits...), append([]string{}, limits...)); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", tt.command, diff)
		}
		if diff := cmp.Diff(tt.redact, d.Redact); diff != "" {
			t.Errorf("%s: redact (-want +got):\n%s", tt.command, diff)
		}
	}
	// If a call is granted another profile than it asked for, the rules about that profile
	// bind it too.
	if d := p.Decide(policies.Facts{Tool: "ReadDocs"}); d.Verdict != allow || d.Grant.Profile() != "dev" || len(d.Limits) != 1 || d.Limits[0].Rule != "dev" {
		t.Errorf("ReadDocs: got %v in %s with %+v", d.Verdict, d.Grant.Profile(), d.Limits)
	}
}

// A call that gets another profile than it asked for is bound by the rules about both
// profiles, also if those about the second one are stricter.
func TestTermsOfBothProfiles(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: ask, profile: a}
profiles: {a: {}, b: {}}
rules:
  - id: to-b
    match: {tool: Bash, profile: a}
    decision: allow
    profile: b
    limit: {calls: 1/min}
    obligations: {redact: [tokens]}
    audit: full
  - {id: in-b, match: {tool: Bash, profile: b, command: ["ls **", "git **"]}, decision: allow}
  - {id: push, match: {tool: Bash, profile: b, command: "git push **"}, decision: ask}
  - {id: reset, match: {tool: Bash, profile: b, command: "git reset **"}, decision: deny}
  - {id: trial, mode: warn, match: {tool: Bash, profile: b, command: "git log **"}, decision: deny}
`)
	for command, want := range map[string]policies.Verdict{"ls": allow, "git push": ask, "git log": allow, "git reset": deny} {
		d := p.Decide(bash(command))
		bound := len(d.Limits) == 1 && len(d.Redact) == 1
		if d.Verdict != want || bound != (want != deny) || d.Offers().IsZero() != (want == deny) || want != deny && d.Offers().Profile() != "b" {
			t.Errorf("%s: got %v by %s in %q with %+v and %v", command, d.Verdict, d.Rule, d.Offers().Profile(), d.Limits, d.Redact)
		}
		if d.Audit != (policies.Kept{Said: true, Level: policies.AuditFull}) {
			t.Errorf("%s: the log keeps %+v", command, d.Audit)
		}
		if warned := len(d.Warnings) == 1 && len(d.Shadow) == 1; warned != (command == "git log") {
			t.Errorf("%s: got the warnings %q of %+v", command, d.Warnings, d.Shadow)
		}
	}
}

func TestAskingWithoutDefaults(t *testing.T) {
	p := parse(t, head)
	d := p.Decide(bash("make"))
	want := policies.Asking{Timeout: 10 * time.Minute, ReturnAfter: 20 * time.Second}
	if d.Ask != want || p.Asking() != want || d.Remember != (policies.Remember{Session: true}) {
		t.Errorf("got %+v, %+v, %+v", d.Ask, p.Asking(), d.Remember)
	}
	short := parse(t, "version: 1\ndefaults: {decision: ask, ask: {timeout: 5s}}\nprofiles: {a: {}}\n")
	if got := short.Asking(); got.ReturnAfter != got.Timeout {
		t.Errorf("a question that lives 5 s: got %+v", got)
	}
}
