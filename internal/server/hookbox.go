package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/hooks"
	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// boxRunner runs each hook in its own box, with the profile of the session's box. To the
// policy, a hook is a command of the agent's Bash.
type boxRunner struct{ place *place }

// Run runs a hook.
func (b *boxRunner) Run(ctx context.Context, c hooks.Command) (code int, err error) {
	p, s, started := b.place, b.place.server, time.Now()
	// The facts do not contain the data of the event, which come from the agent and are not
	// a command.
	facts := policies.Facts{Tenant: c.Tenant, Session: c.Session, Tool: "Bash", Profile: b.profile(c.Session), Now: started}
	facts.Command = c.Script
	if c.Argv[0] != "bash" && c.Argv[0] != "sh" {
		facts.Command = config.Quote(c.Argv[:len(c.Argv)-hookArguments])
	}
	facts.Args = map[string]any{"command": facts.Command}
	if facts.Tenant == "" {
		facts.Tenant = p.Tenant
	}
	d, id, err := p.decide(ctx, facts)
	switch {
	case err != nil:
		return 0, err
	case d.Verdict != policies.Allow:
		return 0, fmt.Errorf("the policy does not let it run (rule %s): %s", d.Rule, d.Reason)
	}
	grant := d.Grant
	if grant.Workspace() > policies.AccessRead {
		// A hook only reads the workspace. Nobody would see what it wrote into its overlay.
		if grant, err = grant.Narrow(policies.AccessRead); err != nil {
			return 0, err
		}
	}
	var result sandbox.Result
	defer func() { s.audit.ran(id, d, result, err, time.Since(started)) }()
	box, err := p.boxes.Open(ctx, "hook-"+rand.Text(), grant)
	if err != nil {
		return 0, err
	}
	defer box.Close()
	env, err := b.environ(box.Environ(), grant, c)
	if err != nil {
		return 0, err
	}
	limit := grant.Limits().Wall
	result, err = box.Run(ctx, sandbox.Cmd{
		Grant: grant, Argv: c.Argv, Dir: hookDir, Environ: env, Stdin: c.Stdin, Timeout: min(c.Timeout, limit), Out: c.Out, Err: c.Err,
	})
	switch {
	case err != nil:
		return 0, err
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case result.Status == sandbox.TimedOut && limit < c.Timeout:
		return 0, fmt.Errorf("it did not end within %s, the time limit of its profile, and was stopped", limit)
	case result.Status == sandbox.TimedOut:
		return 0, context.DeadlineExceeded
	case result.Status != sandbox.Exited:
		return 0, errors.New("it was stopped: " + result.Status.String())
	}
	return result.Code, nil
}

// hookDir is the working directory of a hook in its box. It is not /workspace: an interpreter
// takes modules from its working directory, and the agent could have put a module there that
// answers instead of the hook.
const hookDir = "/tmp"

// environ returns the environment of a hook: the variables of its box's commands, without
// those that name a place that an agent can write. For commands, a profile may have put the
// workspace's own programs and modules first (PATH, PYTHONPATH, HOME).
func (b *boxRunner) environ(boxed []string, grant policies.Grant, c hooks.Command) ([]string, error) {
	dirs, workspace := []string{sandbox.WorkspaceDir}, ""
	if grant.Workspace() != policies.AccessNone {
		workspace = sandbox.WorkspaceDir
	}
	outside := b.place.server.host.boxes()
	for _, m := range grant.Mounts() {
		if m.Writable || outside.Check(m.Source) != nil {
			dirs = append(dirs, m.Target)
		}
	}
	written := hostexec.WrittenInside(dirs...)
	boxed = slices.DeleteFunc(boxed, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return written.CheckVariable(name, value, hookDir) != nil
	})
	env, err := written.Environ(boxed, nil, hookDir)
	if err != nil {
		return nil, fmt.Errorf("the environment of its box: %w", err)
	}
	return append(env, c.Environ(workspace)...), nil
}

// hookArguments is the number of a hook's arguments that come from the event.
const hookArguments = 4

// profile returns the profile of a session's box; empty if the session has no box.
func (b *boxRunner) profile(session string) string {
	if session == "" {
		return ""
	}
	for _, box := range b.place.boxes.Boxes() {
		if control.ShortID(box.ID()) == session {
			return box.Grant().Profile()
		}
	}
	return ""
}
