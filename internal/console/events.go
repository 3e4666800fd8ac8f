package console

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"belljar.dev/internal/control"
)

const (
	pingEvery = 15 * time.Second
	lookEvery = time.Second // how often the state of the server is compared with the state before
)

// streamEvents sends events as lines of JSON, until the client disconnects, its token ends
// or the server ends.
func streamEvents(r *request) (any, error) {
	c := r.console
	after := c.ring.last()
	if text := r.in.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fault(http.StatusBadRequest, "after=%q: want the number of an event", text)
		}
	}
	leave, ok := c.ring.enter(r.who.sum)
	if !ok {
		return nil, fault(http.StatusTooManyRequests, "this token has %d streams of events open, and more are not allowed; close one", maxStreams)
	}
	defer leave()
	c.look()
	select { // every change after the first line becomes an event
	case <-c.known:
	case <-r.context().Done():
		return nil, errAnswered
	}
	h := r.w.Header()
	h.Set("Content-Type", "application/x-ndjson; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // without this header, a proxy would buffer lines
	out := http.NewResponseController(r.w)
	lines := json.NewEncoder(r.w)
	if err := lines.Encode(event{Seq: after, Kind: "ping", At: time.Now().UTC()}); err != nil || out.Flush() != nil {
		return nil, errAnswered
	}
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for {
		some, gap, now, news, ended := c.ring.after(after)
		if gap {
			after = now
			some = []event{{Seq: now, Kind: "reset", At: time.Now().UTC()}}
		}
		who, holds := c.access.holderOf(r.who.sum)
		if holds {
			who, holds = who.holds(r.context(), &c.views)
		}
		if !holds {
			return nil, errAnswered
		}
		for _, e := range some {
			if (e.Kind == "reset" || who.Scope.Sees(e.tenant)) && lines.Encode(e) != nil {
				return nil, errAnswered
			}
			after = e.Seq
		}
		if len(some) > 0 {
			if out.Flush() != nil {
				return nil, errAnswered
			}
			continue
		}
		if ended {
			return nil, errAnswered
		}
		select {
		case <-news:
		case <-r.context().Done():
			return nil, errAnswered
		case <-pings.C:
			if lines.Encode(event{Seq: after, Kind: "ping", At: time.Now().UTC()}) != nil || out.Flush() != nil {
				return nil, errAnswered
			}
		}
	}
}

// follow makes events of changes until ctx ends. It compares every lookEvery while a stream
// is open, and whenever look is called. The first comparison only notes the state at a
// login, which no page has seen before.
func (c *Console) follow(ctx context.Context) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	var before map[thing]sha256sum
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if c.ring.streams() == 0 {
				continue
			}
		case <-c.looks:
		}
		now := c.things(ctx)
		for t, is := range now {
			if was, known := before[t]; (!known || was != is) && before != nil {
				c.ring.add(t)
			}
		}
		for t := range before {
			if _, still := now[t]; !still {
				c.ring.add(t)
			}
		}
		if before == nil {
			close(c.known)
		}
		before = now
	}
}

// thing identifies the subject of an event. The tenant is empty for things of the server.
type thing struct{ kind, id, tenant string }

// things returns digests of everything that can change.
func (c *Console) things(ctx context.Context) map[thing]sha256sum {
	all := make(map[thing]sha256sum)
	note := func(t thing, what any) {
		if text, err := json.Marshal(what); err == nil {
			all[t] = sha256.Sum256(text)
		}
	}
	if c.views.Fleet != nil {
		fleetThings(ctx, &c.views, note)
	}
	if people := c.views.People; people != nil {
		approvals, _ := people.Approvals(ctx, false) // the error is returned when a page requests the list
		for _, a := range approvals {
			note(thing{"approval", a.ID, a.Tenant}, []any{a.State, a.Uses})
		}
		questions, _ := people.Questions(ctx, false, nil)
		for _, q := range questions {
			note(thing{"question", q.ID, q.Tenant}, q.State)
		}
	}
	if runs := c.views.Runs; runs != nil {
		for _, b := range runs.Boxes() {
			b.Memory, b.CPU, b.Processes, b.Network, b.Disk = 0, 0, 0, 0, 0 // these values change all the time
			note(thing{"box", b.ID, b.Tenant}, b)
		}
		for _, s := range runs.Sessions() {
			note(thing{"session", s.ID, s.Tenant}, []any{s.Calls, s.Jobs})
		}
		for _, j := range runs.Jobs() {
			note(thing{"job", j.Session + "/" + strconv.FormatInt(j.ID, 10), j.Tenant}, j)
		}
	}
	if upstreams := c.views.Upstreams; upstreams != nil {
		every := make(map[string][]control.Upstream)
		places := slices.Clone(upstreams.All())
		for i, at := range places {
			for _, u := range at.All {
				every[u.Tenant] = append(every[u.Tenant], u)
			}
			places[i].All = nil
		}
		note(thing{kind: "upstream"}, []any{places, every[""]})
		for tenant, some := range every {
			if tenant != "" {
				note(thing{"upstream", "", tenant}, some)
			}
		}
	}
	if policy := c.views.Policy; policy != nil {
		note(thing{kind: "policy"}, policy.Status())
	}
	if dir := c.views.AuditDir; dir != "" {
		for tenant, seq := range c.tail.newest(ctx, dir) {
			note(thing{"audit", "", tenant}, seq)
		}
	}
	return all
}
