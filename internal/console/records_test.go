package console

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// logged returns the directory of an audit log with a number of decisions.
func logged(t testing.TB, records int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		d := audit.Decision{
			CallID: fmt.Sprintf("c-%d", i), Tenant: "local", Session: "s-1", Tool: "Bash", Verdict: "allow", Rules: []audit.Rule{{ID: "shell", Verdict: "allow"}},
			Args: map[string]any{"command": "ls '<script>'"}, Facts: audit.Facts{Command: "ls '<script>'"},
		}
		if i%5 == 0 {
			d.Tenant, d.Verdict, d.Rules[0].ID, d.Reason = "other", "deny", "no", strings.Repeat("because ", 100)
		}
		if err := l.Append(d); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 {
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The log is read page by page from its end, with filters. Each record is shown as it is:
// WC17.
func TestAudit(t *testing.T) {
	dir := logged(t, 100)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	token := g.login(Viewer)
	pages := func(query string) (all []record) {
		for before := ""; ; {
			var page records
			g.send("GET", "api/v1/audit?limit=7"+query+before, token, nil).into(t, &page)
			all = append(all, page.Records...)
			if page.Next == "" {
				return all
			}
			before = "&before=" + page.Next
		}
	}
	every := pages("")
	if len(every) < 100 || every[0].Seq != uint64(len(every)) || every[len(every)-1].Seq != 1 {
		t.Errorf("%d records, from %d", len(every), every[0].Seq)
	}
	for query, want := range map[string]int{
		"&decision=deny": 20, "&decision=allow&kind=decision": 80, "&tenant=other": 20, "&rule=no": 20, "&q=c-42": 1, "&tool=Bash&rule=shell": 80, "&tool=Nosuch": 0,
		"&q=%3Cscript%3E": 100, "&session=s-1&kind=decision": 100,
	} {
		if got := pages(query); len(got) != want {
			t.Errorf("%s: %d records, want %d", query, len(got), want)
		}
	}
	denied := pages("&decision=deny")[0]
	if denied.Rule != "no" || denied.Decision != "deny" || denied.Tenant != "other" || denied.Command != "ls '<script>'" || len(denied.Reason) > maxBriefText+10 {
		t.Errorf("got %+v", denied)
	}
	var whole struct {
		Record struct {
			CallID string `json:"call_id"`
			Reason string `json:"reason"`
		} `json:"record"`
	}
	g.send("GET", "api/v1/audit/"+denied.Cursor, token, nil).into(t, &whole)
	if whole.Record.CallID != denied.CallID || len(whole.Record.Reason) < 500 {
		t.Errorf("got %+v", whole)
	}
	for path, want := range map[string]int{"audit/x": 404, "audit/1-1": 404, "audit/99999-0": 404, "audit?limit=0": 400, "audit?limit=501": 400, "audit?before=x": 400, "audit?kind=nosuch": 200} {
		if got := g.send("GET", "api/v1/"+path, token, nil); got.status != want {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
}

// verdictOf requests the list until the log is verified, and returns the result.
func (g *rig) verdictOf(token string) (is chainIs) {
	g.t.Helper()
	if !testenv.Until(20*time.Second, func() bool {
		var page records
		g.send("GET", "api/v1/audit?limit=1", token, nil).into(g.t, &page)
		is = page.Chain
		return is.State != "unknown"
	}) {
		g.t.Errorf("the log is never verified: %+v", is)
	}
	return is
}

// changeLog changes the log in a directory, as a person with write access could do.
func changeLog(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, "audit.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), `"c-7"`, `"c-8"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A log that was changed is still shown, and the page says that it was changed: WC-A26.
func TestChain(t *testing.T) {
	dir := logged(t, 20)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	if is := g.verdictOf(g.login(Viewer)); is.State != "ok" || is.Last == 0 || is.Checked.IsZero() {
		t.Errorf("got %+v", is)
	}
	changeLog(t, dir)
	g = start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	token := g.login(Viewer)
	if is := g.verdictOf(token); is.State != "broken" || is.Seq == 0 || is.Why == "" {
		t.Errorf("got %+v", is)
	}
	var page records
	g.send("GET", "api/v1/audit", token, nil).into(t, &page)
	if len(page.Records) < 20 {
		t.Errorf("%d records", len(page.Records))
	}
}

// BenchmarkAuditPage measures the first page of a log of a million records, and a search
// that finds nothing in it, over HTTP. The bounds are 300 ms and 1 s.
func BenchmarkAuditPage(b *testing.B) {
	dir := logged(b, 1_000_000)
	c := &Console{chain: chain{asked: make(chan struct{}, 1)}}
	for name, path := range map[string]string{"first": "/", "filter": "/?tenant=nobody", "text": "/?q=nothing+has+it"} {
		b.Run(name, func(b *testing.B) {
			var most time.Duration
			for b.Loop() {
				began := time.Now()
				r := get(b, path)
				r.console, r.views = c, &Views{AuditDir: dir, scope: Everything()}
				page, err := listRecords(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := json.Marshal(page); err != nil {
					b.Fatal(err)
				}
				most = max(most, time.Since(began))
			}
			b.ReportMetric(float64(most.Milliseconds()), "ms-most")
		})
	}
}
