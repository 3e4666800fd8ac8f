package mcp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/policies"
)

// asksFirst is a Gate that wants an approval for each call.
type asksFirst struct{}

func (asksFirst) Decide(policies.Facts) policies.Decision {
	return policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}
}

// slowPerson is an Approver with a person who says yes after a time.
type slowPerson struct{ thinks time.Duration }

func (slowPerson) Ways(string) ([]string, bool) { return []string{"command line"}, true }

func (slowPerson) Ask(context.Context, Question) (Approval, error) {
	return Approval{ID: "ap-1", State: ApprovalPending}, nil
}

func (p slowPerson) Wait(context.Context, string, time.Duration) (Approval, error) {
	<-time.NewTimer(p.thinks).C
	return Approval{ID: "ap-1", State: ApprovalApproved}, nil
}

func (slowPerson) Use(context.Context, Question, string) (bool, error) { return true, nil }

func (slowPerson) Answer(context.Context, string, ClientAnswer) error { return nil }

type nothing struct{}

func (nothing) Facts() policies.Facts { return policies.Facts{} }

// The time for which a person thinks belongs to the time for which the client waits:
// otherwise the client gives up while the handler still works, and the work is lost.
func TestPatienceCountsTheTimeOfAPerson(t *testing.T) {
	for _, tt := range []struct{ thinks, patience, want time.Duration }{
		{20 * time.Second, 45 * time.Second, 25 * time.Second},
		{100 * time.Millisecond, 45 * time.Second, 45 * time.Second},
		{50 * time.Second, 45 * time.Second, leastPatience},
		{20 * time.Second, 2 * time.Second, 2 * time.Second}, // an operator may expect even less than leastPatience
		{20 * time.Second, 0, 0},                             // this client waits as long as the call takes
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Config{Gate: asksFirst{}, Approver: slowPerson{tt.thinks}})
			if err != nil {
				t.Fatal(err)
			}
			var got time.Duration
			AddTool(s, Tool{Name: "work", Description: "works"}, func(_ context.Context, call Call, _ nothing) (*Result, error) {
				got = call.Patience
				return Text("done"), nil
			})
			session, err := s.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := s.gate.call(t.Context(), session, toolCall{name: "work", patience: tt.patience})
			if err != nil || res.IsError || got != tt.want {
				t.Errorf("a person thinks for %v, and the client waits for %v: the handler has %v, want %v (%v, %v)", tt.thinks, tt.patience, got, tt.want, res, err)
			}
		})
	}
}
