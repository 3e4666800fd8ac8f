package mcp_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// person is an Approver whose answers a test sets.
type person struct {
	ways    []string
	nobody  bool
	asked   mcp.Approval // returned by Ask
	waited  mcp.Approval // returned by Wait
	err     error
	used    []bool // results of Use, in order
	useErr  error
	waits   []time.Duration
	answers []mcp.ClientAnswer
	mu      sync.Mutex
	on      func() // called by Wait
}

func (p *person) Ways(string) ([]string, bool) { return p.ways, !p.nobody }

func (p *person) Ask(context.Context, mcp.Question) (mcp.Approval, error) { return p.asked, p.err }

func (p *person) Wait(_ context.Context, _ string, most time.Duration) (mcp.Approval, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, most)
	if p.on != nil {
		p.on()
	}
	return p.waited, nil
}

func (p *person) Use(context.Context, mcp.Question, string) (bool, error) {
	if p.useErr != nil {
		return false, p.useErr
	}
	ok := p.used[0]
	p.used = p.used[1:]
	return ok, nil
}

func (p *person) Answer(_ context.Context, _ string, a mcp.ClientAnswer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, a)
	return nil
}

// judged is a gate whose decision a test sets.
type judged struct {
	mu sync.Mutex
	d  policies.Decision
}

func (j *judged) Decide(policies.Facts) policies.Decision {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.d
}

func (j *judged) set(d policies.Decision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.d = d
}

func TestAsk(t *testing.T) {
	ask := policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1", Obligations: policies.Obligations{Ask: policies.Asking{ReturnAfter: 7 * time.Second}}}
	pending := mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending, Rule: "publish", Left: 10 * time.Minute}
	with := func(state string) mcp.Approval {
		a := pending
		a.State, a.By = state, "me"
		return a
	}
	cli := []string{"command line"}
	for _, tt := range []struct {
		name   string
		person *person
		want   string // part of the answer's text
		audit  string // verdict and state in the audit log
	}{
		{"nobody to ask", &person{}, "no approver is connected", "ask "},
		{"nobody may answer", &person{ways: cli, nobody: true}, "no approver is connected", "ask "},
		{"nobody answers in time", &person{ways: cli, asked: pending, waited: pending}, "WAITING for approval ap-1 (rule publish). Nothing was run. Asked: command line. Expires in 10 min.", "ask pending"},
		{"yes while it waits", &person{ways: cli, asked: pending, waited: with(mcp.ApprovalApproved), used: []bool{true}}, "hello", "allow approved"},
		{"yes before", &person{ways: cli, asked: with(mcp.ApprovalApproved), used: []bool{true}}, "hello", "allow approved"},
		{"the yes went to another", &person{ways: cli, asked: with(mcp.ApprovalApproved), used: []bool{false, true}}, "hello", "allow approved"},
		{"every yes went to another", &person{ways: cli, asked: with(mcp.ApprovalUsed), used: []bool{false, false, false}}, "another call used the approval", "deny "},
		{"no", &person{ways: cli, asked: pending, waited: with(mcp.ApprovalDeclined)}, "DENIED by a person: approval ap-1 (rule publish) was declined", "deny declined"},
		{"revoked", &person{ways: cli, asked: with(mcp.ApprovalRevoked)}, "was revoked", "deny revoked"},
		{"expired", &person{ways: cli, asked: pending, waited: mcp.Approval{ID: "ap-1", State: mcp.ApprovalExpired, Waited: time.Minute}}, "nobody answered approval ap-1", "deny expired"},
		{"it cannot be asked", &person{ways: cli, err: errors.New("the disk is full")}, "could not ask for it: the disk is full", "deny "},
		{"it cannot be used", &person{ways: cli, asked: with(mcp.ApprovalApproved), useErr: errors.New("the disk is full")}, "the disk is full", "deny "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate, log := &judged{d: ask}, &book{}
			ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver, cfg.Audit = gate, tt.person, log })
			session, err := ty.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"hello"}`))
			if err != nil || !strings.Contains(res.Content[0].Text, tt.want) {
				t.Errorf("answered %+v, %v, want it to hold %q", res, err, tt.want)
			}
			if got := log.last(); got != tt.audit {
				t.Errorf("the log got %q, want %q", got, tt.audit)
			}
			for _, w := range tt.person.waits {
				if w <= 6*time.Second || w > 7*time.Second {
					t.Errorf("it waits %v, want the 7s of the policy", w)
				}
			}
		})
	}
}

// book is an audit log that keeps the last line.
type book struct {
	mu   sync.Mutex
	line string
}

func (b *book) Decided(_ context.Context, d mcp.Decided) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line = d.Decision.Verdict.String() + " "
	if d.Approval != nil {
		b.line += d.Approval.State
	}
	return nil
}

func (*book) Finished(mcp.Finished) {}

func (b *book) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.line
}

// If the policy changes while a person thinks, the new policy decides the call, not the
// policy that asked.
func TestThePolicyChangesWhileAPersonThinks(t *testing.T) {
	ask := policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}
	for _, tt := range []struct {
		name string
		then policies.Decision
		want string
	}{
		{"denies", policies.Decision{Verdict: policies.Deny, Rule: "never", Policy: "2"}, "DENIED by policy rule never"},
		{"allows", policies.Decision{Verdict: policies.Allow, Policy: "2"}, "hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := &judged{d: ask}
			p := &person{ways: []string{"command line"}, asked: mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending}, waited: mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}}
			p.on = func() { gate.set(tt.then) }
			ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver = gate, p })
			session, err := ty.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"hello"}`))
			if err != nil || !strings.Contains(res.Content[0].Text, tt.want) {
				t.Errorf("answered %+v, %v, want it to hold %q", res, err, tt.want)
			}
		})
	}
}

