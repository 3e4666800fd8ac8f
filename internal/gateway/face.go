package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/mcp/wire"
)

// face is what a server reports about itself at one time, and which part of that is
// trusted. It does not change.
type face struct {
	server  *server
	info    peer.Info
	listing pin.Listing
	verdict *pin.Verdict
	changes int      // number of changes that the server had announced before the read
	missing []string // for each item of its lists that is left out, the reason
	ttl     time.Duration

	// The definitions that may be offered. The tools are by their native names.
	tools     map[string]definition
	prompts   []json.RawMessage
	templates []json.RawMessage
}

// definition is a tool in the form in which its server lists it.
type definition struct {
	raw json.RawMessage
	sum pin.Digest
}

// judge compares what a server reports to a tenant with what is trusted. others are the
// names of all other tools.
func (f *face) judge(ctx context.Context, book *pin.Book, tenant string, runs pin.Runs, others []string) {
	rules := f.server.rules()
	rules.Others = others
	f.verdict = book.Judge(ctx, f.server.pins(tenant), rules, pin.Offer{Runs: runs, Listing: &f.listing})
	f.tools = make(map[string]definition, len(f.listing.Tools))
	for i, raw := range f.listing.Tools {
		name := wire.Text(wire.Member(raw, "name"))
		if item, ok := f.verdict.Offered(pin.KindTool, name); ok && item.At == i {
			f.tools[name] = definition{raw, item.Digest}
		}
	}
	f.prompts = f.trusted(pin.KindPrompt, f.listing.Prompts, "name")
	f.templates = f.trusted(pin.KindTemplate, f.listing.Templates, "uriTemplate")
}

// trusted returns the definitions of a list that may be offered. name is the member that
// contains the name of a definition.
func (f *face) trusted(kind pin.Kind, all []json.RawMessage, name string) (some []json.RawMessage) {
	for i, raw := range all {
		if item, ok := f.verdict.Offered(kind, wire.Text(wire.Member(raw, name))); ok && item.At == i {
			some = append(some, raw)
		}
	}
	return some
}

// hasPrompt reports whether a prompt of the server may be offered.
func (f *face) hasPrompt(native string) bool {
	for _, raw := range f.prompts {
		if wire.Text(wire.Member(raw, "name")) == native {
			return true
		}
	}
	return false
}

// hasTemplate reports whether a template of the server may be offered.
func (f *face) hasTemplate(native string) bool {
	for _, raw := range f.templates {
		if wire.Text(wire.Member(raw, "uriTemplate")) == native {
			return true
		}
	}
	return false
}

// of returns the face with the server from the present configuration.
func (f *face) of(s *server) *face {
	if f.server == s {
		return f
	}
	same := *f
	same.server = s
	return &same
}

// waits returns a text for clients about the definitions of the server that are held or
// left out.
func (f *face) waits() string {
	n := 0
	for _, item := range f.verdict.Items {
		if item.Why != "" {
			n++
		}
	}
	var all []string
	if n > 0 {
		all = append(all, fmt.Sprintf("%d of its definitions are held; a person decides about them with belljar upstream pins", n))
	}
	if len(f.missing) > 0 {
		all = append(all, fmt.Sprintf("%d are left out: %s", len(f.missing), f.missing[0]))
	}
	return strings.Join(all, "; ")
}

// nameOf returns the name that a server gives itself.
func nameOf(info peer.Info) string { return wire.Text(wire.Member(info.Server, "name")) }
