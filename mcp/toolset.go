package mcp

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// toolset contains the tools of a server, and which of them are hidden from each tenant.
type toolset struct {
	gate    Gate
	tenants func() []string // returns the tenants with sessions; may be called with mu held
	offer   func(Tool)      // adds a tool to the go-sdk, which notifies clients
	news    *announcer      // announces changes of the tools of upstreams
	changes *listChanges    // clients that must get the next announcement

	mu     sync.Mutex
	byName map[string]*tool        // guarded by mu: the server's own tools
	remote map[string]*remoteTable // guarded by mu: the tools of upstreams, by tenant
	hidden map[string]string       // guarded by mu: hidden tools of each tenant at the clients' last notification
}

func newToolset(gate Gate, tenants func() []string) *toolset {
	return &toolset{
		gate: gate, tenants: tenants, changes: newListChanges(), byName: make(map[string]*tool), remote: make(map[string]*remoteTable), hidden: make(map[string]string),
	}
}

// all returns the server's own tools, sorted by name.
func (ts *toolset) all() []ToolInfo {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := make([]ToolInfo, 0, len(ts.byName))
	for _, name := range sortedKeys(ts.byName) {
		t := ts.byName[name]
		of := t.schemas()
		all = append(all, ToolInfo{t.info, of.input, of.output, of.result})
	}
	return all
}

// add registers a tool. It panics if another tool has the name.
func (ts *toolset) add(t *tool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byName[t.info.Name] != nil {
		panic("mcp: add tool " + t.info.Name + ": another tool has this name")
	}
	ts.byName[t.info.Name] = t
	ts.changes.all()
	ts.offer(t.info)
}

// setRemotes implements Server.SetRemotes for an upstream that has been checked.
func (ts *toolset) setRemotes(tenant string, u *upstream) (refused []error) {
	ts.mu.Lock()
	before := ts.remote[tenant]
	after, refused := before.with(u, func(name string) bool { return ts.byName[name] != nil })
	if ts.remote[tenant] = after; after == nil {
		delete(ts.remote, tenant)
	}
	if _, open := ts.hidden[tenant]; open {
		ts.hidden[tenant] = ts.hiddenFrom(tenant)
	}
	ts.mu.Unlock()
	if !before.sameList(after) {
		ts.changes.one(tenant)
		ts.news.changed()
	}
	return refused
}

// find returns the tool that a tenant calls by a name. The server's own tools take
// precedence over the tools of upstreams.
func (ts *toolset) find(tenant, name string) (*tool, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t, ok := ts.byName[name]; ok {
		return t, true
	}
	return ts.remote[tenant].find(name)
}

// method returns the tool of this server whose name is also a method of the protocol.
func (ts *toolset) method(name string) (*tool, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byName[name]
	return t, t != nil && t.info.Method
}

// calledBy returns the name by which a message calls a tool; empty for any other message.
func (ts *toolset) calledBy(method string, params []byte) string {
	if method == "tools/call" {
		return wire.Text(wire.Member(params, "name"))
	}
	if _, ok := ts.method(method); ok {
		return method
	}
	return ""
}

// knownMost is how many names the error about an unknown tool lists.
const knownMost = 64

// unknown returns the error for a name by which a tenant can call no tool. The error does
// not mention hidden tools.
func (ts *toolset) unknown(tenant, name string, hides func(t *tool) bool) *wire.Error {
	ts.mu.Lock()
	tools, table := ts.tools(tenant), ts.remote[tenant]
	ts.mu.Unlock()
	if several := namesOf(slices.DeleteFunc(table.candidates(name), hides)); len(several) > 0 {
		return wire.Errorf(wire.InvalidParams, "unknown tool %.80q: several tools have this short name; call one of them by its own name: %s", name, strings.Join(several, ", "))
	}
	known := namesOf(slices.DeleteFunc(tools, hides))
	hint := "known tools: " + strings.Join(known[:min(len(known), knownMost)], ", ")
	if more := len(known) - knownMost; more > 0 {
		hint += fmt.Sprintf(", and %d more; tools/list lists all", more)
	}
	if near := nearest(name, known[:min(len(known), nearMost)]); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	if notes := table.notes(); len(notes) > 0 {
		var all []string
		for _, upstream := range sortedKeys(notes)[:min(len(notes), awayMost)] {
			all = append(all, fmt.Sprintf("%.80s: %.300s", upstream, notes[upstream]))
		}
		hint += "\nupstreams whose tools may be missing: " + strings.Join(all, "; ")
	}
	return wire.Errorf(wire.InvalidParams, "unknown tool %.80q; %s", name, hint)
}

