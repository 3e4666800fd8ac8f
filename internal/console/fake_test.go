package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// get returns a request for a path, without a server.
func get(t testing.TB, path string) *request {
	return &request{in: httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), w: httptest.NewRecorder(), body: maxBody}
}

// runs is a fake server that runs a box, a session and a task with output.
type runs struct {
	output []byte
	over   bool
	gone   int64 // number of the first bytes of the output that are not kept any more
	ended  []string
}

func (f *runs) Boxes() []control.Box { return []control.Box{{ID: "s-1", Tenant: "a", Memory: 7}} }

func (f *runs) KillBox(id, by string) error {
	if id != "s-1" {
		return fault(http.StatusNotFound, "no box %q", id)
	}
	f.ended = append(f.ended, id+" by "+by)
	return nil
}

func (f *runs) Sessions() []control.Session {
	return []control.Session{{SessionInfo: mcp.SessionInfo{ID: "s-1", Tenant: "a"}}}
}

func (f *runs) EndSession(id, by, note string) []control.Session {
	if id != "s-1" {
		return nil
	}
	f.ended = append(f.ended, id+" by "+by+": "+note)
	return f.Sessions()
}

func (f *runs) Jobs() []control.Job {
	return []control.Job{{JobInfo: tools.JobInfo{ID: 3, Session: "s-1", Command: "make"}}}
}

func (f *runs) EndJob(session string, task int64, by string) []control.Job {
	if session != "s-1" || task != 3 {
		return nil
	}
	f.ended = append(f.ended, "task by "+by)
	return f.Jobs()
}

func (f *runs) Output(session string, task, from int64, most int) (p tools.OutputPart, err error) {
	if session != "s-1" || task != 3 {
		return p, fault(http.StatusNotFound, "no task")
	}
	p.Total, p.Over = int64(len(f.output)), f.over
	if from < f.gone {
		p.Skipped, from = f.gone-from, f.gone
	}
	from = min(from, p.Total)
	p.Next = min(from+int64(most), p.Total)
	p.Text = f.output[from:p.Next]
	return p, nil
}

// counts is a fake of the server's counts: one call was allowed.
type counts struct{}

func (counts) Calls(Scope) Calls {
	return Calls{Minute: []time.Time{time.Now()}, Allow: []int{1}, Ask: []int{0}, Deny: []int{0}}
}

func (counts) Rules() []RuleUse { return []RuleUse{{ID: "shell", Calls: 1}} }

func (counts) Tenants() []control.Tenant { return []control.Tenant{} }

// full gives a rig every view.
func full(g *rig, v *Views) {
	v.Runs, v.Counts, v.AuditDir, v.Policy = &runs{}, counts{}, logged(g.t, 3), held{policies.Default()}
	v.SetsDir, v.Tools, v.Upstreams = g.t.TempDir(), kit{}, &others{}
}

// held is a policy that never changes.
type held struct{ *policies.Policy }

func (h held) Status() control.Policy { return control.Policy{File: "p.yaml", SHA256: h.Hash()} }

func (h held) Now() *policies.Policy { return h.Policy }

func (held) Text() (string, error) { return "version: 1\n", nil }

// kit is a fake of the data behind the tools: an engine, a pool of browsers and a todo.
type kit struct{}

func (kit) Engines() []EngineHealth { return []EngineHealth{{Engine: "wikipedia", State: "healthy"}} }

func (kit) TestEngine(_ context.Context, name string) (EngineTest, error) {
	if name != "wikipedia" {
		return EngineTest{}, fault(http.StatusNotFound, "no engine")
	}
	return EngineTest{Engine: name, Outcome: "OK", Results: 7}, nil
}

func (kit) Pools() []BrowserPool { return []BrowserPool{{Chromes: 1}} }

func (kit) Seats() []BrowserSeat { return []BrowserSeat{} }

func (kit) Shot(context.Context, string) ([]byte, error) {
	return nil, fault(http.StatusNotFound, "no browser")
}

func (kit) HoldSeat(_ context.Context, id, _ string) error { return noSeat(id) }

func (kit) ReleaseSeat(id, _ string) error { return noSeat(id) }

// noSeat returns an error for every browser except b-1.
func noSeat(id string) error {
	if id != "b-1" {
		return fault(http.StatusNotFound, "no browser %s runs", id)
	}
	return nil
}

func (kit) Work(context.Context, Scope) (Work, error) { return Work{Todos: []Todo{{ID: 1}}}, nil }

// others is a fake of the server's upstreams.
type others struct {
	pins []Pin
	said []string
}

func (o *others) All() []control.Upstreams { return []control.Upstreams{} }

func (o *others) Restart(_ context.Context, name, by string) (int, error) {
	if name != "files" {
		return 0, errors.New("no such server")
	}
	o.said = append(o.said, "restart by "+by)
	return 1, nil
}

func (o *others) Login(context.Context, LoginTarget, string, string) (*UpstreamLogin, error) {
	return nil, errors.New("no such server")
}

func (o *others) Pins(context.Context) ([]Pin, error) { return o.pins, nil }

func (o *others) Decide(_ context.Context, upstream, version string, approve bool, by string) error {
	if version != "v1" {
		return fault(http.StatusConflict, "another one")
	}
	o.said = append(o.said, fmt.Sprint(upstream, " ", approve, " by ", by))
	return nil
}
