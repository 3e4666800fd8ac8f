package search

import (
	"context"
	"net/http"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search/engine"
)

// Door is the way to the engines for the queries of one grant. *egress.Door implements it.
// A test may use another Door, which leads to its own servers.
type Door interface {
	Client() *http.Client
	Close() error
}

// Browser reads pages with a Chrome of our own: the second lane, for engines that refuse
// plain clients. It does not hide what it is, solves no captcha, and asks the grant itself
// whether the page may be opened. It must be safe for concurrent use.
type Browser interface {
	// Open returns the page at an address when it has settled. The error must not contain
	// the address.
	Open(ctx context.Context, g policies.Grant, address string) (engine.Response, error)
}

// egressDoor returns the Config.Door that is used outside of tests. It reports connections
// and requests to Record without their paths: some engines take the query in the path.
func egressDoor(of *Config) func(policies.Grant) (Door, error) {
	allowed, record := of.Allowed, of.Record
	if tell := of.Record; tell != nil {
		record = func(tenant string, r egress.Record) {
			r.Path = ""
			tell(tenant, r)
		}
	}
	return func(g policies.Grant) (Door, error) { return egress.NewFor(g, record, allowed) }
}
