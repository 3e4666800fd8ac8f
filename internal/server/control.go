package server

import (
	"context"
	"net/http"

	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/sandbox"
)

// controller answers the requests of commands about this server.
type controller struct {
	at         Place
	policy     *policyStatus
	audit      *ledger // nil if no log is kept
	sandbox    *sandbox.Supervisor
	operations *operations
	ways       *ways
	quotas     *quotas
	browsers   *agentBrowsers
	console    *console.Console // nil without a console
}

// listen serves the control socket, and opens the way by which the command line answers
// questions. end closes the socket. end is nil without a state directory, or if the socket
// cannot be opened: a server can run without the socket.
func (c *controller) listen(ctx context.Context) (end func()) {
	if c.at.State == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, c.policy.info()) })
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, c.audit.health()) })
	mux.HandleFunc("GET /tenants", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, c.quotas.tenants()) })
	c.handleConsole(mux)
	(&boxHandlers{c.sandbox}).handle(mux)
	c.operations.handle(mux)
	c.browsers.handle(mux)
	(&upstreamHandlers{c.operations.places, c.audit, c.at.Log}).handle(mux)
	c.ways.handle(mux, c.at.Workspace)
	l, err := control.Listen(ctx, c.at.State, mux, c.at.Log)
	if err != nil {
		c.at.Log.Warn("`belljar approve`, `ports` and `ps` will not see this server", "err", err)
		return nil
	}
	c.ways.open(wayCommand)
	return func() { l.Close(ctx) }
}
