package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/order"
	"belljar.dev/mcp/wire"
)

// Limits of lists.
const (
	pageMost  = 200    // entries of one answer
	entryMost = 10_000 // resources of one session; further ones are left out
	foundMost = 200    // resources that a search returns
	queryMost = 1000   // bytes of a query
)

// private is the cache scope of all lists of this server, because their content belongs to
// a tenant.
const private = "private"

// all returns the registered resources, sorted by template.
func (rs *resources) all() []*Resource {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make([]*Resource, 0, len(rs.byTemplate))
	for _, template := range sortedKeys(rs.byTemplate) {
		all = append(all, rs.byTemplate[template])
	}
	return all
}

// entries returns the resources that a session has, sorted by URI.
func (rs *resources) entries(ctx context.Context, session *Session) ([]Entry, error) {
	var all []Entry
	for _, r := range rs.all() {
		if r.List == nil {
			continue
		}
		some, err := r.List(ctx, session)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Template, err)
		}
		all = append(all, some...)
	}
	return ordered(append(all, rs.remoteEntries(ctx, session)...), entryMost), nil
}

// ordered returns at most n entries, sorted by URI, each URI once.
func ordered(all []Entry, n int) []Entry {
	order.By(all, func(a, b *Entry) int { return strings.Compare(a.URI, b.URI) })
	all = slices.CompactFunc(all, func(a, b Entry) bool { return a.URI == b.URI })
	return all[:min(len(all), n)]
}

// resourcesResult is a list of resources. Resources of upstreams have members that the
// go-sdk does not know.
type resourcesResult struct {
	*sdk.ListResourcesResult
	Resources []any `json:"resources"` // hides the field of the sdk
}

// list answers resources/list.
func (rs *resources) list(ctx context.Context, session *Session, req *sdk.ListResourcesRequest) (*resourcesResult, error) {
	all, err := rs.entries(ctx, session)
	if err != nil {
		return nil, err
	}
	page, next, bad := paged(all, cursorOf(req.Params), func(e Entry) string { return e.URI })
	if bad != nil {
		return nil, bad
	}
	out := &resourcesResult{&sdk.ListResourcesResult{}, listed(page)}
	// Each call of a session's tools can change the list, so clients must not cache it.
	out.NextCursor, out.CacheScope = next, private
	return out, nil
}

// listed returns entries in the form of the wire.
func listed(entries []Entry) []any {
	out := make([]any, 0, len(entries))
	for _, e := range entries {
		if e.Definition != nil {
			if d := readEntry(e.Definition, "uri", e.URI); d != nil {
				out = append(out, d)
			}
			continue
		}
		out = append(out, &sdk.Resource{URI: e.URI, Name: e.Name, Title: e.Title, Description: e.Description, MIMEType: e.MIME, Size: e.Size})
	}
	return out
}

// searchParams and searchResult belong to resources/search. No revision contains this
// method; an experimental capability announces it.
type searchParams struct {
	sdk.ParamsBase
	Query string `json:"query"`
}

type searchResult struct {
	sdk.ResultBase
	Resources []any `json:"resources"`
}

const methodSearch = "resources/search"

// addSearch registers resources/search.
func (a *adapter) addSearch() {
	err := sdk.AddReceivingCustomMethod(a.sdk, methodSearch,
		func(ctx context.Context, ss *sdk.ServerSession, p *searchParams) (*searchResult, error) {
			session, err := a.sessionOf(ctx)
			if err != nil {
				return nil, err
			}
			found, err := a.server.resources.search(ctx, session, p.Query)
			if err != nil {
				return nil, err
			}
			return &searchResult{Resources: listed(found)}, nil
		})
	if err != nil {
		panic("mcp: " + err.Error()) // the sdk has come to know the method
	}
}

// search returns the resources that contain a text in their names, titles, descriptions or
// addresses. Upper and lower case do not matter.
func (rs *resources) search(ctx context.Context, session *Session, query string) ([]Entry, error) {
	query = strings.TrimSpace(query)
	if query == "" || len(query) > queryMost {
		return nil, wire.Errorf(wire.InvalidParams, "query: got %d bytes, want 1 to %d", len(query), queryMost)
	}
	id := NewCallID()
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(id, cancel); err != nil {
		return nil, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(id)
	var found []Entry
	for _, r := range rs.all() {
		some, err := rs.searchIn(ctx, r, session, query)
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", r.Template, err)
		}
		found = append(found, some...)
	}
	for _, e := range rs.remoteEntries(ctx, session) {
		if e.about(query) {
			found = append(found, e)
		}
	}
	return ordered(found, foundMost), nil
}

func (rs *resources) searchIn(ctx context.Context, r *Resource, session *Session, query string) ([]Entry, error) {
	switch {
	case r.SearchFacts != nil:
		return rs.searchGated(ctx, r, session, query)
	case r.Search != nil:
		return r.Search(ctx, session, query)
	case r.List == nil:
		return nil, nil
	}
	all, err := r.List(ctx, session)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e Entry) bool { return !e.about(query) }), nil
}

func (e Entry) about(query string) bool {
	query = strings.ToLower(query)
	return slices.ContainsFunc([]string{e.URI, e.Name, e.Title, e.Description}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), query)
	})
}

// Completed returns the values that begin with what was typed, in their order. Upper and
// lower case do not matter.
func Completed(values []string, typed string) []string {
	var out []string
	for _, v := range values {
		if len(v) >= len(typed) && strings.EqualFold(v[:len(typed)], typed) {
			out = append(out, v)
		}
	}
	return out
}
