package tools

import (
	"context"
	"fmt"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Approvals contains the questions to people for which calls wait.
type Approvals interface {
	// Wait returns the approval once it is no longer pending, or once most has passed.
	Wait(ctx context.Context, id string, most time.Duration) (mcp.Approval, error)
}

// approvalOutput is the state of an approval.
type approvalOutput struct {
	ID      string `json:"id"`
	State   string `json:"state" jsonschema:"pending, approved, declined, expired, used or revoked"`
	Tool    string `json:"tool" jsonschema:"tool whose call waits"`
	By      string `json:"by,omitempty" jsonschema:"the person who answered"`
	Note    string `json:"note,omitempty" jsonschema:"note of the person who answered"`
	Scope   string `json:"scope,omitempty" jsonschema:"what an approval covers: once, session or hours"`
	LeftMS  int64  `json:"left_ms" jsonschema:"milliseconds until the question, or the approval, expires"`
	Repeat  bool   `json:"repeat" jsonschema:"true if the same call, made again, runs now"`
	Waiting bool   `json:"waiting" jsonschema:"true if nobody has answered yet"`
}

// readApproval reports the state of an approval. An approval of another tenant does
// not exist for the caller.
func (s *shells) readApproval(ctx context.Context, call mcp.Call, id string, wait time.Duration) (*mcp.Result, error) {
	unknown := mcp.Failed("id: approval %q does not exist. The result of a call that waits for an approval states its id.", policies.Clip(id, 40))
	if s.backends.Approvals == nil {
		return unknown, nil
	}
	a, err := s.backends.Approvals.Wait(ctx, id, 0)
	if err != nil || a.Tenant != call.Session.Tenant() {
		if err != nil {
			s.backends.Log.Warn("approval not read", "id", id, "err", err)
		}
		return unknown, nil // the cause is for the operator's log and not for the agent
	}
	if a.State == mcp.ApprovalPending && wait > 0 {
		switch a, err = s.backends.Approvals.Wait(ctx, id, wait); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			s.backends.Log.Warn("approval not read", "id", id, "err", err)
			return mcp.Failed("The state of approval %s cannot be read now; the log of the server says why. Instead: call again.", policies.Clip(id, 40)), nil
		}
	}
	out := &approvalOutput{
		ID: a.ID, State: a.State, Tool: a.Tool, By: a.By, Note: a.Note, Scope: a.Scope, LeftMS: a.Left.Milliseconds(),
		Repeat: a.State == mcp.ApprovalApproved, Waiting: a.State == mcp.ApprovalPending,
	}
	if !out.Repeat && !out.Waiting {
		out.LeftMS = 0
	}
	return &mcp.Result{
		Content:    []mcp.Content{{Text: approvalText(a)}},
		Structured: map[string]any{"approval": out},
	}, nil
}

// approvalText returns the text about an approval.
func approvalText(a mcp.Approval) string {
	var t text
	switch a.State {
	case mcp.ApprovalPending:
		t.line("WAITING: nobody has answered approval %s yet (rule %s). It expires in %s.", a.ID, a.Rule, policies.Spoken(a.Left))
		t.line("%s", policies.ByCommand(a.Command))
		t.line("Go on with other work; with wait_ms, this tool waits up to a minute for the answer.")
	case mcp.ApprovalApproved:
		t.line("APPROVED: %s said yes to %s, for %s. Repeat the same call of %s within %s: it runs now.", a.By, a.ID, scopeText(a.Scope), a.Tool, policies.Spoken(a.Left))
	case mcp.ApprovalUsed:
		t.line("USED: %s said yes to %s, and the call has run or is running. A further call asks again.", a.By, a.ID)
	case mcp.ApprovalDeclined:
		t.line("DENIED by a person: %s said no to %s. Nothing was run, and repeating or rewording the call gives the same answer.", a.By, a.ID)
	case mcp.ApprovalRevoked:
		t.line("DENIED by a person: %s revoked approval %s. Reach the goal another way.", a.By, a.ID)
	default:
		t.line("DENIED: %s ended without an answer, or without the call that the answer was for. Repeating the call asks again.", a.ID)
	}
	if a.Note != "" {
		t.line("Their note: %s", a.Note)
	}
	return t.status("id", a.ID, "state", a.State)
}

func scopeText(scope string) string {
	switch scope {
	case "once":
		return "one call"
	case "session":
		return "this session"
	}
	return fmt.Sprintf("some %s", scope)
}
