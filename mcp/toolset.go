package mcp

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
)

// toolset is the tools of a server, and which of them each tenant does not see.
type toolset struct {
	gate    Gate
	tenants func() []string // those that have sessions; it may be called with mu held
	offer   func(Tool)      // makes the go-sdk list a tool, and notify clients

	mu     sync.Mutex
	byName map[string]*tool  // guarded by mu
	hidden map[string]string // guarded by mu: what was hidden from each tenant when clients were last notified
}

func newToolset(gate Gate, tenants func() []string) *toolset {
	return &toolset{gate: gate, tenants: tenants, byName: make(map[string]*tool), hidden: make(map[string]string)}
}

// all returns the tools, sorted by name.
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
		panic("mcp: add tool " + t.info.Name + ": there is one of this name already")
	}
	ts.byName[t.info.Name] = t
	ts.offer(t.info)
}

// find returns the tool of a name.
func (ts *toolset) find(name string) (*tool, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.byName[name]
	return t, ok
}

// unknown is the error for a name that no tool has. It does not mention hidden tools.
func (ts *toolset) unknown(name string, hides func(tool string) bool) *wire.Error {
	ts.mu.Lock()
	known := slices.DeleteFunc(sortedKeys(ts.byName), hides)
	ts.mu.Unlock()
	hint := "known tools: " + strings.Join(known, ", ")
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return wire.Errorf(wire.InvalidParams, "unknown tool %.80q; %s", name, hint)
}

// describe changes the description of a tool and offers the tool again.
func (ts *toolset) describe(name, description string) (changed bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byName[name]
	if t == nil || t.info.Description == description {
		return false
	}
	other := *t // calls that run hold on to the one before
	other.info.Description = description
	ts.byName[name] = &other
	ts.offer(other.info)
	return true
}

// withSchemas adds a tool's schemas to its entry in the sdk's list. Only clients
// that ask for structured results get the output schema.
func (ts *toolset) withSchemas(t *sdk.Tool, structured bool) *sdk.Tool {
	own, ok := ts.find(t.Name)
	if !ok {
		return t // the sdk has it whole
	}
	out, of := *t, own.schemas()
	out.InputSchema = of.input
	if structured && of.output != nil {
		out.OutputSchema = of.output
	}
	return &out
}

// hides reports whether a tool is hidden from a session.
func (ts *toolset) hides(session *Session, tool string) bool {
	if l := session.layer.Load(); l != nil && l.Hidden(tool) {
		return true
	}
	return ts.hidesFrom(session.tenant, tool)
}

// hidesFrom reports whether a tool is hidden from a tenant.
func (ts *toolset) hidesFrom(tenant, tool string) bool {
	h, ok := ts.gate.(Hider)
	return ok && h.Hidden(tenant, tool)
}

// relist notifies clients to list the tools again, if the set of hidden tools has
// changed since its last call.
func (ts *toolset) relist() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now, changed := make(map[string]string), false
	for _, tenant := range ts.tenants() {
		now[tenant] = ts.hiddenFrom(tenant)
		changed = changed || now[tenant] != ts.hidden[tenant]
	}
	ts.hidden = now
	if changed {
		ts.announce()
	}
}

// hiddenFrom are the tools that are hidden from a tenant; mu is held.
func (ts *toolset) hiddenFrom(tenant string) string {
	hidden := slices.DeleteFunc(sortedKeys(ts.byName), func(tool string) bool { return !ts.hidesFrom(tenant, tool) })
	return strings.Join(hidden, " ")
}

// announce makes the sdk send notifications/tools/list_changed to each client that
// wants it. The caller holds mu. The sdk sends it when a tool is added; adding a
// tool that it has already changes nothing else.
func (ts *toolset) announce() {
	for _, name := range sortedKeys(ts.byName) {
		ts.offer(ts.byName[name].info)
		return
	}
}

// announceIf announces if any tool meets the condition.
func (ts *toolset) announceIf(changed func(tool string) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if slices.ContainsFunc(sortedKeys(ts.byName), changed) {
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
