package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/job"
	"belljar.dev/internal/people/approval"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
)

// skillsEvery is the interval at which a server checks whether skills have changed.
const skillsEvery = 2 * time.Second

// around runs hooks around the calls of a server, which may refuse them, and adds
// callbacks and the reminder of skills to results.
type around struct {
	flow   *flow
	server atomic.Pointer[mcp.Server] // nil until the server is made

	mu    sync.Mutex
	notes map[string][]string // guarded by mu: notes of the hooks before a call, by the call's ID, until the call ends
}

func newAround(f *flow) *around { return &around{flow: f, notes: make(map[string][]string)} }

// Before runs the hooks before a call. It returns a refusal if one of them refuses the
// call, and nil otherwise.
func (a *around) Before(ctx context.Context, c mcp.Call, f policies.Facts) *policies.Refusal {
	a.flow.aside.Began(c)
	v := a.flow.hooks.EmitOf(ctx, hooks.ToolUse, func() hooks.Event { return eventOf(hooks.ToolUse, c, f) })
	if !v.Denied {
		if len(v.Notes) > 0 {
			a.mu.Lock()
			a.notes[c.ID] = v.Notes
			a.mu.Unlock()
		}
		return nil
	}
	reason := v.Reason
	if reason == "" {
		reason = "It gave no reason."
	}
	r := policies.Decision{
		Verdict: policies.Deny, Rule: "hook:" + v.By, Reason: reason,
		Instead: "Do what the hook asks for, or tell the person you work for.",
	}.Denied(c.ID)
	return &r
}

// After runs the hooks after a call. It returns the content that is added to the result.
func (a *around) After(ctx context.Context, c mcp.Call, f policies.Facts, o mcp.Outcome) mcp.Beside {
	a.mu.Lock()
	notes := a.notes[c.ID]
	delete(a.notes, c.ID)
	a.mu.Unlock()
	switch {
	case o.Err != nil:
		e := eventOf(hooks.Error, c, f)
		e.Data["error"] = o.Err.Error()
		a.flow.hooks.Later(e)
	case !o.Refused:
		notes = append(notes, a.flow.hooks.EmitOf(ctx, hooks.ToolResult, func() hooks.Event {
			e := eventOf(hooks.ToolResult, c, f)
			e.Data["is_error"], e.Data["text"], e.Data["duration_ms"] = o.Result.IsError, resultText(o.Result), o.Took.Milliseconds()
			return e
		}).Notes...)
	}
	var more []mcp.Content
	for _, note := range notes {
		more = append(more, mcp.Content{Text: "[hook] " + note})
	}
	beside := a.flow.aside.Ended(ctx, c, o.Err == nil)
	beside.Content = append(more, beside.Content...)
	return beside
}

// eventOf returns the event of a call.
func eventOf(name string, c mcp.Call, f policies.Facts) hooks.Event {
	data := map[string]any{"call": c.ID, "tool": c.Tool, "arguments": f.Args, "profile": c.Grant.Profile()}
	if f.Command != "" {
		data["command"] = f.Command
	}
	var acts []string
	for _, a := range f.Acts {
		acts = append(acts, a.String())
	}
	for member, all := range map[string][]string{"paths": f.Paths, "urls": f.URLs, "acts": acts} {
		if len(all) > 0 {
			data[member] = all
		}
	}
	return hooks.Event{Name: name, Session: control.ShortID(c.Session.ID()), Tenant: c.Session.Tenant(), Time: time.Now(), Data: data}
}

// later queues the hooks of an event, and does not wait for them.
func (f *flow) later(event, session, tenant string, data map[string]any) {
	if f.hooks != nil {
		f.hooks.Later(hooks.Event{Name: event, Session: control.ShortID(session), Tenant: tenant, Time: time.Now(), Data: data})
	}
}

// began and ended run the hooks for the beginning and the end of a session.
func (f *flow) began(s *mcp.Session) {
	f.later(hooks.SessionStart, s.ID(), s.Tenant(), nil)
}

func (f *flow) ended(s *mcp.Session) {
	client, version := s.Client()
	f.later(hooks.SessionEnd, s.ID(), s.Tenant(), map[string]any{"client": client, "client_version": version})
}

// jobEnded runs the hooks for the end of a background job, for whatever reason it has
// ended.
func (f *flow) jobEnded(j job.Job) {
	select {
	case f.jobOver <- struct{}{}:
	default: // nobody waits, or an earlier value is still unread
	}
	f.later(hooks.JobEnd, j.Owner.Session, j.Owner.Tenant, map[string]any{
		"task_id": j.ID, "status": j.Status, "exit_code": j.End.Code, "duration_ms": j.End.Wall.Milliseconds(),
	})
}

// approval runs the hooks for an event of an approval.
func (f *flow) approval(e approval.Event) {
	a := e.Approval
	f.later(hooks.Approval, a.Session, a.Tenant, map[string]any{
		"approval": a.ID, "state": e.Kind, "tool": a.Tool, "rule": a.Rule, "by": a.By, "call": e.CallID,
	})
}

// run fires callbacks and updates the skills until ctx ends.
func (f *flow) run(ctx context.Context, s *mcp.Server) {
	f.around.server.Store(s)
	var wg sync.WaitGroup
	wg.Go(func() { f.callbacks.Run(ctx, f.aside.Idle) })
	look := time.NewTicker(skillsEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if s.Occupied() {
				tools.DescribeSkills(s, f.skills)
			}
		case <-ctx.Done():
			wg.Wait()
			return
		}
	}
}
