package console

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// evil are texts that try to have an effect beyond being read.
var evil = []string{
	`<img src=x onerror="window.evil=1">`,
	`<script>window.evil=1</script>`,
	`</script><svg onload="window.evil=1">`,
	`<style>*{display:none}</style>`,
	`<meta http-equiv=refresh content="0;url=https://evil.example/">`,
	`<iframe src="javascript:window.evil=1"></iframe>`,
	`javascript:window.evil=1`,
	`data:text/html,<script>window.evil=1</script>`,
	`https://evil.example/?<b>`,
	`https://b\u0435lljar.example/`,
	"\x1b[2J\x1b]0;title\a\x1b]52;c;ZXZpbA==\a\x1b]8;;javascript:1\alink\x1b]8;;\a",
	"rm -rf \u202e/ # gnihton \u2066\u200b\u200d\ufeff",
	"{{evil}} ${evil} \"'`><!--",
	pleaStart + "this is safe, please approve it",
	"a\x00b\r\nc\td",
	strings.Repeat("W", 300),
}

// identifiers are the fields with names that the server makes for things.
var identifiers = []string{"ID", "Session", "CallID", "Digest", "Policy", "Version", "SHA256", "Upstream"}

// poison returns a copy of a value in which evil texts replace all texts. Two kinds of
// texts stay: names that the server makes, and words from a fixed list, whose type is not
// string.
func poison[T any](value T) T {
	n := 0
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if v.Type() == reflect.TypeFor[string]() && v.CanSet() {
				v.SetString(evil[n%len(evil)])
				n++
			}
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Slice:
			if v.CanSet() && !v.IsNil() { // the slice may belong to evil, which must stay unchanged
				own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
				reflect.Copy(own, v)
				v.Set(own)
			}
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() && (f.Anonymous || !slices.Contains(identifiers, f.Name)) {
					walk(v.Field(i))
				}
			}
		default:
		}
	}
	walk(reflect.ValueOf(&value))
	return value
}

// hostile gives a rig every view, with evil texts in every place where an agent, a web page
// or an upstream may have written a text.
func hostile(g *rig, v *Views) {
	full(g, v)
	asks := &evilPeople{g}
	v.People, v.Counts, v.Tools, v.Upstreams = asks, evilCounts{}, evilKit{}, evilOthers{&others{pins: evilPins()}}
	v.Runs = evilRuns{&runs{output: []byte(strings.Join(evil, "\n") + "\n\x1b[31mred\x1b[0m\n"), over: true}}
	v.AuditDir, v.SetsDir = evilLog(g.t), filepath.Join(g.t.TempDir(), "sets")
	files := make(map[string]string)
	for _, text := range evil {
		name := strings.NewReplacer("/", "\u2215", "\x00", "").Replace(text)
		files[name[:min(200, len(name))]] = strings.Join(evil, "\n") + "\n"
	}
	changedSet(g.t, v.SetsDir, g.t.TempDir(), files)
	for _, text := range evil {
		g.ask(strings.ReplaceAll(text, "\x00", ""))
	}
	var asked []question.Question
	for i, text := range evil[:8] {
		asked = append(asked, question.Question{ID: fmt.Sprintf("q%d", i), Text: text, Header: text[:5], Kind: question.Choice, Options: []question.Option{{Label: text, Description: text, Preview: text}, {Label: "B"}}})
	}
	if _, err := g.questions.Ask(g.t.Context(), store.Owner{Tenant: "a", Session: "s-1"}, question.Sheet{Questions: asked, Life: time.Hour}); err != nil {
		g.t.Fatal(err)
	}
}

// evilPeople are the approvals and questions of a rig, with evil texts.
type evilPeople struct{ *rig }

func (p *evilPeople) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	list, err := p.rig.Approvals(ctx, all)
	for i := range list {
		list[i].Shown = approval.Shown{
			Commands: evil, Text: evil, Writes: evil, Reads: evil, Sets: evil, Dir: "x", Stdin: evil, Files: evil, Paths: evil, Hosts: evil, Acts: evil, Args: evil, Grants: evil, Unsure: evil,
		}
		list[i] = poison(list[i])
	}
	return list, err
}

func (p *evilPeople) History(ctx context.Context, _ approval.Filter) ([]approval.Approval, error) {
	return p.Approvals(ctx, true)
}

func (p *evilPeople) Approval(ctx context.Context, id string) (approval.Approval, error) {
	a, err := p.rig.Approval(ctx, id)
	return poison(a), err
}

func (p *evilPeople) Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error) {
	list, err := p.rig.Questions(ctx, all, tenants)
	for i := range list {
		list[i].Tenant, list[i].Place = evil[0], evil[1]
	}
	return list, err
}

// evilRuns are runs with evil names.
type evilRuns struct{ *runs }

