package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/names"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// offers contains what each tenant is offered of servers, and under which names. Its
// methods are safe for concurrent use.
type offers struct {
	*site
	// run makes a call of a tool that was offered with the definition offered.
	run func(ctx context.Context, call mcp.Call, tool names.Tool, offered pin.Digest, args json.RawMessage) (*mcp.Result, error)
	// keep keeps a call until its client brings the answer to a question.
	keep func(question string, one *kept) error

	tell    sync.Mutex          // held while what a tenant is offered changes
	tenants map[string]*offered // guarded by tell
}

// offered is what one tenant is offered.
type offered struct {
	faces  map[string]*face           // latest view of each server, by the server's name
	states map[string]upstream.Status // state of the instance that changed last, by the server's name
	former []names.Former             // names that clients know
	sent   map[string]string          // summary of what the list of tools contains of a server, by the server's name

	tools   *names.Table
	prompts *names.Table
	uses    *names.Table // names of the tools usePrompts and useResources of each server
}

// The tools that stand for uses of prompts and resources: the policy decides about such a use as
// about a call of one of them.
const (
	usePrompts   = "prompts"
	useResources = "resources"
)

// searchTool is the native name of the tool that finds the other tools of a server. No
// client sees this name.
const searchTool = "search\x00tools"

// of returns what a tenant is offered. The caller holds tell.
func (o *offers) of(tenant string) *offered {
	t := o.tenants[tenant]
	if t == nil {
		t = &offered{faces: make(map[string]*face), states: make(map[string]upstream.Status), sent: make(map[string]string)}
		o.tenants[tenant] = t
		o.name(t, o.setup())
	}
	return t
}

// begin publishes the faults of servers to a tenant that has not been seen before.
func (o *offers) begin(tenant string) {
	o.tell.Lock()
	defer o.tell.Unlock()
	if o.tenants[tenant] == nil {
		o.publish(tenant)
	}
}

// put offers a tenant what was seen of a server.
func (o *offers) put(tenant string, f *face) {
	o.tell.Lock()
	defer o.tell.Unlock()
	s := o.setup().servers[f.server.Name]
	if s == nil || s.ID != f.server.ID {
		return // the configuration has changed meanwhile
	}
	o.of(tenant).faces[f.server.Name] = f.of(s)
	o.publish(tenant)
}

// state records the state of an instance. The tools of a held instance are no longer
// offered.
func (o *offers) state(s upstream.Status) {
	o.tell.Lock()
	defer o.tell.Unlock()
	if o.setup().servers[s.Server] == nil {
		return
	}
	t := o.of(s.Tenant)
	was := t.states[s.Server]
	if s.Since.Before(was.Since) {
		return // the status is older than the recorded one
	}
	if failed := s.State == upstream.Waiting || s.State == upstream.Failed || s.State == upstream.Held; failed && !s.Since.Equal(was.Since) {
		o.cfg.Log.Warn("an upstream cannot be used", "upstream", s.Server, "tenant", s.Tenant, "state", s.State, "why", s.Reason, "stderr", s.Stderr)
	}
	t.states[s.Server] = s
	if s.State == upstream.Held {
		delete(t.faces, s.Server)
	}
	o.publish(s.Tenant)
}

// reset removes the offers of servers that are no longer in the configuration, or that have
// changed since the configuration before.
func (o *offers) reset(before map[string]*server) {
	o.tell.Lock()
	defer o.tell.Unlock()
	now := o.setup().servers
	for tenant, t := range o.tenants {
		for name, f := range t.faces {
			if s := now[name]; s == nil || s.ID != f.server.ID {
				delete(t.faces, name)
			} else {
				t.faces[name] = f.of(s) // f.of applies what the policy now says about calls of the server
			}
		}
		// Agents choose the names in their files, so states may also have names of servers
		// that were never seen.
		maps.DeleteFunc(t.states, func(name string, _ upstream.Status) bool {
			s, was := now[name], before[name]
			return s == nil || was == nil || s.ID != was.ID
		})
		o.publish(tenant)
	}
}

