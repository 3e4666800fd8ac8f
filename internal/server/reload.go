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

// reloader reads the policy file again while a server runs. Only one goroutine uses it.
type reloader struct {
	gate    *gate
	file    string         // file of the policy; empty for the built-in policy
	places  *places        // places that get the layout of the policy
	state   string         // state directory, which no policy may show to a box; empty without a state directory
	changed func(*layout)  // called with each new policy; the next signal waits until it returns
	asked   chan struct{}  // contains a value while the policy is to be read again
	hands   chan handed    // policies of the fleet
	fleet   *fleetPolicies // nil for a server without a policy of the fleet
	front   *front.Config  // nil over stdio, where clients send no tokens
	watch   watcher
	others  watchers      // watchers of the files of upstreams
	tried   []string      // files that a faulty policy names
	status  *policyStatus // status of the policy, for commands
	console *front.Config // files of the console; nil without a console
	audit   *ledger
	log     *slog.Logger
}

// newReloader returns a reloader for the policy of a gate and a place. The caller sets
// changed.
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

// ask requests that the policy is read again. It does not wait for this.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // a request that already waits also serves for this one
	}
}

// run reads the policy again when this is requested and, if watch is set, when its files
// have changed. It runs until ctx ends.
func (r *reloader) run(ctx context.Context, watch bool) {
	var looks <-chan time.Time // nil, which never receives
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

// look reads files that have changed and that nobody has written since. Agents can write
// some files of upstreams without a pause, so each of these files has its own watcher.
func (r *reloader) look(ctx context.Context) {
	if r.watch.look(r.files()) {
		r.reload(ctx)
	}
	if files := r.places.upstreamFiles(); r.others.look(files) {
		r.others.begin(files)
		r.reloadUpstreams()
	}
}

// reloadUpstreams reads the files of upstreams again, under the policy in force.
func (r *reloader) reloadUpstreams() {
	for _, p := range r.places.all() {
		p.reloadUpstreams()
	}
}

// files returns the files of the policy in force and of a faulty policy that was tried, and
// the files of its tenants' tokens. For the built-in policy, it returns the file that would
// replace it.
func (r *reloader) files() []string {
	switch {
	case r.file == "":
		return []string{config.UserPolicy()}
	case config.IsBundled(r.file):
		return nil
	}
	names := []string{r.file}
	holds, l := r.gate.now.Load(), r.places.layout.Load()
	for _, workspace := range l.all { // each workspace may have rules of a project
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

// reload puts the policy of the present file into force, or reports the reason why it
// cannot. If the file is gone, its last policy stays in force: the built-in policy may
// allow what the file denied.
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
		r.log.Error("the policy cannot be read again; the previous policy stays in force", "err", config.FirstLine(err))
		if parse, ok := errors.AsType[*policies.ParseError](err); ok {
			r.tried = parse.Files
			// Only without the source lines, which may contain secrets.
			for _, f := range parse.Faults {
				r.log.Error("fault of the policy", "file", f.File, "line", f.Line, "col", f.Col, "fault", f.Message, "hint", f.Hint)
			}
		}
		r.rotate(ctx) // tokens that were removed do not wait for a policy without faults
		return
	}
	if c.same {
		r.status.hold(c.set.Name, c.policy())
		r.log.Info("the policy was read again and has not changed", "policy", c.set.Name)
		r.reloadUpstreams() // the files of servers may have changed
		r.rotate(ctx)
		return
	}
	r.use(ctx, c, "")
}

// candidate is a policy that was read and checked, and that may be put into force.
type candidate struct {
	*layout

	same   bool // whether it is the policy in force
	tokens []auth.Digest
}

// read reads a policy file, and checks whether its policy can be put into force here. The
// caller holds changing.
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

// use puts a policy into force. why is the reason for the audit log; it is empty for a file
// that has changed. The caller holds changing.
func (r *reloader) use(ctx context.Context, c candidate, why string) {
	name, p := c.set.Name, c.policy()
	if name != config.BuiltinPolicy {
		r.file = name
	}
	before := r.gate.now.Load()
	r.audit.policy("read", name, before, p, why)
	r.hold(c.tokens) // before the policy is replaced, so that no client connects as a removed tenant
	if r.front != nil {
		r.gate.login.Trust(p)
	}
	r.swap(ctx, c.layout)
	r.status.hold(name, p) // after the policy was replaced
	r.changed(c.layout)
	if r.front != nil {
		if err := r.gate.login.Prepare(ctx); err != nil {
			r.log.Error("the tokens of an issuer are not accepted", "err", err)
		}
	}
	now, _ := p.Audit()
	if old, _ := before.Audit(); now != old {
		r.log.Warn("the policy has new settings of the audit log, which are used from the next start on")
	}
	r.log.Info("the policy was read again and is in force from now on", "policy", name, "hash", p.Hash())
}

// swap puts another layout and its policy into force. A front has no place whose gate gets
// the policy, so swap sets its gate.
func (r *reloader) swap(ctx context.Context, l *layout) {
	r.places.hold(ctx, l)
	if l.routes {
		r.gate.now.Store(l.policy())
	}
}

// handed is a policy of the fleet that is sent to the goroutine of a reloader.
type handed struct {
	fleet.Policy

	answer chan error
}

// hand makes the reloader take a policy of the fleet, and waits for its answer. If the
// error is a *fleet.Refusal, the policy before stays in force.
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

// check returns the reason why a policy of the fleet cannot be put into force here, before
// any node takes it.
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

// take puts a policy of the fleet into force if it is newer than the one in force and can
// be used here.
func (r *reloader) take(ctx context.Context, h handed) error {
	r.places.changing.Lock()
	defer r.places.changing.Unlock()
	switch now := r.fleet.number.Load(); {
	case h.Number < now:
		return &fleet.Refusal{Why: fmt.Sprintf("it is policy %d of the fleet, and policy %d, which is newer, is in force here", h.Number, now)}
	case h.Number == now:
		if holds, err := r.fleet.current(); err != nil || holds.Text == h.Text {
			return err
		}
		return &fleet.Refusal{Why: fmt.Sprintf("another policy with the number %d is in force here; put this policy again, so that it gets another number", now)}
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
	if err != nil { // it could be read before keep
		return errors.Join(r.refuse(name, err), os.Remove(name))
	}
	why := fmt.Sprintf("policy %d of the fleet", h.Number)
	if h.By != "" {
		why += ", put by " + policies.Clip(h.By, 128)
	}
	if c.same { // the policy is the same, in another file
		p := r.gate.now.Load()
		r.file = name
		r.audit.policy("read", name, p, p, why)
		r.swap(ctx, c.layout)
		r.status.hold(name, c.policy())
	} else {
		r.use(ctx, c, why)
	}
	r.fleet.number.Store(h.Number) // last, so that a reader of the new number also finds the new digest
	r.watch.begin(r.files())
	r.fleet.clean()
	return nil
}

// refuse records that a policy is refused, and returns the refusal.
func (r *reloader) refuse(name string, err error) error {
	holds := r.gate.now.Load()
	r.audit.policy("refused", name, holds, holds, config.FirstLine(err))
	return &fleet.Refusal{Why: err.Error()}
}

// checkFleetPolicy checks a policy of a fleet, as every node does. Such a policy may name
// no file, since a node may not have the file.
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
