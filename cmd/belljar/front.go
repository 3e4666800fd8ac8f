package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/front"
	"belljar.dev/internal/server"
)

// linkFlags adds the flags for the files with which the ends of a link authenticate each
// other.
func linkFlags(c *cobra.Command, files *fleet.Credentials) {
	c.Flags().StringVar(&files.Cert, "link-cert", "", "PEM `file` with the certificate of this end of the link; it is read again when it changes")
	c.Flags().StringVar(&files.Key, "link-key", "", "PEM `file` with the key of that certificate")
	c.Flags().StringVar(&files.CA, "link-ca", "", "PEM `file` with the authority of the fleet, which \"belljar fleet init\" makes")
}

// frontOptions contains the flags of `front`.
type frontOptions struct {
	setup

	http   front.Config
	routes server.Routes
}

func frontCommand() *cobra.Command {
	o := frontOptions{}
	o.Command = "front"
	o.Service = &server.Service{HTTP: &o.http, Routes: &o.routes}
	c := &cobra.Command{
		Use:   "front",
		Short: "serve clients with the workers of a fleet",
		Long: `front takes the requests of MCP clients, as "belljar serve --http" does, and sends
each to the worker that has its place. It opens no box and has no workspace.
Workers connect to --link ("belljar work") and show certificates of the fleet.
The policy must name tenants; clients log in with their tokens. docs/fleet.md
says how to set up a fleet.

  belljar fleet init pki
  belljar fleet cert pki front --front front.example
  belljar front --listen :8443 --tls-cert cert.pem --tls-key key.pem --link :8444 --link-cert pki/front.pem --link-key pki/front-key.pem --link-ca pki/ca.pem --policy policy.yaml --state /var/lib/belljar

At SIGINT or SIGTERM it takes no more requests and waits up to 30 seconds for
those that run. What still runs then continues at its worker as a background task.
At SIGHUP, and a second after its files were changed, it reads the policy again.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	c.Flags().StringVar(&o.http.Addr, "listen", "", "serve clients on this `address`, such as 0.0.0.0:8443")
	listenFlags(c.Flags(), &o.http)
	c.Flags().StringVar(&o.routes.Addr, "link", "", "`address` to which workers connect, such as 0.0.0.0:8444")
	linkFlags(c, &o.routes.Credentials)
	c.Flags().StringSliceVar(&o.routes.Workers, "workers", nil, "`names` of all workers, with commas between them: the name of a new place decides which of them gets it; several fronts without --nats need the same list")
	c.Flags().StringSliceVar(&o.routes.NATS.Servers, "nats", nil, "`URLs` of the servers of NATS by which several fronts agree on new places, with commas between them, such as tls://nats.example:4222")
	c.Flags().StringVar(&o.routes.NATS.Credentials, "nats-creds", "", "`file` with the credentials for NATS: a .creds file, the seed of an nkey, or USER:PASSWORD")
	c.Flags().StringVar(&o.routes.NATS.CA, "nats-ca", "", "PEM `file` with the authority of the servers of NATS (default: those of the system)")
	c.Flags().StringVar(&o.Policy, "policy", "", "policy `file`, which names the tenants (default: $XDG_CONFIG_HOME/belljar/policy.yaml)")
	c.Flags().StringVar(&o.State, "state", "", "`directory` for tokens, the log and what is known of places (default: $XDG_STATE_HOME/belljar)")
	c.Flags().BoolVar(&o.Service.Watch, "watch", true, "read the policy again when its files change, and not only at SIGHUP")
	c.Flags().BoolVar(&o.routes.FleetPolicy, fleetPolicyName, false, "give the workers one policy by \"belljar fleet policy put\", here or, with --nats, at another front")
	adminFlag(c, &o.Service.Admin)
	consoleFlags(c, o.Service)
	o.logs.flags(c)
	return c
}

// run opens the front, serves, and closes it.
func (o *frontOptions) run(c *cobra.Command) error {
	if o.http.Addr == "" || o.routes.Addr == "" {
		return usage("front: --listen and --link go together: clients connect to the one, and workers to the other")
	}
	o.http.Forwards = true
	if n := o.routes.NATS; len(n.Servers) == 0 && (n.Credentials != "" || n.CA != "") {
		return usage("front: --nats-creds and --nats-ca are for --nats, which is missing")
	}
	o.http.Out, o.http.Manner.Flag = c.OutOrStdout(), "--listen"
	return serveUntil(c, &o.setup, func(ctx context.Context, s *server.Server) error {
		return server.ServeRoutes(ctx, s, func(url, link string) {
			started(s)
			if atTerminal(c.ErrOrStderr()) {
				fmt.Fprintf(c.ErrOrStderr(), "belljar serves MCP at %s for workers that connect to %s (Ctrl-C ends it).\n", url, link)
			}
		})
	})
}

// started notifies the service manager that the server can be used.
func started(s *server.Server) {
	if err := managerOf(os.Getenv).ready(); err != nil {
		s.Log.Error("the service manager was not notified that the server is ready", "err", err)
	}
}

// serveUntil opens a server, and serves until a signal ends it.
func serveUntil(c *cobra.Command, o *setup, serve func(context.Context, *server.Server) error) error {
	ctx, cancel := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// until the process has ended, so that no second signal cuts the closing short
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM)
	// one waiting signal counts for all that arrive meanwhile
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	ctx, end := context.WithCancel(ctx)
	defer end()
	s, err := o.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.Close()
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() { hangUps(ctx, hup, s.Reload, end) })
	watching.Go(func() { tendMemory(ctx) })
	return failure(serve(ctx, s))
}
