package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// drain is how long running requests may take to end once the server stops (W12);
// linger is how long the connections may take after that.
const (
	drain  = 30 * time.Second
	linger = 2 * time.Second
)

// serveName is the command that keeps an audit log unasked.
const serveName = "serve"

func serveCommand() *cobra.Command {
	var (
		s        = setup{command: serveName}
		addr     string
		flow     workflow
		hooked   hooking
		announce announcing
		watch    bool
	)
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve the tools to an MCP client",
		Long: `serve speaks MCP on standard input and output, as an MCP client starts it; it
opens no port. With --http it serves Streamable HTTP at /mcp instead, on this
machine only, with a session for each connection.

Standard output is the wire; all else goes to standard error. At the end of
input, SIGINT or SIGTERM it takes no more requests, waits up to 30 seconds for
those that run, and closes every box. A second after a file of the policy was
changed, and at SIGHUP, it reads the policy again: one with faults is logged and
changes nothing. When its terminal goes away it ends as by SIGTERM. Where the
policy names tenants, clients over HTTP need a token of one of them. Each call
is written to the audit log, unless the policy says audit: {level: none}; see
"belljar help audit".

Standard error has a log: what needs a person is a warning or an error; with
--log-level info, which is the default with --http, the log says also when the
server starts, can be connected to, reads the policy again and stops.
` + exitHelp,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer cancel()
			hup := make(chan os.Signal, 1) // one that waits stands for all that came
			signal.Notify(hup, syscall.SIGHUP)
			defer signal.Stop(hup)
			var listener net.Listener
			if c.Flags().Changed("http") {
				// First of all: a port that is taken needs no box.
				l, err := listen(ctx, addr)
				if err != nil {
					return failure(err)
				}
				defer l.Close()
				listener = l
			}
			s.http = listener != nil
			w, err := s.open(ctx, c.ErrOrStderr())
			if err != nil {
				return err
			}
			transport := "stdio"
			if listener != nil {
				transport = "http"
			}
			w.log.Info("the server starts", "version", buildinfo.Version(), "pid", os.Getpid(), "transport", transport, "workspace", w.workspace, "policy", w.policyName, "hash", w.policy.Hash(), "state", w.state)
			defer func() {
				w.close()
				w.log.Info("the server has stopped", "pid", os.Getpid())
			}()
			w.audit.server("start", transport, w)
			defer w.audit.server("stop", transport, w)
			if w.tracer, err = w.openTracer(ctx, listener == nil); err != nil {
				return failure(err)
			}
			defer w.tracer.close(ctx, w.log)
			if w.approver, err = w.openApprover(); err != nil {
				return failure(err)
			}
			// A call that waits for a person then returns at once, and says that it waits.
			defer context.AfterFunc(ctx, w.approver.stop)()
			told, err := hooked.open(ctx, w.approver, w.boxes(), w.log)
			if err != nil {
				return err
			}
			defer told.close()
			said := announce.open(w.approver, c.ErrOrStderr())
			defer said.close()
			if err := w.openFlow(ctx, &flow); err != nil {
				return failure(err)
			}
			w.approver.tell(w.flow.approval)
			server, err := w.server()
			if err != nil {
				return err
			}
			if err := w.jobs.Settle(ctx); err != nil {
				w.log.Error("what an earlier server has left is not known", "err", err)
			}
			r := w.reloader(ctx, server)
			if watch {
				look := time.NewTicker(watchEvery)
				defer look.Stop()
				r.looks = look.C
			}
			var reloading sync.WaitGroup
			reloading.Go(func() { r.run(ctx, hup, cancel) })
			reloading.Go(func() { w.flow.run(ctx, server) })
			defer reloading.Wait()
			defer cancel() // first, or run would not end
			defer w.control(ctx, r.status, server)()
			collect(gcServing)
			if listener != nil {
				return failure(serveHTTP(ctx, server, w, listener, c.ErrOrStderr()))
			}
			if f, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) && atTerminal(c.ErrOrStderr()) {
				explainStdio(c.ErrOrStderr(), w)
			}
			return failure(serveStdio(ctx, server, c.InOrStdin(), c.OutOrStdout()))
		},
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	hooked.flags(c)
	announce.flags(c)
	flow.flags(c)
	s.logs.flags(c)
	c.Flags().BoolVar(&watch, "watch", true, "read the policy again when its files change, and not at SIGHUP only")
	c.Flags().BoolVar(&s.trust, "trust-client", false, "take what a client answers to a question sooner than a person can read it")
	c.Flags().BoolVar(&s.structured, "structured", false, "give structured results and output schemas to every client, beside the texts")
	c.Flags().StringVar(&addr, "http", "", "serve HTTP on this loopback `address`, such as 127.0.0.1:8930")
	return c
}

