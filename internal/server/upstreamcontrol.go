package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"belljar.dev/internal/control"
	"belljar.dev/internal/gateway"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// Bounds of the answers about upstreams. A client of the control socket reads at most one
// MiB.
const (
	maxUpstreams = 512 << 10 // most bytes of the upstreams and faults of all places
	maxReason    = 500       // most characters of a reason, a fault or the name of a file
	maxStderr    = 300       // most characters of a line of stderr
	maxLogLines  = 1000      // most lines of an instance that a command gets
	maxItems     = 100       // most definitions that a record of the audit log names
)

// upstreamHandlers answers the requests of `belljar upstream`.
type upstreamHandlers struct {
	places *places
	audit  *ledger
	log    *slog.Logger
}

func (h *upstreamHandlers) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /upstreams", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, h.list()) })
	mux.HandleFunc("POST /upstreams/restart", h.ending(h.restart))
	mux.HandleFunc("POST /upstreams/stop", h.ending(func(_ context.Context, name, by string) (int, error) {
		return h.end("stopped", name, by, func(g *gateway.Gateway) (int, error) { return g.Stop(name) })
	}))
	mux.HandleFunc("POST /upstreams/logs", func(w http.ResponseWriter, r *http.Request) {
		var want control.UpstreamLogs
		if asked(w, r, &want) {
			control.Respond(w, http.StatusOK, h.logs(want))
		}
	})
	mux.HandleFunc("POST /upstreams/changed", func(w http.ResponseWriter, r *http.Request) {
		var change control.UpstreamChange
		if !asked(w, r, &change) {
			return
		}
		if !slices.Contains([]string{control.PinsTrusted, control.PinsRefused, control.PinsImported, control.PinsForgotten}, change.What) {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("%q is not a change of pins", policies.Clip(change.What, 40)))
			return
		}
		h.changed(r.Context(), change, control.Caller(r))
		control.Respond(w, http.StatusOK, struct{}{})
	})
}

// asked reads a request into want. If the request cannot be read, asked responds with an
// error, and returns false.
func asked(w http.ResponseWriter, r *http.Request, want any) bool {
	err := json.NewDecoder(r.Body).Decode(want)
	if err != nil {
		control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
	}
	return err == nil
}

// gateways returns the places that have a gateway, in the order of their workspaces.
func (h *upstreamHandlers) gateways() (all []*place) {
	for _, p := range h.places.all() {
		if p.gateway != nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *place) int { return strings.Compare(a.Workspace, b.Workspace) })
	return all
}

// list returns the state of the upstreams of all places.
func (h *upstreamHandlers) list() []control.Upstreams {
	all := []control.Upstreams{}
	left := maxUpstreams
	fits := func(v any) bool {
		text, err := json.Marshal(v)
		left -= len(text)
		return err == nil && left >= 0
	}
	for _, p := range h.gateways() {
		at := control.Upstreams{Server: os.Getpid(), Place: p.Workspace, All: []control.Upstream{}, Faults: []string{}}
		for _, t := range p.mcp.Tools() {
			at.Own.Tools++
			at.Own.Bytes += len(t.Name) + len(t.Description) + len(t.InputSchema)
		}
		for _, s := range p.gateway.Status() {
			if one := upstreamOf(s); fits(one) {
				at.All = append(at.All, one)
			} else {
				at.More++
			}
		}
		for _, f := range p.gateway.Faults() {
			if f = policies.Clip(strings.ReplaceAll(f, "\n  = ", "; "), maxReason); fits(f) {
				at.Faults = append(at.Faults, f)
			} else {
				at.More++
			}
		}
		all = append(all, at)
	}
	return all
}

