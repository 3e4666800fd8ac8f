package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/policies/report"
)

// Bounds of a replay.
const (
	maxPolicy      = 512 << 10 // bytes of the body with the proposed policy
	mostReplayed   = 20_000    // number of decisions that are replayed, the newest ones
	replayMost     = 10 * time.Second
	replayExamples = 3
)

// Policy gives access to the policy in force.
type Policy interface {
	Status() control.Policy
	Now() *policies.Policy
	// Text returns the text of the policy file as it is now.
	Text() (string, error)
}

// showPolicy returns the policy, with the use of its rules.
func showPolicy(r *request) (any, error) {
	text, err := r.views.Policy.Text()
	if err != nil {
		return nil, err
	}
	out := struct {
		control.Policy
		Text  string    `json:"text"`
		Rules []RuleUse `json:"rules"`
	}{r.views.Policy.Status(), text, []RuleUse{}}
	if r.views.Counts != nil {
		out.Rules = r.views.Counts.Rules()
	}
	return out, nil
}

// explainCall returns what the policy decides about a call.
func explainCall(r *request) (any, error) {
	var call struct {
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
		Tenant    string         `json:"tenant"`
		Profile   string         `json:"profile"`
		Cursor    string         `json:"cursor"`
	}
	if err := r.read(&call); err != nil {
		return nil, err
	}
	if call.Cursor != "" {
		return explainPast(r, call.Cursor)
	}
	if call.Tool == "" {
		return nil, fault(http.StatusBadRequest, "the tool is missing")
	}
	if call.Tenant == "" {
		call.Tenant = policies.LocalTenant
	}
	if call.Arguments == nil {
		call.Arguments = make(map[string]any)
	}
	f := policies.Facts{Tool: call.Tool, Args: call.Arguments, Tenant: call.Tenant, Profile: call.Profile, Now: time.Now()}
	f.Command, _ = call.Arguments["command"].(string)
	return report.Explain(r.views.Policy.Now().Explain(f)), nil
}

// explainPast returns what the policy now decides about a call from the log.
func explainPast(r *request, cursor string) (any, error) {
	if r.views.AuditDir == "" {
		return nil, fault(http.StatusNotFound, "no audit log is kept")
	}
	at, err := audit.ParseCursor(cursor)
	if err != nil {
		return nil, &Error{http.StatusBadRequest, fmt.Errorf("cursor: %w", err)}
	}
	e, err := audit.ReadRecord(r.views.AuditDir, at)
	switch {
	case errors.Is(err, audit.ErrNoRecord):
		return nil, &Error{http.StatusNotFound, err}
	case err != nil:
		return nil, err
	case e.Kind != audit.KindDecision:
		return nil, fault(http.StatusBadRequest, "this record is not about a decision of the policy; its kind is %s", e.Kind)
	}
	past, err := e.Past()
	if err != nil {
		return nil, err
	}
	return struct {
		report.Explained
		Was   string `json:"was"`             // verdict at that time
		Lacks string `json:"lacks,omitempty"` // data of the call that are missing in the record
	}{report.Explain(r.views.Policy.Now().Explain(past.Facts)), past.Verdict.String(), past.Lacks}, nil
}

// replayPolicy returns which of the newest calls in the log a proposed policy decides
// differently from the policy in force.
func replayPolicy(r *request) (any, error) {
	var said struct {
		Policy string `json:"policy"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	if !r.console.turns.replay.TryLock() {
		return nil, fault(http.StatusTooManyRequests, "another replay is running; try again when it has ended")
	}
	defer r.console.turns.replay.Unlock()
	proposed, err := policies.Parse("proposed.yaml", []byte(said.Policy))
	if err != nil {
		return nil, &Error{http.StatusBadRequest, err}
	}
	ctx, cancel := context.WithTimeout(r.context(), replayMost)
	defer cancel()
	run := report.NewReplay(r.views.Policy.Now(), proposed, replayExamples)
	var wrong error
	_, more, err := audit.ReadBack(ctx, r.views.AuditDir, audit.Cursor{}, audit.Search{Filter: audit.Filter{Kind: audit.KindDecision}}, func(e audit.Entry, _ audit.Cursor) bool {
		past, err := e.Past()
		if err != nil {
			wrong = err
			return false
		}
		run.Add(past)
		return run.Calls < mostReplayed
	})
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	run.Sort()
	return struct {
		*report.Replay
		More bool `json:"more,omitempty"` // whether the log has older calls
	}{run, more}, nil
}
