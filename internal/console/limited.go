package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/mcp/tools"
)

// A person who may see only some tenants has views that show only the things of these
// tenants. A view that the method only does not set, and its routes, do not exist for such
// a person. None of the types below embeds the view that it limits, so a new method of a
// view does not compile until its limit is decided here.

// only returns the views of people with a scope.
func (v Views) only(s Scope) Views {
	out := Views{scope: s, Server: v.Server, Fleet: v.Fleet, AuditDir: v.AuditDir, SetsDir: v.SetsDir}
	if v.People != nil {
		out.People = &somePeople{v.People, s}
	}
	if v.Runs != nil {
		out.Runs = &someRuns{v.Runs, s}
	}
	if v.Counts != nil {
		out.Counts = &someCounts{v.Counts, s}
	}
	if v.Tools != nil {
		out.Tools = &someTools{v.Tools, s}
	}
	if v.Upstreams != nil {
		out.Upstreams = &someUpstreams{v.Upstreams, s}
	}
	return out
}

// errShared returns the error for a change that affects all tenants.
func errShared(s Scope, what string) error {
	return fault(http.StatusForbidden, "%s: that is for all tenants of the server, and you may decide only for %s", what, s)
}

// somePeople gives access to the approvals and questions of some tenants.
type somePeople struct {
	people People
	scope  Scope
}

func (v *somePeople) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	return v.History(ctx, approval.Filter{Live: !all})
}

func (v *somePeople) History(ctx context.Context, f approval.Filter) ([]approval.Approval, error) {
	if f.Tenant != "" && !v.scope.Sees(f.Tenant) {
		return []approval.Approval{}, nil
	}
	f.Tenants = v.scope.tenants // so the bound of the list counts only entries of these tenants
	list, err := v.people.History(ctx, f)
	return seen(v.scope, list, func(a *approval.Approval) string { return a.Tenant }), err
}

func (v *somePeople) Approval(ctx context.Context, id string) (approval.Approval, error) {
	a, err := v.people.Approval(ctx, id)
	if err == nil && !v.scope.Sees(a.Tenant) {
		return approval.Approval{}, fmt.Errorf("approval %s: %w approval", a.ID, people.ErrUnknown)
	}
	return a, err
}

func (v *somePeople) Arguments(ctx context.Context, id string, from, most int) (approval.Part, error) {
	if _, err := v.Approval(ctx, id); err != nil {
		return approval.Part{}, err
	}
	return v.people.Arguments(ctx, id, from, most)
}

func (v *somePeople) Approve(ctx context.Context, id string, said approval.Reply) (approval.Approval, error) {
	if _, err := v.Approval(ctx, id); err != nil {
		return approval.Approval{}, err
	}
	return v.people.Approve(ctx, id, said)
}

func (v *somePeople) Revoke(ctx context.Context, id, by string) (approval.Approval, error) {
	if _, err := v.Approval(ctx, id); err != nil {
		return approval.Approval{}, err
	}
	return v.people.Revoke(ctx, id, by)
}

func (v *somePeople) Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error) {
	if tenants == nil {
		tenants = v.scope.tenants // so the bound of the list counts only entries of these tenants
	}
	list, err := v.people.Questions(ctx, all, tenants)
	return seen(v.scope, list, func(a *question.Asked) string { return a.Tenant }), err
}

func (v *somePeople) Question(ctx context.Context, id string) (question.Asked, error) {
	a, err := v.people.Question(ctx, id)
	if err == nil && !v.scope.Sees(a.Tenant) {
		return question.Asked{}, fmt.Errorf("question %s: %w question", a.ID, people.ErrUnknown)
	}
	return a, err
}

func (v *somePeople) Answer(ctx context.Context, id string, said question.Reply) (question.Asked, error) {
	if _, err := v.Question(ctx, id); err != nil {
		return question.Asked{}, err
	}
	return v.people.Answer(ctx, id, said)
}

func (v *somePeople) Command(text string) string { return v.people.Command(text) }

// someRuns gives access to the boxes, sessions and tasks of some tenants.
type someRuns struct {
	runs  Runs
	scope Scope
}

func tenantOfBox(b *control.Box) string         { return b.Tenant }
func tenantOfSession(s *control.Session) string { return s.Tenant }
func tenantOfJob(j *control.Job) string         { return j.Tenant }

func (v *someRuns) Boxes() []control.Box { return seen(v.scope, v.runs.Boxes(), tenantOfBox) }

func (v *someRuns) KillBox(id, by string) error {
	meant := func(b *control.Box) bool { return b.ID == control.ShortBox(id) }
	if !owned(v.scope, v.runs.Boxes(), meant, tenantOfBox) {
		return fault(http.StatusNotFound, "no box %q is open", id)
	}
	return v.runs.KillBox(id, by)
}

func (v *someRuns) Sessions() []control.Session {
	return seen(v.scope, v.runs.Sessions(), tenantOfSession)
}

func (v *someRuns) EndSession(id, by, note string) []control.Session {
	meant := func(s *control.Session) bool { return s.ID == control.ShortID(id) }
	if !owned(v.scope, v.runs.Sessions(), meant, tenantOfSession) {
		return nil
	}
	return v.runs.EndSession(id, by, note)
}

