package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream/names"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// prompts returns the prompts that are offered to a tenant.
func (o *offers) prompts(tenant string) (all []mcp.Prompt) {
	o.tell.Lock()
	defer o.tell.Unlock()
	t := o.tenants[tenant]
	if t == nil {
		return nil
	}
	for _, tool := range t.prompts.List() {
		for _, raw := range t.faces[tool.Server].prompts {
			if wire.Text(wire.Member(raw, "name")) == tool.Native {
				all = append(all, mcp.Prompt{Name: tool.Primary, Definition: raw, Arguments: argumentsOf(raw)})
			}
		}
	}
	return all
}

// argumentsOf returns the arguments of a prompt.
func argumentsOf(prompt json.RawMessage) (all []mcp.Argument) {
	var of []struct {
		Name     string `json:"name"`
		Required bool   `json:"required"`
	}
	_ = json.Unmarshal(wire.Member(prompt, "arguments"), &of) // members that cannot be read are left out
	for _, a := range of {
		all = append(all, mcp.Argument{Name: a.Name, Required: a.Required})
	}
	return all
}

// prompt finds a prompt by the name that clients know.
func (o *offers) prompt(tenant, name string) (names.Tool, bool) {
	o.tell.Lock()
	defer o.tell.Unlock()
	t := o.tenants[tenant]
	if t == nil {
		return names.Tool{}, false
	}
	tool, err := t.prompts.Find(name)
	return tool, err == nil
}

// use returns the facts for the policy when a client uses prompts or resources of a server.
// what is usePrompts or useResources.
func (o *offers) use(tenant, server, what string) policies.Facts {
	o.tell.Lock()
	defer o.tell.Unlock()
	for _, tool := range o.of(tenant).uses.List() {
		if tool.Server == server && tool.Native == what {
			return policies.Facts{Tool: tool.Primary, Upstream: server}
		}
	}
	return policies.Facts{}
}

// schemes is the prefix of the URIs of servers' resources: mcp+PREFIX://SCHEME/REST is
// SCHEME:REST of the server with the prefix.
const schemes = "mcp+"

// schemeOf returns the scheme of the URIs of a server. Schemes consist of lower-case
// letters, digits and a few other characters (RFC 3986, section 3.1).
func schemeOf(s *server) string {
	name := s.entry.Prefix
	if name == "" {
		name = s.Name
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, name)
	if clean != name {
		sum := sha256.Sum256([]byte(s.Name))
		clean += "-" + hex.EncodeToString(sum[:3])
	}
	return schemes + clean
}

// resource is the reverse of outward: it returns the server for a URI, and the URI at that
// server.
func (o *offers) resource(tenant, uri string) (server, native string, ok bool) {
	scheme, rest, _ := strings.Cut(uri, "://")
	o.tell.Lock()
	defer o.tell.Unlock()
	t := o.tenants[tenant]
	if t == nil {
		return "", "", false
	}
	for name, f := range t.faces {
		if !strings.EqualFold(schemeOf(f.server), scheme) {
			continue
		}
		if ok { // two servers have the scheme
			return "", "", false
		}
		first, then, _ := strings.Cut(rest, "/")
		server, native, ok = name, first+":"+then, true
	}
	return server, native, ok
}

// withResources returns the servers that have resources for a tenant.
func (o *offers) withResources(tenant string) (all []*face) {
	o.tell.Lock()
	defer o.tell.Unlock()
	if t := o.tenants[tenant]; t != nil {
		for _, f := range t.faces {
			if wire.Member(f.info.Capabilities, "resources") != nil {
				all = append(all, f)
			}
		}
	}
	return all
}
