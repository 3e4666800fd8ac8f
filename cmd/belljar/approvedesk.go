package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// desks are the servers that can be asked, each with the approvals that it knows.
type desks []control.From[control.Approvals]

// open asks all servers for their approvals.
func (a *approving) open(ctx context.Context, all bool) (desks, error) {
	return askServers[control.Approvals](ctx, "approve", a.state, "/approvals", all)
}

// of returns the server that must be asked about an approval: the server that runs the
// call.
func (d desks) of(id string) (*control.Client, error) {
	for _, at := range d {
		for _, one := range at.Said.All {
			if one.ID != id {
				continue
			}
			for _, other := range d {
				if other.Said.Place == one.Place || slices.Contains(other.Said.Places, one.Place) {
					return other.Client, nil
				}
			}
			return at.Client, nil
		}
	}
	return nil, unknownApproval(id)
}

// unknownApproval returns the error for an id that no approval has.
func unknownApproval(id string) error {
	return failure(fmt.Errorf("approve: approval %q does not exist; `belljar approve list --all` lists those that do", policies.Clip(id, 64)))
}

// printApproval prints a question with everything that a person needs for the answer.
func printApproval(out io.Writer, a approval.Approval) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s of tenant %s, session %s\n", a.ID, a.State, a.Tool, approval.Plain(a.Tenant, 64), a.Session)
	for _, line := range a.Shown.Lines() {
		b.WriteString("  " + line + "\n")
	}
	fmt.Fprintf(&b, "workspace: %s\n", approval.Plain(a.Place, 200))
	if a.Profile != "" { // the end of plan mode has no profile
		fmt.Fprintf(&b, "profile:   %s\n", a.Profile)
	}
	fmt.Fprintf(&b, "rule:      %s\nreason:    %s\n", a.Rule, a.Reason)
	switch a.State {
	case approval.Pending:
		fmt.Fprintf(&b, "waits for %s more; a yes can be for: %s\n", policies.Spoken(time.Until(a.Expires)), a.Offers())
	case approval.Approved:
		fmt.Fprintf(&b, "%s said yes by %s, for %s; the approval is valid for %s more\n", a.By, a.Via, a.Scope, policies.Spoken(time.Until(a.Until)))
	case approval.Declined, approval.Used, approval.Revoked:
		fmt.Fprintf(&b, "%s answered by %s, %s after it was asked\n", a.By, a.Via, policies.Spoken(a.Waited(time.Now())))
	case approval.Expired:
	}
	if a.Note != "" {
		fmt.Fprintf(&b, "note:      %s\n", a.Note)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// say sends an answer.
func say(ctx context.Context, at *control.Client, id string, said control.Answer) (one approval.Approval, err error) {
	err = at.Ask(ctx, http.MethodPost, "/approvals/"+id+"/answer", said, &one)
	return one, err
}

// outcomeLine returns a line, for the person, about the effect of an answer.
func outcomeLine(a approval.Approval) string {
	switch a.State {
	case approval.Approved:
		if a.Scope == approval.Hours {
			return fmt.Sprintf("%s: yes, for %s. The call runs, if it still waits, and so do calls like it in that time.", a.ID, policies.Spoken(time.Until(a.Until)))
		}
		return fmt.Sprintf("%s: yes, for %s. The call runs, if it still waits, or when the agent repeats it within %s.", a.ID, a.Scope, policies.Spoken(time.Until(a.Until)))
	case approval.Used:
		return a.ID + ": yes. The call runs."
	case approval.Declined:
		return a.ID + ": no. The agent is notified."
	case approval.Revoked:
		return a.ID + ": the yes is revoked. Calls that it let run are not stopped."
	case approval.Pending, approval.Expired:
	}
	return fmt.Sprintf("%s: %s", a.ID, a.State)
}

// gist returns a summary of a call in a few words.
func gist(a approval.Approval) string {
	what := a.Tool
	if len(a.Shown.Commands) > 0 {
		what = strings.Join(a.Shown.Commands, "; ")
	}
	return policies.Clip(what, 80)
}
