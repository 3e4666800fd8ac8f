package console

import (
	"context"
	"encoding/hex"
	"net/http"
)

// Part serves the data of a server without a page, for the consoles at the fronts of its
// fleet. It has the routes of a console except those for logins. Each route requires the
// same role as in a console.
type Part struct {
	console *Console
	mux     http.ServeMux
}

// ServeHTTP answers a request from a front.
func (p *Part) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Run does the background work of a part until ctx ends.
func (p *Part) Run(ctx context.Context) { p.console.chain.follow(ctx, p.console.views.AuditDir) }

// changing is the digest of a thing that can change. A front makes its events from these
// digests.
type changing struct {
	Kind   string `json:"kind"`
	ID     string `json:"id,omitempty"`
	Tenant string `json:"tenant,omitempty"` // tenant that the thing belongs to
	Sum    string `json:"sum"`
}

// listChanging returns the digests of everything that can change.
func listChanging(r *request) (any, error) {
	all := []changing{}
	for t, sum := range r.console.things(r.context()) {
		all = append(all, changing{t.kind, t.id, t.tenant, hex.EncodeToString(sum[:8])})
	}
	return all, nil
}