// awayMost is how many notes of upstreams the error about an unknown tool contains.
const awayMost = 3

// nearMost is how many known names are compared with an unknown name. Each comparison takes
// some microseconds, and clients can send any number of unknown names.
const nearMost = 512

// tools returns all tools that a tenant has, by name, the server's own first; the caller
// holds mu.
func (ts *toolset) tools(tenant string) []*tool {
	all := make([]*tool, 0, len(ts.byName))
	for _, name := range sortedKeys(ts.byName) {
		all = append(all, ts.byName[name])
	}
	if table := ts.remote[tenant]; table != nil {
		all = append(all, table.sorted...)
	}
	return all
}

// namesOf returns the names of tools.
func namesOf(tools []*tool) []string {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.info.Name)
	}
	return names
}

// describe changes the description of a tool and offers the tool again.
func (ts *toolset) describe(name, description string) (changed bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byName[name]
	if t == nil || t.info.Description == description {
		return false
	}
	other := *t // a copy, since running calls still use the old one
	other.info.Description = description
	other.listed = ownListing(other.info, other.schemas)
	ts.byName[name] = &other
	ts.changes.all()
	ts.offer(other.info)
	return true
}

// hides reports whether a tool is hidden from a session.
func (ts *toolset) hides(session *Session, t *tool) bool {
	if l := session.layer.Load(); l != nil {
		var f policies.Facts
		if t.show(&f); l.Hidden(f) {
			return true
		}
	}
	return ts.hidesFrom(session.tenant, t)
}

// hidesFrom reports whether a tool is hidden from a tenant.
func (ts *toolset) hidesFrom(tenant string, t *tool) bool {
	h, ok := ts.gate.(Hider)
	if !ok {
		return false
	}
	f := policies.Facts{Tenant: tenant}
	t.show(&f)
	return h.Hidden(f)
}

// relist notifies clients to list the tools again, if the set of hidden tools has
// changed since its last call.
func (ts *toolset) relist() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now, changed := make(map[string]string), false
	for _, tenant := range ts.tenants() {
		now[tenant] = ts.hiddenFrom(tenant)
		if now[tenant] != ts.hidden[tenant] {
			ts.changes.one(tenant)
			changed = true
		}
	}
	ts.hidden = now
	if changed {
		ts.announce()
	}
}

// hiddenFrom returns the names of the tools that are hidden from a tenant; the caller holds
// mu.
func (ts *toolset) hiddenFrom(tenant string) string {
	hidden := slices.DeleteFunc(ts.tools(tenant), func(t *tool) bool { return !ts.hidesFrom(tenant, t) })
	return strings.Join(namesOf(hidden), " ")
}

// announce makes the sdk send notifications/tools/list_changed to each client that wants it
// and whose list has changed (listChanges). The sdk sends the notification when a tool is
// added; adding a tool that the sdk already has changes nothing else. The caller holds mu.
func (ts *toolset) announce() { ts.offer(Tool{Name: stubTool}) }

// announceChange calls announce for the announcer, which does not hold mu.
func (ts *toolset) announceChange() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.announce()
}

// announceIf calls announce if changed is true for any tool of a tenant.
func (ts *toolset) announceIf(tenant string, changed func(t *tool) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if slices.ContainsFunc(ts.tools(tenant), changed) {
		ts.changes.one(tenant)
		ts.announce()
	}
}

// opened notes which tools are hidden from a tenant, when the tenant opens its first
// session.
func (ts *toolset) opened(tenant string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, known := ts.hidden[tenant]; !known {
		ts.hidden[tenant] = ts.hiddenFrom(tenant)
	}
}
