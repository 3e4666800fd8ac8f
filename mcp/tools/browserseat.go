package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"

	"belljar.dev/browser/act"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// browsers contains the browser of each session.
type browsers struct {
	backends Backends
	shells   *shells // the boxes whose files are read and written

	mu   sync.Mutex
	open map[string]*browserSeat // guarded by mu: seats by session id
}

// Chrome is a seat of browser/act.
type Chrome interface {
	Look(ctx context.Context, q act.LookRequest) (*act.Look, error)
	Prepare(ctx context.Context, tab string, s act.Step) (*act.Prepared, error)
	Do(ctx context.Context, p *act.Prepared, s act.Step) (*act.Outcome, error)
	Show(ctx context.Context) (*act.Look, error)
	Mask(text string) string
	SecretsHere(tab string) []string
	Close() error
}

// browserSeat is the browser of one session.
type browserSeat struct {
	tenant, profile string
	turn            chan struct{}          // contains a token of the call that uses the browser
	secrets         []policies.FieldSecret // secrets that the browser was opened with

	mu     sync.Mutex
	chrome Chrome   // guarded by mu: nil until the browser is open, and after the session
	call   mcp.Call // guarded by mu: call of the step that runs or ran last; documents belong to it
	last   *looked  // guarded by mu: the step that the policy judged last
}

// looked is a step in a tab, with the browser's facts about it.
type looked struct {
	tab  string
	step browserStep
	is   *act.Prepared
}

// prepare keeps the facts of a step that the policy judges.
func (s *browserSeat) prepare(tab string, step browserStep, is *act.Prepared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &looked{tab, step, is}
}

// prepared returns the facts that the policy judged for a step, once. It returns nil if the
// policy judged another step last.
func (s *browserSeat) prepared(tab string, step browserStep) *act.Prepared {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last
	s.last = nil
	// The facts of opening an address do not come from the page.
	if last == nil || last.tab != tab || step.Do == string(act.DoOpen) || !reflect.DeepEqual(last.step, step) {
		return nil
	}
	return last.is
}

// current returns the browser of a session, or nil if it has none.
func (b *browsers) current(session *mcp.Session) *browserSeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[session.ID()]
}

// seat returns the session's browser for a call, and opens it if necessary. The browser
// ends with the session.
func (b *browsers) seat(ctx context.Context, call mcp.Call) (*browserSeat, error) {
	g, id := call.Grant, call.Session.ID()
	b.mu.Lock()
	s, mine := b.open[id], 0
	for _, o := range b.open {
		if o.tenant == g.Tenant() {
			mine++
		}
	}
	switch {
	case s != nil && s.profile != g.Profile():
		b.mu.Unlock()
		return nil, fmt.Errorf("the browser of this session has profile %q, and this call has profile %q; nothing was done; use the browser as before, or ask the person you work for to let the policy grant one profile", s.profile, g.Profile())
	case s != nil:
		b.mu.Unlock()
		return s, nil
	case mine >= g.Totals().Browsers:
		b.mu.Unlock()
		return nil, fmt.Errorf("your sessions have %d browsers, as many as the policy allows (totals.browsers); nothing was done; end a session that has one", mine)
	}
	s = &browserSeat{tenant: g.Tenant(), profile: g.Profile(), turn: make(chan struct{}, 1), secrets: g.Acting().Secrets, call: call}
	b.open[id] = s
	b.mu.Unlock()
	c, err := b.backends.Browsers.Open(ctx, g, s.options(b, g))
	if err != nil {
		b.mu.Lock()
		delete(b.open, id)
		b.mu.Unlock()
		return nil, err
	}
	s.mu.Lock()
	s.chrome = c
	s.mu.Unlock()
	// OnEnd is called only for a browser that was opened: a call can fail to open one any
	// number of times. It is called without the locks, because it calls the function
	// immediately if the session has ended meanwhile.
	call.Session.OnEnd(func() {
		b.mu.Lock()
		if b.open[id] == s {
			delete(b.open, id)
		}
		b.mu.Unlock()
		s.end(b)
	})
	return s, nil
}

// options returns the browser's options for a grant.
func (s *browserSeat) options(b *browsers, g policies.Grant) act.Options {
	a := g.Acting()
	o := act.Options{
		Judge: s.judge, Downloads: a.Limits.Downloads, Uploads: a.Limits.Uploads, Eval: a.Eval == policies.EvalRead, OneSite: a.Sites == policies.SitesOne, Park: a.Limits.Idle,
	}
	for _, f := range a.Secrets {
		o.Secrets = append(o.Secrets, act.Secret{
			Name: f.Secret, Origin: f.Origin, Field: f.Field, Embedded: f.Embedded, Insecure: f.Insecure(),
			Value: func(ctx context.Context) (string, error) { return b.backends.Browsers.Secret(ctx, f.Secret) },
		})
	}
	return o
}

// judge decides about a document that a page requests, by the policy that is in force now:
// a page may request it long after the last step.
func (s *browserSeat) judge(ctx context.Context, n act.Navigation) error {
	s.mu.Lock()
	c := s.call
	s.mu.Unlock()
	decide := c.Grant.DecideDocumentBy
	if n.File {
		decide = c.Grant.DecideFileBy
	}
	now := func(f policies.Facts) policies.Decision { return c.Judge(ctx, f) }
	if d := decide(now, n.From, n.URL, n.Method); d.Verdict != policies.Allow {
		return errors.New(d.Refusal(""))
	}
	return nil
}

// decided sets the call that later documents belong to.
func (s *browserSeat) decided(c mcp.Call) {
	s.mu.Lock()
	s.call = c
	s.mu.Unlock()
}

// take waits for the turn of a call, and returns the browser.
func (s *browserSeat) take(ctx context.Context) (Chrome, func(), error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	s.mu.Lock()
	c := s.chrome
	s.mu.Unlock()
	if c == nil {
		<-s.turn
		return nil, nil, errors.New("the browser of this session is being opened or has ended; nothing was done; call again")
	}
	return c, func() { <-s.turn }, nil
}

// said returns an error of the browser for the agent, with secrets masked. A browser that
// has closed itself, for example because it was too old, is removed, so that the session
// can open another.
func (b *browsers) said(s *browserSeat, c Chrome, err error) error {
	if err == nil {
		return nil
	}
	if act.ReasonOf(err) == act.ReasonClosed {
		b.mu.Lock()
		maps.DeleteFunc(b.open, func(_ string, o *browserSeat) bool { return o == s })
		b.mu.Unlock()
	}
	return errors.New(c.Mask(err.Error()))
}

// end closes the browser. Calls that wait for the browser fail.
func (s *browserSeat) end(b *browsers) {
	s.mu.Lock()
	c := s.chrome
	s.chrome = nil
	s.mu.Unlock()
	if c == nil {
		return
	}
	if err := c.Close(); err != nil {
		b.backends.Log.Error("close the browser of a session", "err", err)
	}
}
