package console

import (
	"context"
	"encoding/hex"
	"net/http"
)

// Part is the data of a server without a page, for the consoles at the fronts of its fleet. It
// has the routes of a console but for those of logins, each with the role that it needs.
type Part struct {
	console *Console
	mux     http.ServeMux
}

// ServeHTTP answers a front.
func (p *Part) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Run does what goes on in a part, until ctx ends.
func (p *Part) Run(ctx context.Context) { p.console.chain.follow(ctx, p.console.views.AuditDir) }

// changing is the digest of something that changes, by which a front makes its events.
type changing struct {
	Kind   string `json:"kind"`
	ID     string `json:"id,omitempty"`
	Tenant string `json:"tenant,omitempty"` // whose it is
	Sum    string `json:"sum"`
}

// listChanging lists what changes.
func listChanging(r *request) (any, error) {
	all := []changing{}
	for t, sum := range r.console.things(r.context()) {
		all = append(all, changing{t.kind, t.id, t.tenant, hex.EncodeToString(sum[:8])})
	}
	return all, nil
}