// missing returns the servers that a tenant has not seen yet.
func (o *offers) missing(tenant string) (all []string) {
	o.tell.Lock()
	defer o.tell.Unlock()
	t := o.tenants[tenant]
	for name := range o.setup().servers {
		if t == nil || t.faces[name] == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// others returns the names of all tools except those of one server, for the scan of this
// server's definitions.
func (o *offers) others(tenant, server string) (all []string) {
	all = o.own()
	o.tell.Lock()
	defer o.tell.Unlock()
	if t := o.tenants[tenant]; t != nil {
		for name, f := range t.faces {
			if name != server {
				all = slices.AppendSeq(all, maps.Keys(f.tools))
			}
		}
	}
	return all
}

// name computes the names of what a tenant is offered. The caller holds tell.
func (o *offers) name(t *offered, now *setup) {
	var tools, prompts, uses []names.Server
	for name, s := range now.servers { // includes unavailable servers: their names stay reserved
		of := names.Server{Name: name, Prefix: s.entry.Prefix, Filter: s.filter}
		ofTools, ofPrompts := of, of
		if f := t.faces[name]; f != nil && f.server == s {
			for native := range f.tools {
				if s.offers(native) && native != searchTool {
					ofTools.Tools = append(ofTools.Tools, native)
				}
			}
			if s.Settings.Search { // the filter of the policy does not apply to searchTool
				ofTools.Filter, ofTools.Tools = names.Filter{}, append(ofTools.Tools, searchTool)
			}
			for _, raw := range f.prompts {
				if native := wire.Text(wire.Member(raw, "name")); s.offers(native) {
					ofPrompts.Tools = append(ofPrompts.Tools, native)
				}
			}
		}
		tools, prompts = append(tools, ofTools), append(prompts, ofPrompts)
		of.Filter = names.Filter{}
		of.Tools = []string{usePrompts, useResources}
		uses = append(uses, of)
	}
	t.tools = table(names.Config{Own: o.own(), Servers: tools, Former: t.former})
	t.prompts, t.uses = table(names.Config{Servers: prompts}), table(names.Config{Servers: uses})
	t.former = t.tools.Former()
}

// table builds a table of names. It cannot fail, because the budget is the default one.
func table(cfg names.Config) *names.Table {
	t, err := names.Build(cfg)
	if err != nil {
		panic("gateway: " + err.Error())
	}
	return t
}

// publish passes to cfg.Server the part of a tenant's offers that has changed. The caller
// holds tell.
func (o *offers) publish(tenant string) {
	t, now := o.of(tenant), o.setup()
	o.name(t, now)
	remotes := make(map[string]*mcp.Remotes)
	sent := make(map[string]string)
	for name, s := range now.servers {
		r := &mcp.Remotes{Tenant: tenant, Note: t.note(name), Limit: s.Settings.Limit, Unguarded: s.Settings.Unguarded}
		switch f := t.faces[name]; {
		case f != nil:
			r.Fresh = f.ttl
		case t.states[name].State == upstream.Starting, t.states[name].State == upstream.Waiting:
			r.Fresh = -1 // its tools may be ready soon, and not each client gets the notification
		}
		remotes[name] = r
		sent[name] = fmt.Sprintf("%p %q %v %v %v", t.faces[name], r.Note, r.Fresh, r.Limit, r.Unguarded)
	}
	for name, why := range now.broken {
		remotes[name] = &mcp.Remotes{Tenant: tenant, Note: "its entry cannot be used: " + upstream.Line(why)}
		sent[name] = remotes[name].Note
	}
	for _, tool := range t.tools.List() {
		f := t.faces[tool.Server]
		d := f.tools[tool.Native]
		r := remotes[tool.Server]
		if tool.Native == searchTool {
			r.Search = tool.Primary
			sent[tool.Server] += " found by " + tool.Primary
			continue
		}
		r.Tools = append(r.Tools, mcp.Remote{
			Name: tool.Primary, Aliases: tool.Aliases, Names: tool.Shared, Definition: d.raw,
			Facts: func(args map[string]any) policies.Facts { return f.server.Settings.Facts(tool.Native, args) },
			Run: func(ctx context.Context, call mcp.Call, args json.RawMessage) (*mcp.Result, error) {
				return o.run(ctx, call, tool, d.sum, args)
			},
		})
		sent[tool.Server] += fmt.Sprintf(" %s=%q", tool.Primary, tool.Aliases)
	}
	for name := range t.sent {
		if remotes[name] == nil {
			o.cfg.Server.SetRemotes(name, mcp.Remotes{Tenant: tenant}) // the server is no longer offered
		}
	}
	// A name may move from one server to another, so publish retries the names that were
	// refused.
	var refused []error
	for range 2 {
		refused = nil
		for _, name := range slices.Sorted(maps.Keys(remotes)) {
			if t.sent[name] == sent[name] {
				continue
			}
			no := o.cfg.Server.SetRemotes(name, *remotes[name])
			if refused = append(refused, no...); len(no) == 0 {
				t.sent[name] = sent[name]
			}
		}
	}
	for _, err := range refused {
		o.cfg.Log.Warn("a tool of an upstream is not offered", "tenant", tenant, "err", err)
	}
	t.sent = sent
	if len(refused) == 0 {
		o.notice(t.tools.Notices())
	}
}

// note returns the text about a server that its clients get in addition to its tools.
func (t *offered) note(server string) string {
	f, s := t.faces[server], t.states[server]
	var all []string
	switch s.State {
	case upstream.Held:
		all = append(all, upstream.Line(s.Reason))
	case upstream.Failed, upstream.Waiting:
		why := "it cannot be used now: " + upstream.Line(s.Reason)
		switch { // the note goes to all clients of the tenant, but a line may be about one client's call
		case len(s.Stderr) == 0:
		case f == nil: // no tool was listed, so no tool was called
			why += "; it wrote: " + upstream.Line(strings.Join(s.Stderr, "; "))
		default:
			why += "; a person sees what it wrote with: belljar upstream logs " + printable.Operand(server)
		}
		all = append(all, why)
	case upstream.Starting:
		if f == nil {
			all = append(all, "it is starting; a notification is sent when its tools are available")
		}
	case upstream.Ready, upstream.Draining, upstream.Off, "":
	}
	if f != nil {
		if waits := f.waits(); waits != "" {
			all = append(all, waits)
		}
	}
	return strings.Join(all, "; ")
}

// count adds the numbers of a server's tools and of its held offers to s.
func (o *offers) count(s *Status) {
	o.tell.Lock()
	defer o.tell.Unlock()
	for tenant, t := range o.tenants {
		f := t.faces[s.Server]
		if f == nil || s.Tenant != "" && s.Tenant != tenant {
			continue
		}
		for _, tool := range t.tools.List() {
			if tool.Server == s.Server && (tool.Native == searchTool) == f.server.Settings.Search {
				s.Tools++
				s.Bytes += len(f.tools[tool.Native].raw)
			}
		}
		for _, item := range f.verdict.Items {
			if item.Why != "" {
				s.Held++
			}
		}
	}
}
