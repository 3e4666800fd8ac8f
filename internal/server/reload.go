package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/front"
	"belljar.dev/policies"
)

// reloader reads the policy file again while a server runs. It is used by one
// goroutine.
type reloader struct {
	gate    *gate
	file    string         // the policy's file; empty for the built-in policy
	places  *places        // places hold the layout that the policy gives
	state   string         // the state directory, which no policy may show to a box; empty without one
	changed func(*layout)  // called with each new policy; the next signal waits until it returns
	asked   chan struct{}  // holds one while the policy is to be read again
	hands   chan handed    // policies of the fleet
	fleet   *fleetPolicies // nil without a fleet
	front   *front.Config  // nil over stdio, where no tokens come
	watch   watcher
	others  watchers      // of the files of upstreams
	tried   []string      // files that a policy with faults names
	status  *policyStatus // for the commands that ask
	console *front.Config // the files of the console; nil for none
	audit   *ledger
	log     *slog.Logger
}

// newReloader reads the policy of a place again for the gate. The caller sets changed.
func newReloader(g *gate, at Place, ps *places, l *ledger, http *front.Config) *reloader {
	r := &reloader{
		gate: g, file: at.PolicyName, places: ps, state: at.State, front: http,
		asked: make(chan struct{}, 1), hands: make(chan handed), fleet: ps.layout.Load().fleetPolicies, status: &policyStatus{}, audit: l, log: at.Log,
	}
	r.status.hold(at.PolicyName, at.Policy)
	if r.file == config.BuiltinPolicy {
		r.file = ""
	}
	return r
}

// ask has the policy read again, and does not wait until it is read.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // a request that waits serves for this one, too
	}
}

// run reads the policy when it is asked to, and if watch is set when its files have
// changed, until ctx ends.
func (r *reloader) run(ctx context.Context, watch bool) {
	var looks <-chan time.Time // never
	if watch {
		look := time.NewTicker(watchEvery)
		defer look.Stop()
		looks = look.C
	}
	r.watch.begin(nil)
	r.watch.also(r.files(), r.places.layout.Load().began)
	r.others.begin(nil)
	r.others.also(r.places.upstreamFiles(), r.places.layout.Load().began)
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
			r.look(ctx)
		case <-r.asked:
			r.reload(ctx)
		case h := <-r.hands:
			h.answer <- r.take(ctx, h)
		}
	}
}

// look reads what has changed and has been left alone since. Agents can write some files of
// upstreams without a pause, so nothing else waits for those to be left alone.
func (r *reloader) look(ctx context.Context) {
	if r.watch.look(r.files()) {
		r.reload(ctx)
	}
	if files := r.places.upstreamFiles(); r.others.look(files) {
		r.others.begin(files)
		r.reloadUpstreams()
	}
}

// reloadUpstreams reads the files of upstreams again, under the policy that holds.
func (r *reloader) reloadUpstreams() {
	for _, p := range r.places.all() {
		p.reloadUpstreams()
	}
}

