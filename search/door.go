package search

import (
	"context"
	"net/http"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/search/engine"
)

// Door is the way to the engines for the queries of one grant. *egress.Door is
// one. A test may have another, which leads to servers of its own.
type Door interface {
	Client() *http.Client
	Close() error
}

// Browser reads pages with a Chrome of our own: the second lane, for engines
// that turn plain clients away. It is what it says it is, types no captcha, and
// asks the grant itself whether the page may be opened. It must be safe for
// concurrent use.
type Browser interface {
	// Open is the page at an address as it stands when it has settled. The
	// error holds nothing of the address.
	Open(ctx context.Context, g policies.Grant, address string) (engine.Response, error)
}

// egressDoor is the door of a grant as it is outside of tests. It tells Record
// of connections and requests, without their paths: some engines take the
// query in it.
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
