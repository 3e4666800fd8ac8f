package console

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// Decisions of people are found by the person, by the subject, and by the answer.
func TestHistory(t *testing.T) {
	g := start(t)
	token := g.login(Approver)
	for i, command := range []string{"rm <b>", "ls x", "rm y"} {
		a := g.ask(command)
		if i == 2 {
			break // this approval waits
		}
		if _, err := g.approvals.Answer(t.Context(), a.ID, approval.Reply{Yes: i == 1, By: []string{"ann", "bob"}[i], Via: Via, Note: "because"}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(query string) (ids string, all []waiting) {
		g.send("GET", "api/v1/approvals"+query, token, nil).into(t, &all)
		for _, a := range all {
			ids += a.Shown.Commands[0] + " (" + string(a.State) + "); "
		}
		return ids, all
	}
	for query, want := range map[string]int{
		"": 2, "?all=1": 3, "?all=1&state=declined": 1, "?all=1&state=pending": 1, "?all=1&tenant=a": 3, "?all=1&tenant=b": 0, "?all=1&tool=Bash": 3,
		"?all=1&tool=Write": 0, "?all=1&rule=rule": 3, "?all=1&by=ANN": 1, "?all=1&q=rm": 2, "?all=1&q=%3Cb%3E": 1, "?all=1&q=because": 2, "?all=1&q=%25": 0,
		"?all=1&before=2020-01-01T00:00:00Z": 0, "?all=1&by=%27%20OR%201=1--": 0,
	} {
		if ids, all := list(query); len(all) != want {
			t.Errorf("%s: got %s, want %d", query, ids, want)
		}
	}
	if got := g.send("GET", "api/v1/approvals?all=1&before=yesterday", token, nil); got.status != 400 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	_, all := list("?all=1&state=pending")
	var one struct {
		waiting
		Past []waiting
	}
	g.send("GET", "api/v1/approvals/"+all[0].ID, token, nil).into(t, &one)
	if one.ID != all[0].ID || len(one.Past) != 2 {
		t.Errorf("%d past decisions, want 2", len(one.Past))
	}
	for _, a := range one.Past {
		if a.State == approval.Pending || a.By == "" {
			t.Errorf("a past decision: %+v", a)
		}
	}
}

// Exactly the records of an approval and of its calls are found.
func TestTrail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	a := g.ask("rm x")
	write := func(all ...audit.Record) {
		l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if err := l.Append(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	about := func(event, call string) audit.Approval {
		return audit.Approval{ID: a.ID, CallID: call, Tenant: "a", Event: event, By: "ann"}
	}
	decision := func(call string) audit.Decision {
		return audit.Decision{CallID: call, Tenant: "a", Tool: "Bash", Verdict: "ask", Facts: audit.Facts{Command: "rm x"}}
	}
	write(
		decision("c-0"), decision(a.CallID), about("asked", a.CallID),
		audit.Approval{ID: "ap-other", CallID: "c-0", Event: "asked"},
		about("given", a.CallID),
		decision("c-9"), about("used", "c-9"),
		audit.Outcome{CallID: "c-9", Tenant: "a", Tool: "Bash"},
	)
	token := g.login(Viewer)
	var page records
	g.send("GET", "api/v1/approvals/"+a.ID+"/records", token, nil).into(t, &page)
	var got []string
	for _, r := range page.Records {
		got = append(got, string(r.Kind)+" "+r.Event+" "+r.CallID)
	}
	want := "outcome  c-9; approval used c-9; decision  c-9; approval given c-1; approval asked c-1; decision  c-1"
	if is := strings.Join(got, "; "); is != want {
		t.Errorf("got %s\nwant %s", is, want)
	}
	if page.More {
		t.Error("the list is whole, and says that it is not")
	}
	var more []audit.Record
	for range maxTrail { // now the log has more records than one answer contains
		more = append(more, about("given", a.CallID))
	}
	write(more...)
	var cut records
	g.send("GET", "api/v1/approvals/"+a.ID+"/records", token, nil).into(t, &cut)
	if !cut.More || len(cut.Records) != maxTrail {
		t.Errorf("%d records of a longer list, which says so: %v", len(cut.Records), cut.More)
	}
	var whole struct {
		Record struct {
			Event string `json:"event"`
			By    string `json:"by"`
		}
	}
	g.send("GET", "api/v1/audit/"+page.Records[3].Cursor, token, nil).into(t, &whole)
	if whole.Record.By != "ann" || whole.Record.Event != "given" {
		t.Errorf("got %+v", whole)
	}
	if got := g.send("GET", "api/v1/approvals/ap-nosuch/records", token, nil); got.status != 404 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// The policy as it is now explains a call from the log.
func TestExplainOfTheLog(t *testing.T) {
	_, now := parsed(t, "ls **")
	g := start(t, full, func(_ *rig, v *Views) { v.Policy, v.AuditDir = held{now}, logged(t, 5) })
	token := g.login(Viewer)
	var page records
	g.send("GET", "api/v1/audit", token, nil).into(t, &page)
	for _, r := range page.Records {
		got := g.send("POST", "api/v1/policy/explain", token, map[string]string{"cursor": r.Cursor})
		if r.Kind != audit.KindDecision {
			if got.status != 400 {
				t.Errorf("%s: got %d %s", r.Kind, got.status, got.body)
			}
			continue
		}
		var is struct{ Verdict, Was string }
		if got.into(t, &is); is.Verdict != "deny" || is.Was != r.Decision {
			t.Errorf("%+v: got %+v", r, is)
		}
	}
	for cursor, want := range map[string]int{"x": 400, "99999-0": 404} {
		if got := g.send("POST", "api/v1/policy/explain", token, map[string]string{"cursor": cursor}); got.status != want {
			t.Errorf("%s: got %d %s", cursor, got.status, got.body)
		}
	}
}

// An operator tests an engine. Only one test runs at a time.
func TestEngineTest(t *testing.T) {
	going, goOn := make(chan struct{}), make(chan struct{})
	g := start(t, full, func(_ *rig, v *Views) { v.Tools = slowKit{going: going, goOn: goOn} })
	token := g.login(Operator)
	if got := g.send("POST", "api/v1/search/nosuch/test", token, struct{}{}); got.status != 404 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	first := make(chan answered, 1)
	go func() { first <- g.send("POST", "api/v1/search/wikipedia/test", token, struct{}{}) }()
	<-going
	if got := g.send("POST", "api/v1/search/wikipedia/test", token, struct{}{}); got.status != 429 {
		t.Errorf("a second test: got %d %s", got.status, got.body)
	}
	close(goOn)
	var is EngineTest
	if got := <-first; got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	} else if got.into(t, &is); is.Results != 7 {
		t.Errorf("got %+v", is)
	}
}

// slowKit has an engine whose test ends when goOn is closed.
type slowKit struct {
	kit
	going chan<- struct{}
	goOn  <-chan struct{}
}

func (k slowKit) TestEngine(ctx context.Context, name string) (EngineTest, error) {
	if name == "wikipedia" {
		k.going <- struct{}{}
		<-k.goOn
	}
	return k.kit.TestEngine(ctx, name)
}