// files are those that the policy is made of, or would be, and those of its
// tenants' tokens.
func (r *reloader) files() []string {
	switch {
	case r.file == "":
		return []string{config.UserPolicy()}
	case config.IsBundled(r.file):
		return nil
	}
	names := []string{r.file}
	holds, l := r.gate.now.Load(), r.places.layout.Load()
	for _, workspace := range l.all { // each may have rules of a project
		for _, f := range l.set.Of(workspace).Files() {
			if f.Layer != policies.LayerSystem && !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	if r.front != nil {
		for _, name := range holds.Tenants() {
			if t, _ := holds.Tenant(name); t.Token.File != "" {
				names = append(names, t.Token.File)
			}
		}
	}
	return append(names, r.tried...)
}

// reload puts the policy file's present text into the gate, or says why not. Where
// the file is gone, its last policy stays: the built-in one may allow what the file
// denied.
func (r *reloader) reload(ctx context.Context) {
	r.places.changing.Lock()
	defer r.places.changing.Unlock()
	began := time.Now()
	r.watch.begin(r.files())
	r.others.begin(r.places.upstreamFiles())
	defer func() {
		r.watch.also(r.files(), began)
		r.others.also(r.places.upstreamFiles(), began)
	}()
	c, err := r.read(ctx, r.file)
	r.tried = nil
	if err != nil {
		r.status.refuse(config.FirstLine(err))
		holds := r.gate.now.Load()
		r.audit.policy("refused", cmp.Or(r.file, config.BuiltinPolicy), holds, holds, config.FirstLine(err))
		r.log.Error("the policy cannot be read again; the one before holds on", "err", config.FirstLine(err))
		if parse, ok := errors.AsType[*policies.ParseError](err); ok {
			r.tried = parse.Files
			// Without the source lines: a log is no place for what they may hold.
			for _, f := range parse.Faults {
				r.log.Error("fault of the policy", "file", f.File, "line", f.Line, "col", f.Col, "fault", f.Message, "hint", f.Hint)
			}
		}
		r.rotate(ctx) // tokens that were taken away do not wait for a policy without faults
		return
	}
	if c.same {
		r.status.hold(c.set.Name, c.policy())
		r.log.Info("the policy was read again and is as it was", "policy", c.set.Name)
		r.reloadUpstreams() // the files of servers may be others now
		r.rotate(ctx)
		return
	}
	r.use(ctx, c, "")
}

// candidate is a policy that was read and checked, and may hold from now on.
type candidate struct {
	*layout

	same   bool // it is the one that holds
	tokens []auth.Digest
}

// read reads a policy file and checks that its policy can hold here. The caller has changing.
func (r *reloader) read(ctx context.Context, file string) (c candidate, err error) {
	if c.layout, err = r.places.layout.Load().read(file); err != nil {
		return c, err
	}
	p := c.policy()
	err = r.audit.bears(p, c.all)
	if err == nil && r.state != "" && !c.routes {
		err = config.Unseen(r.state, c.all, p)
	}
	if err == nil && !c.routes {
		err = errors.Join(frontFiles(r.front, c.all, p), frontFiles(r.console, c.all, p))
	}
	c.same = err == nil && c.layout.same(r.places.layout.Load())
	if err == nil && r.front != nil && !c.same {
		c.tokens, err = tokensFor(ctx, p, r.gate.now.Load(), config.Boxes(p, c.all, r.state), r.state == "")
	}
	return c, err
}

// use has a policy hold. why is for the audit log; empty for a file that has changed. The caller has
// changing.
func (r *reloader) use(ctx context.Context, c candidate, why string) {
	name, p := c.set.Name, c.policy()
	if name != config.BuiltinPolicy {
		r.file = name
	}
	before := r.gate.now.Load()
	r.audit.policy("read", name, before, p, why)
	r.hold(c.tokens) // before the policy: no client comes as a tenant that has gone
	if r.front != nil {
		r.gate.login.Trust(p)
	}
	r.swap(ctx, c.layout)
	r.status.hold(name, p) // now it does
	r.changed(c.layout)
	if r.front != nil {
		if err := r.gate.login.Prepare(ctx); err != nil {
			r.log.Error("the tokens of an issuer are not accepted", "err", err)
		}
	}
	now, _ := p.Audit()
	if old, _ := before.Audit(); now != old {
		r.log.Warn("what the policy says about the audit log holds from the next start on")
	}
	r.log.Info("the policy was read again and holds from now on", "policy", name, "hash", p.Hash())
}

// swap has another layout hold, and its policy. A front has no place of its own whose gate gets it.
func (r *reloader) swap(ctx context.Context, l *layout) {
	r.places.hold(ctx, l)
	if l.routes {
		r.gate.now.Store(l.policy())
	}
}

// handed is a policy of the fleet for the goroutine of a reloader.
type handed struct {
	fleet.Policy

	answer chan error
}

// hand has the reloader take a policy of the fleet, and waits for its answer. A *fleet.Refusal says
// that the policy before stays in force.
func (r *reloader) hand(ctx context.Context, g fleet.Policy) error {
	h := handed{g, make(chan error, 1)}
	select {
	case r.hands <- h:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-h.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// check reports why a policy of the fleet cannot hold here, before anybody takes it.
func (r *reloader) check(ctx context.Context, text string) error {
	r.places.changing.Lock()
	defer r.places.changing.Unlock()
	draft, err := r.fleet.draft(text)
	if err != nil {
		return fmt.Errorf("keep the policy of the fleet: %w", err)
	}
	_, err = r.read(ctx, draft)
	return errors.Join(err, os.Remove(draft))
}

// take has a policy of the fleet hold, if it is newer than the one that holds and can be used here.
func (r *reloader) take(ctx context.Context, h handed) error {
	r.places.changing.Lock()
	defer r.places.changing.Unlock()
	switch now := r.fleet.number.Load(); {
	case h.Number < now:
		return &fleet.Refusal{Why: fmt.Sprintf("it is policy %d of the fleet, and policy %d holds here, which is newer", h.Number, now)}
	case h.Number == now:
		if holds, err := r.fleet.current(); err != nil || holds.Text == h.Text {
			return err
		}
		return &fleet.Refusal{Why: fmt.Sprintf("another policy of the number %d holds here; put it again, so that it gets another number", now)}
	}
	if err := checkFleetPolicy(fmt.Sprintf("policy %d", h.Number), h.Text); err != nil {
		return r.refuse(fmt.Sprintf("policy %d of the fleet", h.Number), err)
	}
	draft, err := r.fleet.draft(h.Text)
	if err != nil {
		return fmt.Errorf("keep the policy of the fleet: %w", err)
	}
	if _, err := r.read(ctx, draft); err != nil {
		return errors.Join(r.refuse(fmt.Sprintf("policy %d of the fleet", h.Number), err), os.Remove(draft))
	}
	if err := r.fleet.keep(draft, h.Number); err != nil {
		return fmt.Errorf("keep the policy of the fleet: %w", err)
	}
	name := r.fleet.file(h.Number)
	c, err := r.read(ctx, name)
	if err != nil { // the policy was good a moment ago
		return errors.Join(r.refuse(name, err), os.Remove(name))
	}
	why := fmt.Sprintf("policy %d of the fleet", h.Number)
	if h.By != "" {
		why += ", put by " + policies.Clip(h.By, 128)
	}
	if c.same { // under another name
		p := r.gate.now.Load()
		r.file = name
		r.audit.policy("read", name, p, p, why)
		r.swap(ctx, c.layout)
		r.status.hold(name, c.policy())
	} else {
		r.use(ctx, c, why)
	}
	r.fleet.number.Store(h.Number) // last: a reader of the new number finds the new digest too
	r.watch.begin(r.files())
	r.fleet.clean()
	return nil
}

// refuse notes that a policy is refused, and returns that as the error.
func (r *reloader) refuse(name string, err error) error {
	holds := r.gate.now.Load()
	r.audit.policy("refused", name, holds, holds, config.FirstLine(err))
	return &fleet.Refusal{Why: err.Error()}
}

// checkFleetPolicy reads a policy of a fleet as every node of it does. Such a policy may name no file,
// since a node may not have it.
func checkFleetPolicy(name, text string) error {
	if len(text) > fleet.MaxPolicy {
		return fmt.Errorf("the policy has %d bytes, and the policy of a fleet has at most %d", len(text), fleet.MaxPolicy)
	}
	p, err := policies.Parse(name, []byte(text))
	if err != nil {
		return err
	}
	if _, err := fleetPlaces(p); err != nil {
		return err
	}
	if len(p.Projects()) > 0 {
		return errors.New("the policy has files of projects, which the machines of a fleet do not share; write their rules into the policy itself")
	}
	return nil
}
