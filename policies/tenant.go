package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LocalTenant is the tenant of the calls of a person at this machine: the only
// tenant that a policy need not name.
const LocalTenant = "local"

// The limits of a tenant for which the policy gives none.
const (
	DefaultTenantRate     = 100.0 // calls in a second
	DefaultTenantBurst    = 1000  // calls at once before the rate counts
	DefaultTenantInFlight = 128   // calls that run at once
	DefaultTenantSessions = 64    // sessions over HTTP
	DefaultTenantStreams  = 128   // open streams over HTTP
	DefaultTenantBoxes    = 8     // boxes open at once
)

// Tenant is what a policy says of one tenant.
type Tenant struct {
	Name string
	// Token says where the SHA-256 of the tenant's bearer token is kept, in
	// hexadecimal digits: a variable or a file. If it is zero, no token is
	// accepted.
	Token      Secret
	Profile    string   // for calls that ask for none
	MayRequest []string // further profiles that calls may ask for, in order
	// Approvers are the people who may answer the questions of the tenant's calls.
	// It is nil if the policy does not say who may, and empty if nobody may.
	Approvers []string
	// Workspace is the directory that the tenant's boxes see as /workspace, where clients
	// over HTTP name no place; empty for that of the server.
	Workspace string
	// Places are the directories of its further places, by name. The directory is empty for a
	// place that the policy only names, which workers of a fleet make where they keep theirs.
	Places   map[string]string
	Rate     float64 // calls in a second, after Burst
	Burst    int     // calls at once before the rate counts
	InFlight int     // calls that run at once
	Sessions int     // over HTTP, at once
	Streams  int     // over HTTP, that are open at once
	Totals   Totals  // of its boxes
}

// tenant is a Tenant with the layers that hold for it.
type tenant struct {
	Tenant

	node  *yaml.Node
	files []*yaml.Node // of its layers
	below []*Layer
}

// Tenants are the names of the policy's tenants, in order. They must not be changed.
func (p *Policy) Tenants() []string { return p.names }

// Tenant is what the policy says of a tenant; false says that it has none of
// that name.
func (p *Policy) Tenant(name string) (Tenant, bool) {
	t, ok := p.tenants[name]
	if !ok {
		return Tenant{}, false
	}
	own := t.Tenant
	own.MayRequest, own.Approvers, own.Places = slices.Clone(t.MayRequest), slices.Clone(t.Approvers), maps.Clone(t.Places)
	return own, true
}

// Workspaces are the directories in which the tenant works, each once and in order; none
// if the policy does not say.
func (t Tenant) Workspaces() []string {
	all := slices.Collect(maps.Values(t.Places))
	if t.Workspace != "" {
		all = append(all, t.Workspace)
	}
	all = slices.DeleteFunc(all, func(dir string) bool { return dir == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// serves reports whether calls may be made for a tenant. A policy that names
// tenants serves only these and the person at this machine.
func (p *Policy) serves(name string) bool {
	_, ok := p.tenants[name]
	return ok || len(p.tenants) == 0 || name == "" || name == LocalTenant
}

// may reports whether calls of the tenant may have a profile.
func (t *tenant) may(profile string) bool {
	return profile == t.Profile || slices.Contains(t.MayRequest, profile)
}

// offer says which profiles a tenant's calls may have.
func (t *tenant) offer() string {
	if len(t.MayRequest) == 0 {
		return fmt.Sprintf("Repeat the call without a profile; it then gets %s.", t.Profile)
	}
	return fmt.Sprintf("Repeat the call without a profile for %s, or with %s.", t.Profile, strings.Join(t.MayRequest, " or "))
}
