package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
)

// maxDrain is the longest that a worker waits for running calls.
const maxDrain = 10 * time.Minute

// workOptions are the flags of `work`.
type workOptions struct {
	setup

	link server.Link
}

func workCommand() *cobra.Command {
	o := workOptions{}
	o.Command = "work"
	o.Tools, o.Hooks, o.Callbacks, o.Trace = &server.Tools{Suite: suite()}, &server.Hooks{}, &server.Callbacks{}, true
	o.Service = &server.Service{Link: &o.link}
	c := &cobra.Command{
		Use:   "work",
		Short: "run a worker of a fleet",
		Long: `work connects to the fronts of a fleet ("belljar front") and serves the places that
it has: it decides by its policy, opens the boxes and writes the audit log. It
opens no port. Everything that it keeps is below --places; whoever has that
directory is the worker. docs/fleet.md says how to set up a fleet.

  belljar fleet cert pki w1 --worker
  belljar work --name w1 --front https://front.example:8444 --places /srv/places --link-cert pki/w1.pem --link-key pki/w1-key.pem --link-ca pki/ca.pem --policy policy.yaml

At SIGINT or SIGTERM it takes no more requests: its fronts keep them for the next
process of this worker. It waits up to --drain for running calls. A command that
still runs becomes a background task, and is lost with the process.
At SIGHUP, and a second after its files were changed, it reads the policy again.
` + exitHelp,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	c.Flags().StringArrayVar(&o.link.Fronts, "front", nil, "`URL` of a front's --link, such as https://front.example:8444; may be repeated")
	c.Flags().StringVar(&o.link.Places, "places", "", "`directory` for the places of this worker, and all else that it keeps")
	c.Flags().StringVar(&o.link.Name, "name", "", "`name` of the worker (default: the first label of this host's name)")
	c.Flags().DurationVar(&o.link.Drain, "drain", 30*time.Second, "how long running calls have to end once the worker stops, at most 10m")
	linkFlags(c, &o.link.Credentials)
	c.Flags().StringVar(&o.Policy, "policy", "", "policy `file`, the same at all workers (default: $XDG_CONFIG_HOME/belljar/policy.yaml)")
	hostEnvFlag(c, &o.HostEnv)
	hookFlags(c, o.Hooks)
	c.Flags().BoolVar(&o.Service.Watch, "watch", true, "read the policy again when its files change, and not only at SIGHUP")
	c.Flags().BoolVar(&o.Tools.Structured, "structured", false, "give structured results and output schemas to every client, in addition to the texts")
	c.Flags().BoolVar(&o.Tools.Toolkit, "toolkit", false, "add the tools that analyze code and those for templates of project files")
	c.Flags().StringArrayVar(&o.Upstreams, "upstreams", nil, "`file` that names other MCP servers whose tools clients get, in the form that any MCP client uses")
	c.Flags().BoolVar(&o.link.Console, "console", false, "let people see this worker, and decide about its calls, at the consoles of its fronts")
	c.Flags().BoolVar(&o.link.FleetPolicy, fleetPolicyName, false, "take the policy that the fronts give: their operator then decides what this worker allows")
	adminFlag(c, &o.Service.Admin)
	o.logs.flags(c)
	return c
}

// run opens the worker, lets it serve, and closes it.
func (o *workOptions) run(c *cobra.Command) (err error) {
	switch {
	case o.link.Places == "":
		return usage("work: --places is missing: name the directory that this worker keeps its places in")
	case len(o.link.Fronts) == 0:
		return usage("work: --front is missing: name the address of --link of each front, such as https://front.example:8444")
	case o.link.Drain < 0 || o.link.Drain > maxDrain:
		return usage("work: --drain: want a time between 0s and 10m")
	}
	if o.link.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return failure(err)
		}
		o.link.Name, _, _ = strings.Cut(host, ".")
	}
	for i, name := range o.Upstreams {
		if o.Upstreams[i], err = filepath.Abs(name); err != nil {
			return failure(err)
		}
	}
	return serveUntil(c, &o.setup, func(ctx context.Context, s *server.Server) error { return server.Work(ctx, s, func() { started(s) }) })
}