// reloader reads the policy again for the server and the boxes that are open.
func (w *works) reloader(ctx context.Context, server *mcp.Server) *reloader {
	r := &reloader{gate: w.gate, file: w.policyName, workspace: w.workspace, state: w.state, http: w.http, log: w.log, status: &policyStatus{}}
	r.status.hold(w.policyName, w.policy)
	if r.file == config.BuiltinPolicy {
		r.file = ""
	}
	r.changed = func(p *policies.Policy) {
		server.Reloaded()
		w.operations(server).endGone(p, w.http)
		// Boxes that are open get the egress that their profiles have now.
		w.sandbox.Regrant(ctx, p)
	}
	r.audit = w.audit
	return r
}

// control answers the commands that ask about this server, until the function
// that it returns is called. A server can do without.
func (w *works) control(ctx context.Context, policy *policyStatus, server *mcp.Server) func() {
	if w.state == "" {
		return func() {}
	}
	c, err := openControl(ctx, w.state, w.sandbox, policy, w.audit, w.approver, w.operations(server), w.log)
	if err != nil {
		w.log.Warn("`belljar approve`, `ports` and `ps` will not see this server", "err", err)
		return func() {}
	}
	if w.approver != nil {
		w.approver.open(wayCommand)
	}
	return func() { c.Close(ctx) }
}

// serveStdio serves until the end of input or of ctx.
func serveStdio(ctx context.Context, server *mcp.Server, in io.Reader, out io.Writer) error {
	err := server.ServeStdio(ctx, io.NopCloser(in), out)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // the client has gone, which is how it ends a session
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("serve stdio: %w", err)
	}
	return nil
}

// listen opens a port that only this machine reaches.
func listen(ctx context.Context, addr string) (net.Listener, error) {
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

// serveHTTP serves until the end of ctx.
func serveHTTP(ctx context.Context, server *mcp.Server, w *works, listener net.Listener, errs io.Writer) error {
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.Handler())
	front := &http.Server{
		Handler: mux,
		// A client that dribbles its header holds a connection for so long.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(w.log.Handler(), slog.LevelWarn),
	}
	url := "http://" + listener.Addr().String() + "/mcp"
	w.log.Info("clients can connect", "url", url)
	if atTerminal(errs) {
		explainHTTP(errs, w, url)
	}

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
	err := server.Shutdown(patience)
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

// explainStdio tells a person at a terminal what this is and how a client is
// told to start it.
func explainStdio(errs io.Writer, w *works) {
	self, err := os.Executable()
	if err != nil {
		self = "belljar"
	}
	fmt.Fprintf(errs, `belljar waits for an MCP client on standard input; a person has nothing to type
here (Ctrl-C or Ctrl-D ends it). Workspace: %s. Policy: %s.

Put this into the configuration of your client, which will start belljar:

%s
`, w.workspace, w.policyName, clientConfig(map[string]any{
		"command": self,
		"args":    []string{"serve", "--workspace", w.workspace},
	}))
}

// explainHTTP prints the address of the server and the configuration of a client.
func explainHTTP(errs io.Writer, w *works, url string) {
	client := map[string]any{"type": "http", "url": url}
	if w.gate.Named() {
		client["headers"] = map[string]string{"Authorization": "Bearer TOKEN"}
	}
	fmt.Fprintf(errs, `belljar serves MCP at %s (Ctrl-C ends it).
Workspace: %s. Policy: %s.

Put this into the configuration of your client:

%s
`, url, w.workspace, w.policyName, clientConfig(client))
}

// clientConfig is the object most clients read, with one server in it.
func clientConfig(server map[string]any) string {
	text, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"belljar": server}}, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
