package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"belljar.dev/internal/front"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/server"
	"belljar.dev/policies"
)

// setup contains the flags shared by the commands that open a server.
type setup struct {
	server.Config
	mode workspaceMode
	logs logging // flags for the log of a server; other commands log warnings
}

func (s *setup) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.Workspace, "workspace", ".", "`directory` the boxes see as /workspace")
	c.Flags().StringVar(&s.State, "state", "", "`directory` for what outlives the program (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&s.Policy, "policy", "", "policy `file`, or a bundled one by its name, which \"belljar policy list\" prints (default: $XDG_CONFIG_HOME/belljar/policy.yaml, else the built-in default)")
	hostEnvFlag(c, &s.HostEnv)
}

// hostEnvFlag adds the flag --host-env.
func hostEnvFlag(c *cobra.Command, names *[]string) {
	c.Flags().StringArrayVar(names, "host-env", nil, "`name` of a variable that programs outside boxes (commands of secrets, trusted hooks) get too; may be repeated")
}

// tenantFlag adds the flag --tenant.
func (s *setup) tenantFlag(c *cobra.Command) {
	c.Flags().StringVar(&s.Tenant, "tenant", policies.LocalTenant, "whose calls these are: a tenant of the policy, by `NAME`, or local")
}

// callsFlag adds the flag --checkpoint-calls.
func (s *setup) callsFlag(c *cobra.Command) {
	c.Flags().BoolVar(&s.Checkpoints, "checkpoint-calls", false, "with an overlay workspace, make a checkpoint after each command that changed it, named call-1, call-2 and so on; belljar workspace rollback returns to one")
}

// open opens the server that the flags describe. The caller must close it.
func (s *setup) open(ctx context.Context, errs io.Writer) (*server.Server, error) {
	cfg := s.Config
	cfg.Mode = server.Mode(s.mode)
	var err error
	if cfg.Log, err = s.logs.logger(errs, cfg.Service != nil && (cfg.Service.HTTP != nil || cfg.Service.Link != nil)); err != nil {
		return nil, err
	}
	for _, name := range cfg.HostEnv {
		if err := hostexec.CheckPass(name); err != nil {
			return nil, usage("--host-env: %w", err)
		}
	}
	opened, err := server.Open(ctx, cfg)
	if _, mistake := errors.AsType[*front.ConfigError](err); mistake {
		return nil, &statusError{code: exitUsage, err: err}
	}
	if err != nil {
		return nil, failure(err)
	}
	return opened, nil
}
