package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/policies/report"
)

// Bounds of a replay.
const (
	maxPolicy      = 512 << 10 // bytes of the body with the proposed policy
	mostReplayed   = 20_000    // decisions, the newest
	replayMost     = 10 * time.Second
	replayExamples = 3
)

// Policy has the policy that holds.
type Policy interface {
	Status() control.Policy
	Now() *policies.Policy
	// Text is the file of the policy as it is now.
	Text() (string, error)
}

// policyHandlers serve the policy.
type policyHandlers struct {
	policy Policy
	counts Counts      // nil where nothing is counted
	log    string      // the directory of the audit log; empty for none
	one    *sync.Mutex // held while a replay goes on
}

// show is the policy with its rules that have decided.
func (h *policyHandlers) show(*request) (any, error) {
	text, err := h.policy.Text()
	if err != nil {
		return nil, err
	}
	out := struct {
		control.Policy
		Text  string    `json:"text"`
		Rules []RuleUse `json:"rules"`
	}{h.policy.Status(), text, []RuleUse{}}
	if h.counts != nil {
		out.Rules = h.counts.Rules()
	}
	return out, nil
}

// explain says what the policy decides about a call.
func (h *policyHandlers) explain(r *request) (any, error) {
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
		return h.explainPast(call.Cursor)
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
	return report.Explain(h.policy.Now().Explain(f)), nil
}

// explainPast says what the policy decides now about a call of the log.
func (h *policyHandlers) explainPast(cursor string) (any, error) {
	if h.log == "" {
		return nil, fault(http.StatusNotFound, "no audit log is kept")
	}
	at, err := audit.ParseCursor(cursor)
	if err != nil {
		return nil, &Error{http.StatusBadRequest, fmt.Errorf("cursor: %w", err)}
	}
	e, err := audit.ReadRecord(h.log, at)
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
		Was   string `json:"was"`             // what was decided then
		Lacks string `json:"lacks,omitempty"` // what of the call is not in the record
	}{report.Explain(h.policy.Now().Explain(past.Facts)), past.Verdict.String(), past.Lacks}, nil
}

// replay says which of the newest calls of the log a proposed policy decides otherwise than
// the one that holds.
func (h *policyHandlers) replay(r *request) (any, error) {
	var said struct {
		Policy string `json:"policy"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	if !h.one.TryLock() {
		return nil, fault(http.StatusTooManyRequests, "another replay goes on; try again when it has ended")
	}
	defer h.one.Unlock()
	proposed, err := policies.Parse("proposed.yaml", []byte(said.Policy))
	if err != nil {
		return nil, &Error{http.StatusBadRequest, err}
	}
	ctx, cancel := context.WithTimeout(r.Context(), replayMost)
	defer cancel()
	run := report.NewReplay(h.policy.Now(), proposed, replayExamples)
	var wrong error
	_, more, err := audit.ReadBack(ctx, h.log, audit.Cursor{}, audit.Search{Filter: audit.Filter{Kind: audit.KindDecision}}, func(e audit.Entry, _ audit.Cursor) bool {
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
		More bool `json:"more,omitempty"` // the log has older calls
	}{run, more}, nil
}
