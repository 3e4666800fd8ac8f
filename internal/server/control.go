package server

import (
	"context"
	"net/http"

	"belljar.dev/internal/control"
)

// openControl answers the commands that ask about this server. A server can do without.
func (s *Server) openControl(ctx context.Context, policy *policyStatus) {
	if s.State == "" {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, policy.info()) })
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, s.audit.health()) })
	(&boxHandlers{s.sandbox}).handle(mux)
	s.operations().handle(mux)
	s.approver.handle(mux, s.Workspace)
	l, err := control.Listen(ctx, s.State, mux, s.Log)
	if err != nil {
		s.Log.Warn("`belljar approve`, `ports` and `ps` will not see this server", "err", err)
		return
	}
	s.opened.Do(func() { l.Close(ctx) })
	s.approver.open(wayCommand)
}