// A yes to a question of one policy does not answer the question of another policy, which
// may show something else: the person is asked again.
func TestAYesHoldsForThePolicyThatAsked(t *testing.T) {
	ask := policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1"}
	gate := &judged{d: ask}
	p := &person{
		ways: []string{"command line"}, asked: mcp.Approval{ID: "ap-1", State: mcp.ApprovalPending},
		waited: mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}, used: []bool{true},
	}
	p.on = func() {
		if len(p.waits) > 1 {
			p.waited.State, p.waited.By = mcp.ApprovalDeclined, "me"
		}
		again := ask
		again.Policy = "2"
		gate.set(again)
	}
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver = gate, p })
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"hello"}`))
	if err != nil || !strings.Contains(res.Content[0].Text, "was declined") || len(p.used) != 1 {
		t.Errorf("answered %+v, %v, with %d of 1 approvals left; want the second question's no", res, err, len(p.used))
	}
}

// A call that exceeds its rate does not use up its approval.
func TestACallOverItsRateUsesNoApproval(t *testing.T) {
	gate := &judged{d: policies.Decision{Verdict: policies.Ask, Rule: "publish", Policy: "1", Obligations: policies.Obligations{Limits: []policies.RateLimit{{Rule: "publish", Calls: 1, Per: time.Hour}}}}}
	p := &person{ways: []string{"command line"}, asked: mcp.Approval{ID: "ap-1", State: mcp.ApprovalApproved}, used: []bool{true, true}}
	ty := newToy(t, func(cfg *mcp.Config) { cfg.Gate, cfg.Approver = gate, p })
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for i, want := range []string{"hello", "are used up"} {
		res, err := ty.Call(t.Context(), session, "echo", []byte(`{"text":"hello"}`))
		if err != nil || !strings.Contains(res.Content[0].Text, want) {
			t.Errorf("call %d: answered %+v, %v, want it to contain %q", i+1, res, err, want)
		}
		if len(p.used) != 1 {
			t.Errorf("call %d: %d of 2 approvals are left, want 1", i+1, len(p.used))
		}
	}
}
