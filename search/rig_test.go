package search_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

// rig is a fan with the engines of belljar, whose hosts are all on one mock server.
type rig struct {
	t      testing.TB
	server *searchtest.Server
	fan    *search.Fan
	mocks  []searchtest.Engine
	policy *policies.Policy
}

// newRig starts a rig in which all eleven engines work. more are additional mocks, for
// example reserves.
func newRig(t testing.TB, change func(*search.Config), more ...searchtest.Engine) *rig {
	t.Helper()
	r := &rig{t: t, mocks: append(searchtest.Defaults(), more...)}
	var err error
	if r.server, err = searchtest.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.server.Close() })
	for _, e := range r.mocks {
		if e.Write == nil {
			continue
		}
		r.server.Set(e, searchtest.Zipped(e.Write(searchtest.Made(e.Name, 10))))
	}
	r.policy = searchPolicy(t, browsing, r.mocks...)
	cfg := search.Config{Engines: unrated(t), Door: r.server.Door(nil)}
	if change != nil {
		change(&cfg)
	}
	if r.fan, err = search.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.fan.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// browsing gives the profile of searchPolicy a browser.
const browsing = "browser: sandboxed, "

// searchPolicy returns a policy that allows the hosts of some engines. also is added to the
// profile.
func searchPolicy(t testing.TB, also string, engines ...searchtest.Engine) *policies.Policy {
	t.Helper()
	var hosts []string
	for _, e := range engines {
		hosts = append(hosts, e.Hosts...)
	}
	p, err := policies.Parse("search.yaml", fmt.Appendf(nil, `
version: 1
defaults: {profile: search}
profiles:
  search: {%snet: {mode: proxy, allow: [%s], limits: {rate: 10000, connections: 1000, bytes: 100GiB}}}
rules: [{id: all, match: {tool: "*"}, decision: allow}]
`, also, strings.Join(hosts, ", ")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unrated returns the engines of belljar without their rates: a test asks more often than
// the rates allow.
func unrated(t testing.TB) func() *engine.Set {
	t.Helper()
	engines, err := engine.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range engines.All() {
		e.Rate = engine.Rate{}
	}
	return func() *engine.Set { return engines }
}

// grant returns a grant for a call of a tenant.
func (r *rig) grant(tenant string) policies.Grant {
	return r.policy.Decide(policies.Facts{Tenant: tenant, Tool: "WebSearch"}).Grant
}

// mock returns the mock of an engine.
func (r *rig) mock(name string) searchtest.Engine {
	r.t.Helper()
	for _, e := range r.mocks {
		if e.Name == name {
			return e
		}
	}
	r.t.Fatalf("there is no mock %s", name)
	return searchtest.Engine{}
}

// has sets the behaviour of an engine.
func (r *rig) has(name string, b searchtest.Behaviour) { r.server.Set(r.mock(name), b) }

// search runs a query that must succeed.
func (r *rig) search(q search.Query) *search.Report {
	r.t.Helper()
	report, err := r.fan.Search(r.t.Context(), r.grant("local"), q)
	if err != nil {
		r.t.Fatalf("search: %v", err)
	}
	return report
}

// of returns the outcome of an engine in a report.
func of(t testing.TB, r *search.Report, name string) search.Asked {
	t.Helper()
	for _, a := range r.Engines {
		if a.Engine == name {
			return a
		}
	}
	t.Fatalf("%s is not in the report", name)
	return search.Asked{}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: it did not come to that", what)
		}
	}
}
