package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/order"
	"belljar.dev/mcp/wire"
)

// Bounds of one answer to tools/list. Few clients ask for a second page, so the pages are
// large.
const (
	toolsMost     = 1000
	toolBytesMost = 4 << 20
)

// notesKey is a member of the _meta of a list of tools. It contains the upstreams' notes
// for clients, by the names of the upstreams.
const notesKey = "belljar.dev/upstreams"

// toolsResult is a list of tools, each in the form of the wire: the definitions of
// upstreams have members that the go-sdk does not know.
type toolsResult struct {
	*sdk.ListToolsResult
	Tools []json.RawMessage `json:"tools"` // shadows the field of the sdk's result
}

// listedTool is a tool of a list.
type listedTool struct {
	tool *tool
	raw  json.RawMessage
}

// listTools answers tools/list: the tools of the server and of its upstreams, without the
// tools that are hidden from the caller.
func (a *adapter) listTools(ctx context.Context, req *sdk.ListToolsRequest, next sdk.MethodHandler) (sdk.Result, error) {
	caller := a.server.cfg.callerOf(ctx)
	hides := func(t *tool) bool { return a.hidesFrom(caller, t) }
	session, err := a.sessionOf(ctx)
	if err == nil {
		hides = func(t *tool) bool { return a.server.gate.hides(ctx, session, t) }
		if a.server.cfg.Gather != nil {
			a.server.cfg.Gather(ctx, session)
		}
	}
	params := &sdk.ListToolsParams{}
	if req.Params != nil {
		params = req.Params
	}
	all, table := a.server.tools.listed(a.tenantOf(ctx), a.server.cfg.structures(session, params.Meta), eraOf(req))
	if a.server.cfg.Suite != nil {
		if all, err = a.withSuite(ctx, req, next, all); err != nil {
			return nil, err
		}
	}
	tools, cursor, bad := toolPage(all, params.Cursor, hides)
	if bad != nil {
		return nil, bad
	}
	out := &toolsResult{ListToolsResult: &sdk.ListToolsResult{NextCursor: cursor}, Tools: tools}
	out.TTLMs, out.CacheScope = table.ttl(), private
	if notes := table.notes(); len(notes) > 0 {
		out.Meta = sdk.Meta{notesKey: notes}
	}
	return out, nil
}

// toolPage returns the definitions of a page of a list, and the cursor of the next page.
func toolPage(all []listedTool, cursor string, hides func(*tool) bool) (tools []json.RawMessage, next string, _ *wire.Error) {
	all = slices.DeleteFunc(all, func(t listedTool) bool { return hides(t.tool) })
	name := func(t listedTool) string { return t.tool.info.Name }
	order.By(all, func(a, b *listedTool) int { return strings.Compare(name(*a), name(*b)) })
	page, bad := after(all, cursor, name)
	if bad != nil {
		return nil, "", bad
	}
	tools = make([]json.RawMessage, 0, len(page))
	size := 0
	for i, t := range page {
		if size += len(t.raw); i == toolsMost || i > 0 && size > toolBytesMost {
			return tools, cursorAt(name(page[i-1])), nil
		}
		tools = append(tools, t.raw)
	}
	return tools, "", nil
}

// withSuite returns all with the tools of the suite, which only the sdk knows.
func (a *adapter) withSuite(ctx context.Context, req *sdk.ListToolsRequest, next sdk.MethodHandler, all []listedTool) ([]listedTool, error) {
	res, err := next(ctx, "tools/list", &sdk.ListToolsRequest{Session: req.Session, Params: &sdk.ListToolsParams{}, Extra: req.Extra})
	list, ok := res.(*sdk.ListToolsResult)
	if err != nil || !ok {
		return all, err
	}
	for _, t := range list.Tools {
		if _, ours := a.server.tools.find("", t.Name); ours || t.Name == stubTool {
			continue
		}
		raw, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		all = append(all, listedTool{&tool{info: Tool{Name: t.Name}}, raw})
	}
	return all, nil
}

// listed returns the tools that a tenant has, and the table of the tenant's upstreams.
func (ts *toolset) listed(tenant string, structured bool, in wire.Era) ([]listedTool, *remoteTable) {
	ts.mu.Lock()
	table := ts.remote[tenant]
	tools := make([]*tool, 0, len(ts.byName))
	for _, t := range ts.byName {
		tools = append(tools, t)
	}
	ts.mu.Unlock()
	if table != nil {
		tools = append(tools, table.sorted...)
	}
	all := make([]listedTool, 0, len(tools))
	for _, t := range tools {
		if !t.unlisted {
			all = append(all, listedTool{t, t.listed(structured, in)})
		}
	}
	return all, table
}
