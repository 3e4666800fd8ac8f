package console

import (
	"slices"
	"strings"
)

// Scope is the set of tenants whose things a person may see and decide about. The zero
// value contains no tenant.
type Scope struct {
	all     bool
	tenants []string // sorted names of the tenants
}

// Everything returns the scope of people who may see the things of all tenants and of the
// server itself.
func Everything() Scope { return Scope{all: true} }

// ScopeOf returns the scope of people who may see the things of some tenants.
func ScopeOf(tenants []string) Scope {
	tenants = slices.Clone(tenants)
	slices.Sort(tenants)
	return Scope{tenants: slices.Compact(tenants)}
}

// Sees reports whether the things of a tenant are in a scope. Things without a tenant belong to
// the server. Sees is not inlined into its many callers.
//
//go:noinline
func (s Scope) Sees(tenant string) bool {
	return s.all || tenant != "" && slices.Contains(s.tenants, tenant)
}

// String returns the names of the tenants.
func (s Scope) String() string {
	if s.all {
		return "all tenants"
	}
	return "the tenants " + strings.Join(s.tenants, ", ")
}

// seen returns the elements of a list that are in a scope.
func seen[T any](s Scope, all []T, tenant func(*T) string) []T {
	out, n := make([]T, len(all)), 0
	for i := range all {
		if s.Sees(tenant(&all[i])) {
			out[n] = all[i]
			n++
		}
	}
	return out[:n]
}

// owned reports whether at least one thing is meant, and all things that are meant are in
// the scope. Ids are shortened, so one id can mean two things.
func owned[T any](s Scope, all []T, meant func(*T) bool, tenant func(*T) string) bool {
	found := false
	for i := range all {
		if !meant(&all[i]) {
			continue
		}
		if !s.Sees(tenant(&all[i])) {
			return false
		}
		found = true
	}
	return found
}
