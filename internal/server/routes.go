package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/front"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// openFleet opens what a front keeps about the places of the fleet.
func openFleet(ctx context.Context, s *Server) (err error) {
	if s.State == "" {
		return errors.New("a front needs a state directory, where it records the worker of each place; name one with --state")
	}
	if err := os.MkdirAll(s.State, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	journal, err := claims.OpenJournal(filepath.Join(s.State, "claims"))
	if err != nil {
		return err
	}
	s.opened.Do(func() {
		if err := journal.Close(); err != nil {
			s.Log.Error("the claims were not closed", "err", err)
		}
	})
	keys, err := fleet.OpenKeys(filepath.Join(s.State, "keys"))
	if err != nil {
		return err
	}
	routes := s.cfg.Service.Routes
	cfg := fleet.FrontConfig{
		Keys:        keys,
		Credentials: routes.Credentials, Claims: journal, Settled: !journal.Empty(), Workers: routes.Workers, Protocol: messages{}, Log: s.Log,
		PolicyDigest: func() string { return s.gate.now.Load().Hash() },
		Names: func() []string {
			all, _ := fleetPlaces(s.places.layout.Load().policy()) // a policy that no fleet can serve has no places
			return all
		},
	}
	if len(routes.NATS.Servers) > 0 {
		if cfg.Claims, s.shared, err = share(ctx, s, journal); err != nil {
			return front.Mistake(err)
		}
		cfg.SharedClaims, cfg.Settled = true, true
	}
	if s.fleet, err = fleet.NewFront(cfg); err != nil {
		return front.Mistake(err)
	}
	return nil
}

// The name of a bucket that the fronts of a fleet share, and the most bytes of its values.
const (
	claimsBucket = "belljar-claims"
	maxClaim     = 4 << 10
)

// share connects to the NATS servers that all fronts share. The front does not wait for the
// connection: places that exist are served without it.
func share(ctx context.Context, s *Server, journal *claims.Journal) (claims.Claims, *bus.Bucket, error) {
	cfg := s.cfg.Service.Routes.NATS
	cfg.Log = s.Log
	b, err := bus.Connect(cfg)
	if err != nil {
		return nil, nil, err
	}
	s.opened.Do(b.Close)
	shared := claims.OpenShared(context.WithoutCancel(ctx), b.Bucket(claimsBucket, maxClaim), journal, s.Log)
	s.opened.Do(shared.Close)
	return shared, b.Bucket(policyBucket, maxShared), nil
}

// runRoutes starts the work of a running front: the reloader and the answers to other
// commands.
func runRoutes(ctx context.Context, s *Server) error {
	ctx, lasting, running := lifetime(ctx, &s.opened)
	s.reloader = newReloader(s.gate, s.Place, s.places, s.audit, s.cfg.Service.HTTP)
	s.reloader.changed = func(*layout) { s.fleet.Recheck() }
	running.Go(func() { s.reloader.run(ctx, s.cfg.Service.Watch) })
	running.Go(func() {
		s.login.Follow(ctx, func(added []auth.Token, over []auth.Ended) {
			s.places.operations().tokensChanged(added, over)
			s.fleet.Recheck()
		})
	})
	if s.monitor != nil { // the monitor also runs while the server drains
		running.Go(func() { s.monitor.run(lasting, s) })
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /policy", func(w http.ResponseWriter, _ *http.Request) {
		control.Respond(w, http.StatusOK, s.reloader.status.info())
	})
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, _ *http.Request) { control.Respond(w, http.StatusOK, s.audit.health()) })
	mux.HandleFunc("GET /fleet", func(w http.ResponseWriter, _ *http.Request) {
		control.Respond(w, http.StatusOK, []fleet.Info{s.fleet.Info()})
	})
	mux.HandleFunc("POST /fleet/audit", func(w http.ResponseWriter, r *http.Request) {
		later := http.NewResponseController(w) // no deadlines: reading the logs takes long
		_, _ = later.SetReadDeadline(time.Time{}), later.SetWriteDeadline(time.Time{})
		control.Respond(w, http.StatusOK, s.fleet.Audit(r.Context()))
	})
	mux.HandleFunc("POST /fleet/forget", func(w http.ResponseWriter, r *http.Request) {
		if err := s.fleet.Forget(r.Context(), r.URL.Query().Get("place")); err != nil {
			control.Respond(w, http.StatusConflict, err.Error())
			return
		}
		s.Log.Info("a claim was taken back", "by", control.Caller(r))
		control.Respond(w, http.StatusOK, "forgotten")
	})
	(&placeHandlers{s}).handle(mux)
	puts := &putter{server: s, bucket: s.shared}
	puts.handle(mux)
	if puts.kept() != nil {
		if err := puts.begin(); err != nil {
			return err
		}
	}
	if puts.kept() != nil && puts.bucket != nil {
		running.Go(func() { puts.follow(ctx) })
	}
	c := &controller{at: s.Place, policy: s.reloader.status, audit: s.audit, console: s.console}
	c.handleConsole(mux)
	if s.console != nil {
		running.Go(func() { runFleetConsole(ctx, s, c) })
	}
	l, err := control.Listen(ctx, s.State, mux, s.Log)
	if err != nil {
		s.Log.Warn("`belljar fleet` will not see this front", "err", err)
		return nil
	}
	s.opened.Do(func() { l.Close(ctx) })
	return nil
}

