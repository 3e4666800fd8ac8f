package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/console"
	"belljar.dev/internal/front"
	"belljar.dev/internal/people/approval"
	"belljar.dev/mcp"
)

// drain is the time in which running requests may end once the server stops.
const drain = 30 * time.Second

// begin logs that a server starts, and when it is closed, that it stops.
func (s *Server) begin(context.Context) error {
	if s.cfg.Service == nil {
		return nil
	}
	transport := "stdio"
	switch {
	case s.cfg.linked():
		transport = "link"
	case s.cfg.http():
		transport = "http"
	}
	s.started = true
	s.Log.Info("the server starts", "version", buildinfo.Version(), "pid", os.Getpid(), "transport", transport, "workspace", s.Workspace, "policy", s.PolicyName, "hash", s.Policy.Hash(), "state", s.State)
	s.audit.server("start", transport, s.Place)
	s.opened.Do(func() { s.audit.server("stop", transport, s.Place) })
	return nil
}

// begin opens the webhook and the announcements of a server, after the desks for the
// answers are open.
func (w *ways) begin(ctx context.Context, s *Server) error {
	if w == nil {
		return nil
	}
	if s.cfg.Service.Webhook != nil {
		hook, err := openWebhook(ctx, *s.cfg.Service.Webhook, w, s.cfg.Service.Inherited, s.host.boxes(), s.Log)
		if err != nil {
			return err
		}
		w.hook = hook
		s.opened.Do(hook.close)
	}
	if s.cfg.Service.Announce != nil {
		s.opened.Do(announce(w, s.cfg.Service.Announce).close)
	}
	return nil
}

// run starts the background work of a server that keeps running: the reloader and the
// answers to other commands, and over HTTP the places other than that of --workspace.
func (s *Server) run(ctx context.Context) error {
	if s.home.mcp == nil || s.cfg.Service == nil {
		return nil
	}
	ctx, lasting, running := lifetime(ctx, &s.opened)
	operations := s.places.operations()
	s.reloader = newReloader(s.gate, s.Place, s.places, s.audit, s.cfg.Service.HTTP)
	s.reloader.console = consoleFiles(s.cfg.Service)
	s.reloader.changed = func(l *layout) {
		for _, p := range s.places.all() {
			p.hold(ctx)
		}
		operations.endGone(l, s.cfg.tenanted())
		running.Go(func() { s.places.openAll(ctx) })
	}
	running.Go(func() { s.reloader.run(ctx, s.cfg.Service.Watch) })
	running.Go(func() { s.places.openAll(ctx) })
	if s.cfg.http() {
		running.Go(func() { s.login.Follow(ctx, operations.tokensChanged) })
	}
	running.Go(func() { s.cfg.Service.Inherited.Follow(ctx) })
	if s.monitor != nil { // the monitor also runs while the server drains
		running.Go(func() { s.monitor.run(lasting, s) })
	}
	c := &controller{s.Place, s.reloader.status, s.audit, s.sandbox, operations, s.ways, &quotas{s.places, s.sandbox}, &agentBrowsers{s.reading.seats, s.audit, s.Log}, s.console}
	if s.console != nil {
		s.ways.open(console.Via)
		s.ways.tell(func(approval.Event) { s.console.Look() })
		running.Go(func() { runConsole(ctx, s, c) })
	}
	part, err := openPart(ctx, s, c)
	if err != nil {
		return err
	}
	running.Go(part)
	if end := c.listen(ctx); end != nil {
		s.opened.Do(end)
	}
	return nil
}

// Reload makes a running server read its policy and its certificate again. It does not wait
// for this.
func (s *Server) Reload() {
	s.reloader.ask()
	if s.front != nil {
		s.front.Reload()
	}
}

// ServeStdio serves one client until the end of input or of ctx.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, prepared := preparing(ctx, s)
	defer func() { err = cmp.Or(prepared(), err) }()
	err = s.home.mcp.ServeStdio(ctx, io.NopCloser(in), out)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // the client closed its end, which is how it ends a session
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("serve stdio: %w", err)
	}
	return nil
}

// openFront opens the port for clients over HTTP. It comes before all steps that take long,
// because an error for a port in use needs no box.
func (s *Server) openFront(ctx context.Context) (err error) {
	if !s.cfg.http() {
		return nil
	}
	cfg := *s.cfg.Service.HTTP
	cfg.Log, cfg.Inherited = s.Log, s.cfg.Service.Inherited
	if s.monitor != nil {
		cfg.Meter = s.monitor.meters
	}
	if !s.cfg.routes() { // a front of a fleet opens no box
		if err := frontFiles(&cfg, s.workspaces(), s.Policy); err != nil {
			return err
		}
	}
	if s.front, err = front.Open(ctx, cfg, s.gate.Named()); err != nil {
		return err
	}
	s.opened.Do(s.front.Close)
	return nil
}

// ServeHTTP serves clients over HTTP until ctx ends, and then waits for running requests.
// It calls ready with the address once clients can connect.
func (s *Server) ServeHTTP(ctx context.Context, ready func(url string)) (err error) {
	ctx, prepared := preparing(ctx, s)
	defer func() { err = cmp.Or(prepared(), err) }()
	if s.tracer != nil {
		s.front.OnSpan(s.tracer.requested)
	}
	places := s.places.handler(s.home)
	for _, path := range mcp.Paths {
		s.front.Handle(path, places)
		s.front.Handle("/w/{place}"+path, places)
	}
	s.front.Handle(auth.MetadataPath, s.login)
	s.front.Handle(auth.MetadataPath+"/", s.login)
	s.front.Handle(auth.MetadataPath+pathOf("{place}"), inPlace(s.login))
	url := s.front.URL() + "/mcp"
	s.login.SetResource(url)
	if in := s.cfg.Service.Inherited; in.Ended() != nil {
		if err := prepare(s); err != nil { // before Ready, after which the old server stops
			return err
		}
		if err := in.Ready(); err != nil {
			return err
		}
	}
	s.Log.Info("clients can connect", append([]any{"url", url}, s.monitor.where()...)...)
	ready(url)
	return s.front.Serve(ctx, func() error {
		s.monitor.drains("the server stops, and answers its open requests")
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		// The places drain before the connections are closed, because their open streams
		// would keep the connections open.
		if err := s.places.shutdown(patience); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("stop %s: %w", url, err)
		}
		return nil
	})
}
