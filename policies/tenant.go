package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LocalTenant is the tenant of the calls of a person at this machine. It is the only tenant
// that a policy need not name.
const LocalTenant = "local"

// The limits of a tenant for which the policy states none.
const (
	DefaultTenantRate     = 100.0 // calls in a second
	DefaultTenantBurst    = 1000  // calls in quick succession before the rate counts
	DefaultTenantInFlight = 128   // calls that run at the same time
	DefaultTenantSessions = 64    // sessions over HTTP
	DefaultTenantStreams  = 128   // open streams over HTTP
	DefaultTenantBoxes    = 8     // boxes that are open at the same time
)

// Tenant is what a policy says about one tenant.
type Tenant struct {
	Name string
	// Token says where the SHA-256 of the tenant's bearer token is kept, in
	// hexadecimal digits: a variable or a file. If it is zero, no token is
	// accepted.
	Token      Secret
	Profile    string   // profile of calls that ask for none
	MayRequest []string // further profiles that calls may ask for, in order
	// Approvers are the people who may answer the questions about the tenant's calls. It is
	// nil if the policy does not name approvers, and empty if nobody may answer.
	Approvers []string
	// Workspace is the directory that the tenant's boxes see as /workspace, if clients over
	// HTTP name no place. It is empty for the workspace of the server.
	Workspace string
	// Places are the directories of the tenant's further places, by name. The directory is
	// empty for a place that the policy only names: workers of a fleet make such a place in
	// the directory of their places.
	Places   map[string]string
	Rate     float64 // calls in a second, after Burst
	Burst    int     // calls in quick succession before the rate counts
	InFlight int     // calls that run at the same time
	Sessions int     // sessions over HTTP at the same time
	Streams  int     // streams over HTTP that are open at the same time
	Totals   Totals  // totals of the tenant's boxes
}

// tenant is a Tenant with the layers that apply to it.
type tenant struct {
	Tenant

	node  *yaml.Node
	files []*yaml.Node // files of the tenant's layers
	below []*Layer
}

// Tenants returns the names of the policy's tenants, in order. The result must not be
// changed.
func (p *Policy) Tenants() []string { return p.names }

// Tenant returns what the policy says about a tenant, and false if the policy has no tenant
// with that name.
func (p *Policy) Tenant(name string) (Tenant, bool) {
	t, ok := p.tenants[name]
	if !ok {
		return Tenant{}, false
	}
	own := t.Tenant
	own.MayRequest, own.Approvers, own.Places = slices.Clone(t.MayRequest), slices.Clone(t.Approvers), maps.Clone(t.Places)
	return own, true
}

// Workspaces returns the directories in which the tenant works, each once and in order. The
// result is empty if the policy names no directory.
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

// offer returns a text that says which profiles a tenant's calls may have.
func (t *tenant) offer() string {
	if len(t.MayRequest) == 0 {
		return fmt.Sprintf("Repeat the call without a profile; it then gets %s.", t.Profile)
	}
	return fmt.Sprintf("Repeat the call without a profile for %s, or with %s.", t.Profile, strings.Join(t.MayRequest, " or "))
}