// ServeRoutes serves clients and workers until ctx ends, and then waits for running
// requests. It calls ready with the addresses for clients and for workers.
func ServeRoutes(ctx context.Context, s *Server, ready func(url, link string)) error {
	var listening net.ListenConfig
	links, err := listening.Listen(ctx, "tcp", s.cfg.Service.Routes.Addr)
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	defer links.Close()
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := s.fleet.Serve(serving, links); err != nil {
			s.Log.Error("workers can no longer connect", "err", err)
		}
	})
	defer s.fleet.Close()
	defer links.Close()
	route := mcp.Login(mcp.Config{Gate: s.gate, Tenant: s.Tenant, HTTP: mcp.HTTP{Auth: s.gate, Guarded: true}}, func(rw http.ResponseWriter, r *http.Request, caller mcp.Identity) {
		route(s, rw, r, caller)
	})
	s.front.Handle("/mcp", inPlace(route))
	s.front.Handle("/w/{place}/mcp", inPlace(route))
	s.front.Handle(auth.MetadataPath, s.login)
	s.front.Handle(auth.MetadataPath+"/", s.login)
	s.front.Handle(auth.MetadataPath+pathOf("{place}"), inPlace(s.login))
	url := s.front.URL() + "/mcp"
	s.login.SetResource(url)
	s.Log.Info("clients and workers can connect", append([]any{"url", url, "link", links.Addr().String()}, s.monitor.where()...)...)
	ready(url, links.Addr().String())
	return s.front.Serve(ctx, func() error {
		s.monitor.drains("the front stops, and answers its open requests")
		patience, cancel := context.WithTimeout(serving, drain)
		defer cancel()
		s.fleet.Drain(patience)
		// Before the connections of clients are closed, since their end would cancel
		// running requests.
		s.fleet.Close()
		return nil
	})
}

// route sends a request of an authenticated caller to the worker of its place.
func route(s *Server, rw http.ResponseWriter, r *http.Request, caller mcp.Identity) {
	name := r.PathValue("place")
	if !s.places.layout.Load().names(caller.Tenant, name) {
		mcp.NoPlace(rw)
		return
	}
	ctx := r.Context()
	s.fleet.ServeRequest(rw, r, fleet.Request{
		Tenant: caller.Tenant, Place: placeID(caller.Tenant, name), Caller: passportOf(caller),
		Valid: func() bool {
			return (caller.Expires.IsZero() || time.Now().Before(caller.Expires)) && s.gate.Holds(caller) && s.places.layout.Load().names(caller.Tenant, name)
		},
		Hijacked: func() func(int64) { return mcp.Hijacked(ctx) },
	})
}

// messages implements what a front needs of the protocol.
type messages struct{}

// Read returns the message in a request.
func (messages) Read(h http.Header, body []byte) fleet.Message {
	f := mcp.ReadForwarded(h, body)
	return fleet.Message{ID: f.ID, Method: f.Method, Tool: f.Tool, Modern: f.Era == wire.Modern, Lasts: f.Lasts}
}

func forwarded(m fleet.Message) mcp.Forwarded {
	f := mcp.Forwarded{ID: m.ID, Method: m.Method, Tool: m.Tool, Lasts: m.Lasts}
	if m.Modern {
		f.Era = wire.Modern
	}
	return f
}

// Answers reports whether an event is the answer to a message.
func (messages) Answers(event []byte, m fleet.Message) bool { return forwarded(m).AnsweredBy(event) }

// workerLost is the answer to a call whose worker was lost while the call ran.
const workerLost = "The machine that ran this call is gone, and what it had done is not known (ran: unknown). Look before you run it again: for example list the files that it was to change. The files of the workspace are kept; running processes and background tasks of this place are gone. When the machine is back, ListBgTasks shows what became of tasks."

// Lost returns the answer to a message whose worker is gone.
func (messages) Lost(m fleet.Message) []byte {
	data := map[string]any{"reason": "worker_lost", "ran": "unknown"}
	return forwarded(m).Lost(workerLost, data, "belljar", buildinfo.Version())
}