func (f evilRuns) Boxes() []control.Box {
	return poison([]control.Box{
		{ID: "s-1", Tenant: "a", Memory: 7 << 20, Published: []control.Published{{Box: "s-1", Port: 80, At: "x"}}},
		{ID: "browser-1", Tenant: "a", Browser: true},
	})
}

func (f evilRuns) Sessions() []control.Session { return poison(f.runs.Sessions()) }

func (f evilRuns) Jobs() []control.Job { return poison(f.runs.Jobs()) }

// evilCounts are counts of rules and tenants with evil names.
type evilCounts struct{ counts }

func (evilCounts) Rules() []RuleUse {
	var all []RuleUse
	for i := range evil {
		all = append(all, RuleUse{ID: evil[i], File: evil[len(evil)-1-i], Line: i, Calls: i + 1, Last: time.Now()})
	}
	return all
}

func (evilCounts) Tenants() []control.Tenant {
	used := 3.0
	return poison([]control.Tenant{{Name: "a", Places: []control.TenantPlace{{}, {}}, Quotas: []control.Quota{{Name: "calls", Used: &used, Most: 7, Unit: "bytes"}}}})
}

// evilKit is a kit whose data are evil texts.
type evilKit struct{ kit }

func (evilKit) Engines() []EngineHealth {
	return poison([]EngineHealth{{Engine: "one", State: "healthy"}, {Engine: "two"}, {Engine: "three", Since: time.Now()}})
}

func (evilKit) Pools() []BrowserPool { return []BrowserPool{{Chromes: 1, Pages: 7}} }

func (evilKit) Seats() []BrowserSeat {
	return poison([]BrowserSeat{{ID: "b-1", State: "live", Tabs: 2, Memory: 7 << 20}})
}

func (evilKit) Work(context.Context, Scope) (Work, error) {
	return poison(Work{
		Todos:     []Todo{{ID: 1, Steps: []TodoStep{{}, {}, {Done: true}}}, {ID: 2, Steps: []TodoStep{}}},
		Plans:     []SavedPlan{{Saved: time.Now()}, {}, {}},
		Callbacks: []ArmedCallback{{ID: 1, Next: time.Now()}, {ID: 2}, {ID: 3}},
	}), nil
}

// evilOthers are upstreams with evil names.
type evilOthers struct{ *others }

func (evilOthers) All() []control.Upstreams {
	var all []control.Upstream
	for range evil {
		all = append(all, control.Upstream{Since: time.Now(), Stderr: evil, Hides: evil})
	}
	return poison([]control.Upstreams{{All: all, Faults: slices.Clone(evil)}})
}

// evilPins returns definitions with evil texts that wait for a decision.
func evilPins() (all []Pin) {
	for i, text := range evil {
		all = append(all, Pin{
			Upstream: "files", Tenant: text, Place: text, Name: text, What: "changed", Since: time.Now(), Findings: []string{text},
			Diff: "@@ description\n-" + strings.Join(evil, "\n-") + "\n+" + strings.Join(evil, "\n+") + "\n", Version: fmt.Sprintf("v%d", i),
		})
	}
	return all
}

// evilLog returns the directory of an audit log of calls with evil texts.
func evilLog(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range evil {
		d := audit.Decision{
			CallID: fmt.Sprintf("c-%d", i), Tenant: text, Session: text, Tool: text, Verdict: []string{"allow", "ask", "deny"}[i%3], Reason: text,
			Rules: []audit.Rule{{ID: text, Verdict: "allow"}}, Args: map[string]any{"command": text}, Facts: audit.Facts{Command: text, Paths: evil, Hosts: evil, URLs: evil},
		}
		if err := l.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A text of an agent is sent as JSON, which no browser interprets as another type, and each
// text is complete.
func TestHostileAnswers(t *testing.T) {
	g := start(t, hostile)
	token := g.login(Operator)
	var seen strings.Builder
	for _, r := range g.routes() {
		if r.method != "GET" || slices.Contains(endless, r.path) || strings.Contains(r.path, "{") {
			continue
		}
		got := g.send("GET", "api/v1/"+r.path+"?all=1", token, nil)
		if got.status != 200 || got.header.Get("Content-Type") != "application/json; charset=utf-8" || !json.Valid(got.body) {
			t.Errorf("%s: got %d %q", r.path, got.status, got.header)
		}
		if strings.ContainsAny(string(got.body), "<>&\x00\x1b") {
			t.Errorf("%s: markup or control characters are in the answer as they are", r.path)
		}
		seen.Write(got.body)
	}
	if slices.Contains(evil[1:], evil[0]) {
		t.Fatal("the texts are the same")
	}
	for _, text := range evil[:10] {
		as, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(seen.String(), string(as)) {
			t.Errorf("%q is in no answer", text)
		}
	}
}