// upstreamOf returns a status in the form that commands get.
func upstreamOf(s gateway.Status) control.Upstream {
	one := control.Upstream{
		Name: s.Server, Tenant: s.Tenant, Principal: policies.Clip(s.Principal, maxReason), Session: control.ShortID(s.Session),
		State: string(s.State), Since: s.Since, Reason: policies.Clip(s.Reason, maxReason), Step: s.Step, Attempt: s.Attempt, Until: s.Until, NeedsLogin: s.NeedsLogin, Calls: s.Calls,
		File: policies.Clip(s.File, maxReason), Line: s.Line, Trusted: s.Trusted, Pin: s.Pin, Held: s.Held,
		Listing: control.Listing{Tools: s.Tools, Bytes: s.Bytes},
	}
	for _, line := range s.Stderr {
		one.Stderr = append(one.Stderr, policies.Clip(line, maxStderr))
	}
	for _, at := range s.Hides {
		one.Hides = append(one.Hides, policies.Clip(at, maxReason))
	}
	return one
}

// restart restarts a server in all places. It returns the number of instances that were
// ended.
func (h *upstreamHandlers) restart(ctx context.Context, name, by string) (int, error) {
	return h.end("restarted", name, by, func(g *gateway.Gateway) (int, error) { return g.Restart(ctx, name) })
}

// end ends the instances of a server in all places, and returns their number. what is the
// event for the audit log.
func (h *upstreamHandlers) end(what, name, by string, end func(*gateway.Gateway) (int, error)) (instances int, err error) {
	known := false
	for _, p := range h.gateways() {
		n, failed := end(p.gateway)
		if failed == nil {
			known = true
			instances += n
		} else {
			err = errors.Join(err, failed)
		}
	}
	if !known {
		return 0, cmp.Or(err, fmt.Errorf("the server %s: %w", upstream.Line(name), upstream.ErrUnknown))
	}
	h.log.Info("an operator ended the instances of an upstream", "what", what, "upstream", name, "instances", instances, "by", by)
	h.audit.append(audit.Upstream{Event: what, Upstream: name, By: by})
	return instances, nil
}

// ending returns the handler of a request to end the instances of a server.
func (h *upstreamHandlers) ending(does func(ctx context.Context, name, by string) (int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var want control.UpstreamName
		if !asked(w, r, &want) {
			return
		}
		n, err := does(r.Context(), want.Name, control.Caller(r))
		if err != nil {
			control.Respond(w, http.StatusNotFound, err.Error())
			return
		}
		control.Respond(w, http.StatusOK, control.Ended{Server: os.Getpid(), Instances: n})
	}
}

// logs returns the last lines that each instance of a server has written to stderr.
func (h *upstreamHandlers) logs(want control.UpstreamLogs) []control.UpstreamLog {
	all := []control.UpstreamLog{}
	left := maxUpstreams
	for _, p := range h.gateways() {
		for _, l := range p.gateway.Logs(want.Name, min(max(want.Lines, 0), maxLogLines)) {
			one := control.UpstreamLog{Tenant: l.Tenant, Principal: policies.Clip(l.Principal, maxReason), Session: control.ShortID(l.Session), State: string(l.State), Lines: []string{}}
			for _, line := range slices.Backward(l.Lines) { // if not all lines fit, the last ones are kept
				if left -= len(line) + 16; left < 0 {
					return all
				}
				one.Lines = append(one.Lines, line)
			}
			slices.Reverse(one.Lines)
			all = append(all, one)
		}
	}
	return all
}

// changed immediately applies a change of the pins by a person.
func (h *upstreamHandlers) changed(ctx context.Context, c control.UpstreamChange, by string) {
	c.Items = c.Items[:min(len(c.Items), maxItems)]
	h.log.Info("an operator changed the pins of an upstream", "upstream", c.Name, "tenant", c.Tenant, "what", c.What, "items", len(c.Items), "by", by)
	h.audit.append(audit.Upstream{Event: c.What, Upstream: c.Name, Tenant: c.Tenant, Workspace: c.Workspace, Items: c.Items, By: by})
	for _, p := range h.gateways() {
		names := []string{c.Name}
		if c.Name == "" {
			names = nil
			for _, s := range p.gateway.Status() {
				names = append(names, s.Server)
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			p.gateway.Decided(ctx, name)
		}
	}
}
