package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"belljar.dev/internal/callback"
	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/internal/store"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
)

// mostWork is the most todos that a page gets, and also the most plans and the most
// callbacks.
const mostWork = 500

// consoleTools answers the console's requests about search engines, browsers, and what
// agents keep.
type consoleTools struct{ server *Server }

// Engines returns the state of the search engines.
func (v *consoleTools) Engines() []console.EngineHealth {
	all := []console.EngineHealth{}
	for _, h := range v.server.search.Health() {
		one := console.EngineHealth{
			Engine: h.Engine, State: fmt.Sprint(h.State), Outcome: fmt.Sprint(h.Last), Since: h.Since, Retry: h.Retry.Milliseconds(), Slow: h.Slow.Milliseconds(), Took: []int64{},
		}
		for _, took := range h.Took {
			one.Took = append(one.Took, took.Milliseconds())
		}
		all = append(all, one)
	}
	return all
}

// TestEngine sends a harmless query to one engine, and returns the result.
func (v *consoleTools) TestEngine(ctx context.Context, name string) (t console.EngineTest, err error) {
	began := time.Now()
	x, known, err := v.server.search.Examine(ctx, name)
	switch {
	case err != nil:
		return t, err
	case !known:
		return t, &console.Error{Status: http.StatusNotFound, Err: fmt.Errorf("no engine %q", policies.Clip(name, maxReason))}
	}
	title, _ := x.First()
	return console.EngineTest{
		Engine: x.Engine, Outcome: x.Parsed.Outcome.String(), Results: x.Count(), First: policies.Clip(title, maxReason),
		Detail: policies.Clip(x.Parsed.Detail, maxReason), Wrong: policies.Clip(x.Wrong, maxReason), MS: time.Since(began).Milliseconds(),
	}, nil
}

// Pools returns the state of the browser pool.
func (v *consoleTools) Pools() []console.BrowserPool {
	return []console.BrowserPool{console.BrowserPool(v.server.reading.chrome.Stats())}
}

// Seats returns the browsers that agents use.
func (v *consoleTools) Seats() []console.BrowserSeat {
	all := []console.BrowserSeat{}
	for _, s := range v.server.reading.seats.List() {
		if s.ID == "" {
			continue // the seat has had no Chrome yet
		}
		all = append(all, console.BrowserSeat{ID: s.ID, Tenant: s.Tenant, Profile: s.Profile, State: s.State, Tabs: s.Tabs, Memory: s.Memory, HeldBy: s.HeldBy})
	}
	return all
}

// Shot returns a picture of what a browser shows now.
func (v *consoleTools) Shot(ctx context.Context, id string) ([]byte, error) {
	shown, err := v.server.reading.seats.Show(ctx, id)
	if err != nil {
		return nil, seatError(err)
	}
	return shown.Picture, nil
}

// seatError returns an error about an agent's browser with its HTTP status.
func seatError(err error) error {
	switch {
	case err == nil:
		return nil
	case unknownBrowser(err):
		return &console.Error{Status: http.StatusNotFound, Err: err}
	}
	return &console.Error{Status: http.StatusServiceUnavailable, Err: err}
}

// HoldSeat stops the acts of a browser's agent.
func (v *consoleTools) HoldSeat(ctx context.Context, id, by string) error {
	_, err := v.browsers().hold(ctx, id, by)
	return seatError(err)
}

// ReleaseSeat lets the acts of a browser's agent continue.
func (v *consoleTools) ReleaseSeat(id, by string) error {
	_, err := v.browsers().release(id, by)
	return seatError(err)
}

func (v *consoleTools) browsers() *agentBrowsers {
	return &agentBrowsers{v.server.reading.seats, v.server.audit, v.server.Log}
}

