package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/policies"
)

// reloader reads the policy file again while a server runs. It is used by one
// goroutine.
type reloader struct {
	gate    *gate
	file    string        // the policy's file; empty for the built-in policy
	places  *places       // which hold the layout that the policy gives
	state   string        // the state directory, which no policy may show to a box; empty without one
	changed func(*layout) // called with each new policy; the next signal waits until it returns
	asked   chan struct{} // holds one while the policy is to be read again
	front   *front.Config // nil over stdio, where no tokens come
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
		asked: make(chan struct{}, 1), status: &policyStatus{}, audit: l, log: at.Log,
	}
	r.status.hold(at.PolicyName, at.Policy)
	if r.file == config.BuiltinPolicy {
		r.file = ""
	}
	return r
}

// ask has the policy read again, and does not wait for that.
func (r *reloader) ask() {
	select {
	case r.asked <- struct{}{}:
	default: // one that waits stands for all that came
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
	l, err := r.places.layout.Load().read(r.file)
	var name string
	var p *policies.Policy
	if err == nil {
		name, p = l.set.Name, l.policy()
		err = r.audit.bears(p, l.all)
	}
	if err == nil && r.state != "" && !l.routes {
		err = config.Unseen(r.state, l.all, p)
	}
	if err == nil && !l.routes {
		err = errors.Join(frontFiles(r.front, l.all, p), frontFiles(r.console, l.all, p))
	}
	same := err == nil && l.same(r.places.layout.Load())
	var tokens []auth.Digest
	if err == nil && r.front != nil && !same {
		tokens, err = tokensFor(ctx, p, r.gate.now.Load(), config.Boxes(p, l.all, r.state), r.state == "")
	}
	if err != nil {
		r.status.refuse(config.FirstLine(err))
		r.tried = nil
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
	r.tried = nil
	if same {
		r.status.hold(name, p)
		r.log.Info("the policy was read again and is as it was", "policy", name)
		r.reloadUpstreams() // whose files may be others
		r.rotate(ctx)
		return
	}
	if name != config.BuiltinPolicy {
		r.file = name
	}
	before := r.gate.now.Load()
	r.audit.policy("read", name, before, p, "")
	r.hold(tokens) // before the policy: no client comes as a tenant that has gone
	if r.front != nil {
		r.gate.login.Trust(p)
	}
	r.places.hold(ctx, l)
	r.status.hold(name, p) // now it does
	r.changed(l)
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
