package search

import (
	"net/http"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// Door is the way to the engines for the queries of one grant. *egress.Door is
// one. A test may have another, which leads to servers of its own.
type Door interface {
	Client() *http.Client
	Close() error
}

// egressDoor is the door of a grant as it is outside of tests. It tells record
// of connections and requests, without their paths: some engines take the
// query in it.
func egressDoor(record func(tenant string, r egress.Record)) func(policies.Grant) (Door, error) {
	return func(g policies.Grant) (Door, error) {
		cfg := egress.Config{Egress: g.Egress(), Profile: g.Profile()}
		if record != nil {
			tenant := g.Tenant()
			cfg.Record = func(r egress.Record) {
				r.Path = ""
				record(tenant, r)
			}
		}
		return egress.New(cfg)
	}
}