// Work returns the todos, plans and callbacks in all open places, of the tenants that a
// scope sees.
func (v *consoleTools) Work(ctx context.Context, s console.Scope) (console.Work, error) {
	w := console.Work{Todos: []console.Todo{}, Plans: []console.SavedPlan{}, Callbacks: []console.ArmedCallback{}}
	if !v.server.kept.Made() {
		return w, nil // nothing was stored yet
	}
	for _, p := range v.server.places.all() {
		for _, tenant := range append([]string{policies.LocalTenant}, p.gate.now.Load().Tenants()...) {
			if !s.Sees(tenant) {
				continue
			}
			if err := v.add(ctx, &w, p, tenant); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// add adds the todos, plans and callbacks of a tenant in a place.
func (v *consoleTools) add(ctx context.Context, w *console.Work, p *place, tenant string) error {
	todos, err := p.books.todos.List(ctx, store.Owner{Tenant: tenant})
	if err != nil {
		return err
	}
	for _, t := range todos {
		one := console.Todo{ID: t.ID, Tenant: tenant, Place: p.Workspace, Title: t.Name, State: string(t.Status), Steps: []console.TodoStep{}}
		for _, s := range t.Steps {
			one.Steps = append(one.Steps, console.TodoStep{Text: s.Text, Done: !s.Status.Open()})
		}
		if len(w.Todos) < mostWork {
			w.Todos = append(w.Todos, one)
		} else {
			w.More++
		}
	}
	plans, err := p.books.plans.List(ctx, tenant)
	if err != nil {
		return err
	}
	for _, one := range plans {
		if len(w.Plans) < mostWork {
			w.Plans = append(w.Plans, console.SavedPlan{Tenant: tenant, Place: p.Workspace, ID: one.File, Title: one.Goal, Saved: one.Saved})
		} else {
			w.More++
		}
	}
	if p.flow.callbacks == nil {
		return nil
	}
	callbacks, err := p.flow.callbacks.List(ctx, tenant)
	if err != nil {
		return err
	}
	for _, c := range callbacks {
		one := console.ArmedCallback{ID: c.ID, Tenant: tenant, Place: p.Workspace, Message: c.Message, Next: c.Due}
		if c.Left != callback.Forever {
			one.Left = c.Left
		}
		if len(w.Callbacks) < mostWork {
			w.Callbacks = append(w.Callbacks, one)
		} else {
			w.More++
		}
	}
	return nil
}

// consoleUpstreams answers the console's requests about other people's servers.
type consoleUpstreams struct {
	handlers *upstreamHandlers
	kept     *store.Store
}

// All returns the servers in all places.
func (v *consoleUpstreams) All() []control.Upstreams { return v.handlers.list() }

// Restart restarts a server.
func (v *consoleUpstreams) Restart(ctx context.Context, name, by string) (int, error) {
	return v.handlers.restart(ctx, name, by)
}

// mostPins is the most definitions of one tenant that are read, so that a tenant with more
// hides none of another tenant.
const mostPins = 1000

// waiting is a definition that waits for a decision, with the server that it belongs to.
type waiting struct {
	of pin.Server
	q  pin.Question
}

// version returns the text to which a decision about a definition is bound. It changes with
// the trusted definition and with the present one.
func (w waiting) version() string {
	text, err := json.Marshal([]string{w.of.Tenant, w.of.Place, w.of.Name, w.q.Ref.String(), w.q.Ref.Digest.String(), w.q.Was.String(), string(w.q.State)})
	if err != nil {
		return "" // does not happen: texts can always be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16]
}

// waiting returns the definitions that wait for a person, without those that a person has
// refused.
func (v *consoleUpstreams) waiting(ctx context.Context) (all []waiting, _ error) {
	if !v.kept.Made() {
		return nil, nil // no server was seen yet
	}
	book := pin.NewBook(store.Config{Store: v.kept})
	servers, err := book.All(ctx)
	if err != nil {
		return nil, err
	}
	of := make(map[string]int) // number of definitions by tenant
	for _, s := range servers {
		if of[s.Tenant] >= mostPins {
			continue
		}
		questions, err := book.Waiting(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, q := range questions {
			if q.State != pin.Held && of[s.Tenant] < mostPins {
				of[s.Tenant]++
				q.Cut = q.Cut || strings.Count(q.Diff, "\n") > console.MaxPinLines
				all = append(all, waiting{s, q})
			}
		}
	}
	return all, nil
}

// Pins returns the definitions that wait for a person.
func (v *consoleUpstreams) Pins(ctx context.Context) (pins []console.Pin, _ error) {
	all, err := v.waiting(ctx)
	for _, w := range all {
		p := console.Pin{
			Upstream: w.of.Name, Tenant: w.of.Tenant, Place: w.of.Place, Name: w.q.Ref.String(), What: string(w.q.State), Since: w.q.Since,
			Diff: w.q.Diff, Cut: w.q.Cut, Version: w.version(),
		}
		for _, f := range w.q.Findings {
			p.Findings = append(p.Findings, policies.Clip(f.String(), maxReason))
		}
		pins = append(pins, p)
	}
	return pins, err
}

// Decide decides about a definition.
func (v *consoleUpstreams) Decide(ctx context.Context, upstream, version string, approve bool, by string) error {
	all, err := v.waiting(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.of.Name != upstream || w.version() != version {
			continue
		}
		if approve && w.q.Cut {
			return &console.Error{Status: http.StatusConflict, Err: fmt.Errorf("%s cannot be shown whole; `belljar upstream approve` with its name trusts it all the same", policies.Clip(w.q.Ref.String(), maxReason))}
		}
		said := pin.Decision{By: pin.Person{Name: by, Via: pin.ViaConsole}, Trust: approve, Items: []pin.Ref{w.q.Ref}}
		err := pin.NewBook(store.Config{Store: v.kept}).Decide(ctx, w.of, said)
		if errors.Is(err, pin.ErrStale) {
			return &console.Error{Status: http.StatusConflict, Err: err}
		}
		if err != nil {
			return err
		}
		change := control.UpstreamChange{What: control.PinsRefused, Name: w.of.Name, Tenant: w.of.Tenant, Workspace: w.of.Place}
		if approve {
			change.What = control.PinsTrusted
		}
		change.Items = []string{policies.Clip(w.q.Ref.String(), 200) + " " + w.q.Ref.Digest.String()}
		v.handlers.changed(ctx, change, by)
		return nil
	}
	return &console.Error{Status: http.StatusConflict, Err: errors.New("this definition does not wait for a decision any more, or has changed; read it again")}
}
