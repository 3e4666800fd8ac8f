package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"belljar.dev/internal/front"
	"belljar.dev/internal/server"
)

// serveName is the name of the command that keeps an audit log by default.
const serveName = "serve"

// serveOptions contains the flags of `serve`.
type serveOptions struct {
	setup

	http     front.Config
	webhook  webhookFlags
	announce bool
	places   placeFlag
}

func serveCommand() *cobra.Command {
	s := serveOptions{setup: setup{Config: server.Config{
		Command: serveName, Tools: &server.Tools{Suite: suite()}, Hooks: &server.Hooks{}, Callbacks: &server.Callbacks{}, Trace: true,
		Service: &server.Service{},
	}}}
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve the tools to an MCP client",
		Long: `serve speaks MCP on standard input and output, as an MCP client starts it; it
opens no port. With --http it serves Streamable HTTP at /mcp instead, with a
session for each connection, and at /w/NAME/mcp for each --place. On an address
that other machines can reach, it needs TLS (--tls-cert and --tls-key) or
a proxy with TLS before it (--behind-proxy), and a policy that names tenants;
docs/front.md says more.

Standard output is the wire; all else goes to standard error. At the end of
input, SIGINT or SIGTERM it takes no more requests, waits up to 30 seconds for
those that run, and closes every box. A second after a file of the policy was
changed, and at SIGHUP, it reads the policy again: a policy with faults is logged
and changes nothing. When its terminal is closed it ends as by SIGTERM. If the
policy names tenants, clients over HTTP need a token of one of them. The files
of a certificate are read again in the same way. At SIGUSR2 a server over HTTP
starts a new process, and hands its clients over to it. Each call is written to
the audit log, unless the policy says audit: {level: none}; see "belljar help
audit".

Standard error has a log: what needs a person is a warning or an error; with
--log-level info, which is the default with --http, the log says also when the
server starts, can be connected to, reads the policy again and stops.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c) },
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	s.webhook.flags(c)
	c.Flags().BoolVar(&s.announce, "announce", true, "say on standard error, once, that a question waits for a person")
	hookFlags(c, s.Hooks)
	c.Flags().StringVar(&s.Callbacks.Inbox, "inbox", "", "`directory` that gets a file for each message of a callback")
	s.logs.flags(c)
	c.Flags().BoolVar(&s.Service.Watch, "watch", true, "read the policy again when its files change, and not only at SIGHUP")
	c.Flags().BoolVar(&s.Tools.TrustClients, "trust-client", false, "accept a client's answer that comes sooner than a person can read the question")
	c.Flags().BoolVar(&s.Tools.Structured, "structured", false, "give structured results and output schemas to every client, in addition to the texts")
	c.Flags().BoolVar(&s.Tools.Toolkit, "toolkit", false, "add the tools that analyze code and those for templates of project files")
	c.Flags().StringArrayVar(&s.Upstreams, "upstreams", nil, "`file` that names other MCP servers whose tools clients get, in the form that any MCP client uses")
	httpFlags(c, &s.http, &s.places, &s.Service.Transports)
	adminFlag(c, &s.Service.Admin)
	consoleFlags(c, s.Service)
	return c
}

// run opens the server, serves its clients, and closes it.
func (s *serveOptions) run(c *cobra.Command) error {
	ctx, cancel := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// until the process has ended, so that no second signal cuts the closing short
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	// unlike cancel, it does not restore the default effect of the signals
	ctx, end := context.WithCancel(ctx)
	defer end()
	hup := make(chan os.Signal, 1) // one waiting signal counts for all that arrive meanwhile
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	usr2 := make(chan os.Signal, 1) // the same for SIGUSR2
	signal.Notify(usr2, syscall.SIGUSR2)
	defer signal.Stop(usr2)
	var err error
	if s.Service.Webhook, err = s.webhook.webhook(); err != nil {
		return err
	}
	if s.announce {
		s.Service.Announce = c.ErrOrStderr()
	}
	if err := withHTTP(c); err != nil {
		return err
	}
	if s.Service.Inherited, err = front.Inherit(os.Getenv, os.Unsetenv); err != nil {
		return failure(err)
	}
	defer s.Service.Inherited.Close()
	env := os.Environ()
	if c.Flags().Changed(httpFlag) {
		s.http.Out = c.OutOrStdout()
		s.Service.HTTP, s.Places = &s.http, s.places
	}
	for i, name := range s.Upstreams {
		if s.Upstreams[i], err = filepath.Abs(name); err != nil {
			return err
		}
	}
	srv, err := s.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer srv.Close()
	var watching sync.WaitGroup
	watching.Go(func() { hangUps(ctx, hup, srv.Reload, cancel) })
	defer watching.Wait()
	watching.Go(func() { tendMemory(ctx) })
	if s.Service.HTTP != nil {
		watching.Go(func() { handOvers(ctx, usr2, srv, env, end) })
	}
	defer end() // runs before the waits above, which need it; the signals are handled until everything is closed
	if s.Service.HTTP != nil {
		return failure(srv.ServeHTTP(ctx, func(url string) {
			if err := managerOf(os.Getenv).ready(); err != nil {
				srv.Log.Warn("the service manager was not notified that clients can connect", "err", err)
			}
			if atTerminal(c.ErrOrStderr()) {
				explainHTTP(c.ErrOrStderr(), srv, url)
				explainConsole(c.ErrOrStderr(), srv)
			}
		}))
	}
	if f, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) && atTerminal(c.ErrOrStderr()) {
		explainStdio(c.ErrOrStderr(), srv.Place)
		explainConsole(c.ErrOrStderr(), srv)
	}
	return failure(srv.ServeStdio(ctx, c.InOrStdin(), c.OutOrStdout()))
}

// hangUps calls reload at each SIGHUP until ctx ends. A process also gets SIGHUP when its
// terminal closes; then hangUps calls end.
func hangUps(ctx context.Context, hup <-chan os.Signal, reload, end func()) {
	gone := func(fd int) bool { return !term.IsTerminal(fd) }
	terminals := slices.DeleteFunc([]int{0, 1, 2}, gone) // those of the standard streams that are terminals
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		// A terminal that was closed answers every ioctl with an error.
		if slices.ContainsFunc(terminals, gone) {
			end()
			return
		}
		reload()
	}
}

// handOvers hands the clients of a server over to another process at SIGUSR2, and then ends
// the server. If that fails, the server continues.
func handOvers(ctx context.Context, usr2 <-chan os.Signal, srv *server.Server, env []string, end func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-usr2:
		}
		if err := handOver(ctx, srv, env); err != nil {
			srv.Log.Error("the server was not handed over, and continues", "err", err)
			continue
		}
		end()
		return
	}
}

// handOver starts another process of this program, and hands the clients of a server over
// to it.
func handOver(ctx context.Context, srv *server.Server, env []string) (err error) {
	if err := mayHandOver(os.Getenv); err != nil {
		return err
	}
	path := os.Args[0] // the name may be a link, which then leads to the new version
	if !filepath.IsAbs(path) {
		if path, err = os.Executable(); err != nil {
			return err
		}
	}
	next, err := server.HandOver(ctx, srv, path, os.Args, env)
	if err != nil {
		return err
	}
	if err := managerOf(os.Getenv).follows(next); err != nil {
		srv.Log.Error("the service manager was not notified of the successor", "err", err)
	}
	return nil
}

// explainStdio explains to a person at a terminal what this program is and how a client is
// configured to start it.
func explainStdio(errs io.Writer, at server.Place) {
	self, err := os.Executable()
	if err != nil {
		self = "belljar"
	}
	fmt.Fprintf(errs, `belljar waits for an MCP client on standard input; a person has nothing to type
here (Ctrl-C or Ctrl-D ends it). Workspace: %s. Policy: %s.

Put this into the configuration of your client, which will start belljar:

%s
`, at.Workspace, at.PolicyName, clientConfig(map[string]any{
		"command": self,
		"args":    []string{"serve", "--workspace", at.Workspace},
	}))
}

// explainHTTP prints the address of the server and the configuration of a client.
func explainHTTP(errs io.Writer, srv *server.Server, url string) {
	client := map[string]any{"type": "http", "url": url}
	if len(srv.Policy.Tenants()) > 0 {
		client["headers"] = map[string]string{"Authorization": "Bearer TOKEN"}
	}
	fmt.Fprintf(errs, `belljar serves MCP at %s (Ctrl-C ends it).
Workspace: %s. Policy: %s.

Put this into the configuration of your client:

%s
`, url, srv.Workspace, srv.PolicyName, clientConfig(client))
}

// explainConsole prints the link to the console of a server, if it has one.
func explainConsole(errs io.Writer, srv *server.Server) {
	if link := srv.ConsoleLink(); link != "" {
		fmt.Fprintf(errs, "\nConsole, for one login within a minute: %s\nLater `belljar console` prints another link.\n", link)
	}
}

// clientConfig returns the JSON object that most clients read, with one server in it.
func clientConfig(entry map[string]any) string {
	text, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"belljar": entry}}, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}
