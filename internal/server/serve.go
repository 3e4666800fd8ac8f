package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// drain is how long running requests may take to end once the server stops (W12);
// linger is how long the connections may take after that.
const (
	drain  = 30 * time.Second
	linger = 2 * time.Second
)

// begin says that a server starts, and at its end that it stops.
func (s *Server) begin(context.Context) error {
	if s.cfg.Service == nil {
		return nil
	}
	transport := "stdio"
	if s.cfg.Service.HTTP {
		transport = "http"
	}
	s.started = true
	s.Log.Info("the server starts", "version", buildinfo.Version(), "pid", os.Getpid(), "transport", transport, "workspace", s.Workspace, "policy", s.PolicyName, "hash", s.Policy.Hash(), "state", s.State)
	s.audit.server("start", transport, s.Place)
	s.opened.Do(func() { s.audit.server("stop", transport, s.Place) })
	return nil
}

// run starts what goes on while calls are answered: callbacks and skills, and in a
// server that stays, the reloader and the answers to other commands.
func (s *Server) run(ctx context.Context) error {
	if s.mcp == nil {
		return nil
	}
	if s.cfg.Service != nil {
		if err := s.books.jobs.Settle(ctx); err != nil {
			s.Log.Error("what an earlier server has left is not known", "err", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	s.opened.Do(func() {
		cancel()
		running.Wait()
	})
	if s.flow.around != nil {
		running.Go(func() { s.flow.run(ctx, s.mcp) })
	}
	if s.cfg.Service == nil {
		return nil
	}
	operations := &operations{s.mcp, s.operator, s.audit, s.Log}
	s.reloader = newReloader(s.gate, s.Place, s.audit, s.cfg.http())
	s.reloader.changed = func(p *policies.Policy) {
		s.mcp.Reloaded()
		operations.endGone(p, s.cfg.http())
		// Boxes that are open get the egress that their profiles have now.
		s.sandbox.Regrant(ctx, p)
	}
	running.Go(func() { s.reloader.run(ctx, s.cfg.Service.Watch) })
	if s.cfg.http() {
		running.Go(func() { s.gate.login.Follow(ctx, operations.tokensChanged) })
	}
	c := &controller{s.Place, s.reloader.status, s.audit, s.sandbox, operations, s.approver}
	if end := c.listen(ctx); end != nil {
		s.opened.Do(end)
	}
	return nil
}

// Reload has a server that stays read its policy again, and does not wait for that.
func (s *Server) Reload() { s.reloader.ask() }

// prepareAfter is how long a client may take to be answered first, before what boxes need
// is made beside it. A call that needs a box sooner makes it.
const prepareAfter = 50 * time.Millisecond

// preparing makes what boxes need, while the caller serves: the first answer does not
// wait for it. The context ends if that fails. The caller waits for the error, which
// says why no box can be made.
func preparing(ctx context.Context, s *sandbox.Supervisor) (_ context.Context, wait func() error) {
	ctx, cancel := context.WithCancel(ctx)
	prepared := make(chan error, 1)
	go func() {
		answered := time.NewTimer(prepareAfter)
		defer answered.Stop()
		select {
		case <-ctx.Done():
			prepared <- nil
			return
		case <-answered.C:
		}
		err := prepare(s)
		if err != nil {
			cancel()
		}
		prepared <- err
	}()
	return ctx, func() error {
		cancel()
		return <-prepared
	}
}

// ServeStdio serves one client until the end of input or of ctx.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, prepared := preparing(ctx, s.sandbox)
	defer func() { err = cmp.Or(prepared(), err) }()
	err = s.mcp.ServeStdio(ctx, io.NopCloser(in), out)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // the client has gone, which is how it ends a session
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("serve stdio: %w", err)
	}
	return nil
}

// Listen opens a port that only this machine reaches.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want HOST:PORT, for example 127.0.0.1:8930", addr)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listen on %q: not a loopback address, so others could run commands here; use 127.0.0.1:%s, and a tunnel such as ssh -L to reach it from elsewhere", addr, port)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is in use; end the program that listens there, or choose another port with --http", addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// Serve serves clients over HTTP until the end of ctx, and then waits for requests that
// run. It calls ready with the address once clients can connect.
func (s *Server) Serve(ctx context.Context, listener net.Listener, ready func(url string)) (err error) {
	ctx, prepared := preparing(ctx, s.sandbox)
	defer func() { err = cmp.Or(prepared(), err) }()
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.mcp.Handler())
	front := &http.Server{
		Handler: mux,
		// A client that dribbles its header holds a connection for so long. The handler
		// bounds bodies and answers in time, since a call may take longer than either.
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	url := "http://" + listener.Addr().String() + "/mcp"
	s.Log.Info("clients can connect", "url", url)
	ready(url)

	ended := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { ended <- front.Serve(listener) })
	defer serving.Wait()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", url, err)
	case <-ctx.Done():
	}
	// The server drains first: its open streams would keep the listener's
	// Shutdown waiting.
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err = s.mcp.Shutdown(patience)
	patience, cancel = context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if front.Shutdown(patience) != nil {
		front.Close()
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop %s: %w", url, err)
	}
	return nil
}
