package policies_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

const askable = `version: 1
defaults: {decision: deny, profile: offline}
profiles:
  offline: {fs: {system: true, workspace: rw}}
  dev: {fs: {system: true, workspace: rw}, limits: {memory: 3GiB}}
rules:
  - {id: reads, match: {tool: Bash, command: "ls **"}, decision: allow}
  - {id: builds, match: {tool: Bash, command: "make **"}, decision: allow, profile: dev}
  - {id: publish, match: {tool: Bash, command: "git push **"}, decision: ask}
  - {id: no-force, match: {tool: Bash, command: "git push **", any_flag: [-f]}, decision: deny}
`

func TestApproved(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(askable))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ command, profile, grants string }{
		{"git push origin main", "", "offline"},
		{"git push origin main", "dev", "dev"},
		{"ls; git push origin main", "", "offline"},
		{"make all; git push origin main", "dev", "dev"},
		{"git push -f", "", ""},
	} {
		d := p.Decide(policies.Facts{Tool: "Bash", Command: tt.command, Profile: tt.profile, Tenant: "t"})
		if !d.Grant.IsZero() {
			t.Errorf("%q: %v comes with a grant", tt.command, d.Verdict)
		}
		a := d.Approved()
		if got := a.Grant.Profile(); got != tt.grants || (a.Verdict == policies.Allow) != (tt.grants != "") {
			t.Errorf("%q in %q: approved, it is %v with the profile %q, want %q", tt.command, tt.profile, a.Verdict, got, tt.grants)
		}
		if got := d.Offers().Profile(); got != tt.grants {
			t.Errorf("%q: it offers %q, want %q", tt.command, got, tt.grants)
		}
		if tt.grants != "" && a.Grant.Tenant() != "t" {
			t.Errorf("%q: the grant is of tenant %q", tt.command, a.Grant.Tenant())
		}
	}
	// A command whose parts are allowed in different profiles is denied, without a
	// question.
	if d := p.Decide(policies.Facts{Tool: "Bash", Command: "make all; git push origin main"}); d.Verdict != policies.Deny {
		t.Errorf("parts of two profiles: got %v, want deny", d.Verdict)
	}
	if got := (policies.Decision{Verdict: policies.Ask}).Approved().Grant; !got.IsZero() {
		t.Errorf("a decision that no policy made grants %+v", got)
	}
}

func TestApprovalsGiveNoMoreThanTheLayersDo(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(askable))
	if err != nil {
		t.Fatal(err)
	}
	l, err := policies.ParseLayer(policies.LayerSession, "plan.yaml", []byte("version: 1\nnarrow: {read_only: true}\nrules:\n  - {id: all, match: {tool: \"*\"}, decision: ask}\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"ls", "git push origin main"} {
		d := p.With(l).Decide(policies.Facts{Tool: "Bash", Command: command})
		if got := d.Approved().Grant.Workspace(); d.Verdict != policies.Ask || got != policies.AccessRead {
			t.Errorf("%q: %v, and approved the workspace is %v, want ask and ro", command, d.Verdict, got)
		}
	}
}

func TestWithNarrowsWhatIsOffered(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(askable))
	if err != nil {
		t.Fatal(err)
	}
	closed := func(g policies.Grant) (policies.Grant, error) { return g.Narrow(policies.AccessNone) }
	for _, command := range []string{"ls", "git push origin main"} {
		d, err := p.Decide(bash(command)).With(closed)
		if got := d.Approved().Grant.Workspace(); err != nil || got != policies.AccessNone {
			t.Errorf("%q: got the workspace %v, %v, want none", command, got, err)
		}
	}
	refused := errors.New("no")
	d, err := p.Decide(bash("ls")).With(func(policies.Grant) (policies.Grant, error) { return policies.Grant{}, refused })
	if !errors.Is(err, refused) || d.Grant.IsZero() {
		t.Errorf("got %v and %v, want the decision as it was and %v", d, err, refused)
	}
}

func TestWhereThePartStands(t *testing.T) {
	p, err := policies.Parse("project.yaml", []byte(askable))
	if err != nil {
		t.Fatal(err)
	}
	script := "ls -l && CI=1 git push 'a b' # go"
	d := p.Decide(bash(script))
	if got, want := script[d.PartStart:d.PartEnd], "CI=1 git push 'a b'"; got != want {
		t.Errorf("the part stands at %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"git", "push", "a b"}, d.PartArgv); diff != "" {
		t.Errorf("its words (-want +got):\n%s", diff)
	}
	if d := p.Decide(bash("git push $X")); d.PartArgv != nil {
		t.Errorf("words that are not known are given as %q", d.PartArgv)
	}
}

// An approval is remembered for equal calls only if an equal text always does the same: not
// if a variable decides what runs.
func TestNoLastingApprovalOfWhatMayDiffer(t *testing.T) {
	p := parse(t, "version: 1\ndefaults: {decision: ask}\nprofiles: {a: {}}\n")
	for command, lasts := range map[string]bool{
		"git push origin main":               true,
		"git push origin $BRANCH":            false,
		"git push origin $(cat branch)":      false,
		"$TOOL push origin main":             false,
		"PATH=/tmp git push origin main":     false,
		"GIT_SSH=./ssh git push origin main": false,
	} {
		d := p.Decide(bash(command))
		if got := d.Remember != (policies.Remember{}); d.Verdict != policies.Ask || got != lasts {
			t.Errorf("%s: got %v, which may be remembered %v, want ask, %v", command, d.Verdict, got, lasts)
		}
	}
}