func (v *someRuns) Jobs() []control.Job { return seen(v.scope, v.runs.Jobs(), tenantOfJob) }

// has reports whether a background task belongs to a tenant of the scope.
func (v *someRuns) has(session string, task int64) bool {
	meant := func(j *control.Job) bool { return j.Session == control.ShortID(session) && j.ID == task }
	return owned(v.scope, v.runs.Jobs(), meant, tenantOfJob)
}

func (v *someRuns) EndJob(session string, task int64, by string) []control.Job {
	if !v.has(session, task) {
		return nil
	}
	return v.runs.EndJob(session, task, by)
}

func (v *someRuns) Output(session string, task, from int64, most int) (tools.OutputPart, error) {
	if !v.has(session, task) {
		return tools.OutputPart{}, fault(http.StatusNotFound, "session %q has no task %d", session, task)
	}
	return v.runs.Output(session, task, from, most)
}

// someCounts gives access to the counts of some tenants.
type someCounts struct {
	counts Counts
	scope  Scope
}

func (v *someCounts) Calls(s Scope) Calls { return v.counts.Calls(s) }

// Rules returns an empty list, because a rule is used by the calls of all tenants.
func (v *someCounts) Rules() []RuleUse { return []RuleUse{} }

func (v *someCounts) Tenants() []control.Tenant {
	return seen(v.scope, v.counts.Tenants(), func(t *control.Tenant) string { return t.Name })
}

// someTools gives access to the data of the tools of some tenants. Search engines are
// shared by all tenants, and their state shows nothing about a tenant.
type someTools struct {
	tools Tools
	scope Scope
}

func (v *someTools) Engines() []EngineHealth { return v.tools.Engines() }

func (v *someTools) TestEngine(context.Context, string) (EngineTest, error) {
	return EngineTest{}, errShared(v.scope, "test a search engine")
}

// Pools returns an empty list, because a pool is shared by all tenants.
func (v *someTools) Pools() []BrowserPool { return []BrowserPool{} }

func tenantOfSeat(s *BrowserSeat) string { return s.Tenant }

func (v *someTools) Seats() []BrowserSeat { return seen(v.scope, v.tools.Seats(), tenantOfSeat) }

// has returns an error if a browser does not belong to a tenant of the scope.
func (v *someTools) has(id string) error {
	if !owned(v.scope, v.tools.Seats(), func(s *BrowserSeat) bool { return s.ID == id }, tenantOfSeat) {
		return fault(http.StatusNotFound, "no browser %.40q runs", id)
	}
	return nil
}

func (v *someTools) Shot(ctx context.Context, id string) ([]byte, error) {
	if err := v.has(id); err != nil {
		return nil, err
	}
	return v.tools.Shot(ctx, id)
}

func (v *someTools) HoldSeat(ctx context.Context, id, by string) error {
	if err := v.has(id); err != nil {
		return err
	}
	return v.tools.HoldSeat(ctx, id, by)
}

func (v *someTools) ReleaseSeat(id, by string) error {
	if err := v.has(id); err != nil {
		return err
	}
	return v.tools.ReleaseSeat(id, by)
}

func (v *someTools) Work(ctx context.Context, s Scope) (Work, error) { return v.tools.Work(ctx, s) }

// someUpstreams gives access to the upstreams that run for some tenants.
type someUpstreams struct {
	upstreams Upstreams
	scope     Scope
}

// All leaves out the faults of files, because only their texts say which tenants' entries
// they are about.
func (v *someUpstreams) All() []control.Upstreams {
	out := []control.Upstreams{}
	for _, at := range v.upstreams.All() {
		at.All = seen(v.scope, at.All, func(u *control.Upstream) string { return u.Tenant })
		if at.Faults, at.More = []string{}, 0; len(at.All) > 0 {
			out = append(out, at)
		}
	}
	return out
}

func (v *someUpstreams) Restart(context.Context, string, string) (int, error) {
	return 0, errShared(v.scope, "restart a server")
}

// Login begins a login for one tenant, so it is allowed if the person may see that tenant.
func (v *someUpstreams) Login(ctx context.Context, at LoginTarget, by, redirect string) (*UpstreamLogin, error) {
	if !v.scope.Sees(at.Tenant) {
		return nil, fault(http.StatusNotFound, "the server %.60q does not run for a tenant that you may see", at.Name)
	}
	return v.upstreams.Login(ctx, at, by, redirect)
}

func (v *someUpstreams) Pins(ctx context.Context) ([]Pin, error) {
	pins, err := v.upstreams.Pins(ctx)
	return seen(v.scope, pins, func(p *Pin) string { return p.Tenant }), err
}

func (v *someUpstreams) Decide(ctx context.Context, upstream, version string, approve bool, by string) error {
	pins, err := v.Pins(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pins, func(p Pin) bool { return p.Upstream == upstream && p.Version == version }) {
		return fault(http.StatusConflict, "this definition does not wait for a decision any more, or has changed; read it again")
	}
	return v.upstreams.Decide(ctx, upstream, version, approve, by)
}
