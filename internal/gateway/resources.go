package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// resources offers the resources of servers as resources of the place. To the policy, the
// use of a resource is a call of the tool mcp_PREFIX_resources.
func (g *calls) resources() mcp.RemoteResources {
	return mcp.RemoteResources{
		Scheme: schemes, List: g.listResources, Templates: g.listTemplates, Read: g.readResource, Complete: g.completeResource,
		Facts: func(s *mcp.Session, uri string) (policies.Facts, error) {
			server, native, ok := g.offers.resource(s.Tenant(), uri)
			if !ok {
				return policies.Facts{}, mcp.ErrNotFound
			}
			f := g.offers.use(s.Tenant(), server, useResources)
			if strings.HasPrefix(native, "http:") || strings.HasPrefix(native, "https:") {
				f.URLs = []string{native}
			}
			return f, nil
		},
	}
}

// outward returns the URI, or the template of URIs, under which clients know a resource of
// a server.
func outward(s *server, uri string) string {
	scheme, rest, _ := strings.Cut(uri, ":")
	return schemeOf(s) + "://" + scheme + "/" + rest
}

// listResources lists the resources of all servers that the session may use. It asks all
// servers at the same time. A server that does not answer does not delay the others, and is
// left out.
func (g *calls) listResources(ctx context.Context, s *mcp.Session) ([]mcp.Entry, error) {
	g.gather(ctx, s)
	faces := g.offers.withResources(s.Tenant())
	lists := make([][]mcp.Entry, len(faces))
	var listing sync.WaitGroup
	for i, f := range faces {
		listing.Go(func() {
			var err error
			if lists[i], err = g.resourcesOf(ctx, s, f); err != nil {
				g.cfg.Log.Warn("the resources of an upstream are not listed", "upstream", f.server.Name, "err", err)
			}
		})
	}
	listing.Wait()
	return slices.Concat(lists...), ctx.Err()
}

// resourcesOf lists the resources of a server that arrive in time.
func (g *calls) resourcesOf(ctx context.Context, s *mcp.Session, f *face) (all []mcp.Entry, err error) {
	// A list names no resource, so its grant is the grant of the server as a whole.
	grant, err := g.cfg.Policy().Upstreams().Grant(s.Tenant(), policies.UpstreamBox{Server: f.server.Name, Trusted: f.server.Trusted})
	if err != nil {
		return nil, err
	}
	grant, may := s.Narrows(grant, g.offers.use(s.Tenant(), f.server.Name, useResources))
	if !may {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listsTimeout)
	defer cancel()
	err = g.pool.Do(ctx, grant, callerOf(s), f.server.Name, func(ctx context.Context, c *conn) error {
		list, err := c.List(ctx, "resources/list", "resources", peer.CallOptions{Timeout: f.server.Settings.Timeouts.Call})
		for _, raw := range list.Items {
			all = append(all, entryOf(f.server, raw))
		}
		return err
	})
	return all, err
}

// entryOf returns a resource of a server in the form that clients see.
func entryOf(s *server, raw json.RawMessage) mcp.Entry {
	text := func(member string) string { return wire.Text(wire.Member(raw, member)) }
	return mcp.Entry{URI: outward(s, text("uri")), Name: text("name"), Title: text("title"), Description: text("description"), Definition: raw}
}

// listTemplates lists the trusted templates.
func (g *calls) listTemplates(ctx context.Context, s *mcp.Session) (all []json.RawMessage, _ error) {
	g.gather(ctx, s)
	for _, f := range g.offers.withResources(s.Tenant()) {
		for _, raw := range f.templates {
			ours, err := withText(raw, "uriTemplate", outward(f.server, wire.Text(wire.Member(raw, "uriTemplate"))))
			if err != nil {
				return nil, err
			}
			all = append(all, ours)
		}
	}
	return all, nil
}

// readResource reads a resource of a server.
func (g *calls) readResource(ctx context.Context, call mcp.Call, uri string) (res json.RawMessage, err error) {
	server, native, ok := g.offers.resource(call.Session.Tenant(), uri)
	if !ok {
		return nil, mcp.ErrNotFound
	}
	params, err := json.Marshal(map[string]string{"uri": native})
	if err != nil {
		return nil, err
	}
	err = g.pool.Do(ctx, call.Grant, callerOf(call.Session), server, func(ctx context.Context, c *conn) error {
		raw, err := c.ask(ctx, &running{call: call}, "resources/read", params, nil)
		if bad, ok := errors.AsType[*mcp.RemoteError](err); ok && notFound(c.Info().Era, bad) {
			return mcp.ErrNotFound
		}
		if err != nil {
			return err
		}
		res, err = outwardContents(c.server, raw)
		return err
	})
	return res, err
}

// notFound reports whether a server's error means that a resource does not exist (MCP
// 2025-11-25 and 2026-07-28, "Resources", "Error Handling"). The modern era has one code
// for all invalid params. In that era the error means a missing resource only if its data
// contain the URI.
func notFound(in wire.Era, e *mcp.RemoteError) bool {
	return e.Code == wire.NotFound.Code(in) && (in == wire.Legacy || wire.Member(e.Data, "uri") != nil)
}

// outwardContents returns the result of resources/read with the URIs that clients see.
func outwardContents(s *server, raw json.RawMessage) (json.RawMessage, error) {
	contents := wire.Member(raw, "contents")
	if len(contents) == 0 || contents[0] != '[' {
		return nil, fmt.Errorf("the server %s answered with something that is not a resource", upstream.Line(s.Name))
	}
	all := []json.RawMessage{}
	var bad error
	wire.Elements(contents, func(one []byte) bool {
		var ours json.RawMessage
		if !wire.IsObject(one) {
			bad = fmt.Errorf("the server %s answered with an entry of contents that is not an object", upstream.Line(s.Name))
			return false
		}
		ours, bad = withText(one, "uri", outward(s, wire.Text(wire.Member(one, "uri"))))
		all = append(all, ours)
		return bad == nil
	})
	if bad != nil {
		return nil, bad
	}
	text, err := json.Marshal(map[string]any{"contents": all})
	if err != nil {
		return nil, err
	}
	if meta := wire.Member(raw, "_meta"); wire.IsObject(meta) {
		text = append(append(append(text[:len(text)-1], `,"_meta":`...), meta...), '}')
	}
	return text, nil
}

// withText returns the object with text as the value of a member.
func withText(object json.RawMessage, member, text string) (json.RawMessage, error) {
	value, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	wire.Members(object, func(name, old []byte) bool {
		if string(name) == member {
			return true
		}
		key, _ := json.Marshal(string(name)) // a string can always be marshalled
		b.Write(key)
		b.WriteByte(':')
		b.Write(old)
		b.WriteByte(',')
		return true
	})
	fmt.Fprintf(&b, "%q:%s}", member, value)
	return b.Bytes(), nil
}
