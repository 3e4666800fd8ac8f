package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	hooks "belljar.dev/hook"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// boxRunner runs each hook in a box of its own, of the profile that the session's
// box has. To the policy a hook is what the agent's Bash would run.
type boxRunner struct{ works *works }

// Run runs a hook.
func (b *boxRunner) Run(ctx context.Context, c hooks.Command) (code int, err error) {
	w, started := b.works, time.Now()
	// Without what the event says: that is the agent's, and no command.
	facts := policies.Facts{Tenant: c.Tenant, Session: c.Session, Tool: "Bash", Profile: b.profile(c.Session), Now: started}
	facts.Command = c.Script
	if c.Argv[0] != "bash" && c.Argv[0] != "sh" {
		facts.Command = quote(c.Argv[:len(c.Argv)-hookArguments])
	}
	facts.Args = map[string]any{"command": facts.Command}
	if facts.Tenant == "" {
		facts.Tenant = w.tenant
	}
	d, id, err := w.decide(ctx, facts)
	switch {
	case err != nil:
		return 0, err
	case d.Verdict != policies.Allow:
		return 0, fmt.Errorf("the policy does not let it run (rule %s): %s", d.Rule, d.Reason)
	}
	grant := d.Grant
	if grant.Workspace() == policies.AccessOverlay {
		// What a hook wrote would lie in a layer of its own, where nobody looks.
		if grant, err = grant.Narrow(policies.AccessRead); err != nil {
			return 0, err
		}
	}
	var result sandbox.Result
	defer func() { w.audit.ran(id, d, result, err, time.Since(started)) }()
	box, err := w.sandbox.Open(ctx, "hook-"+rand.Text(), grant)
	if err != nil {
		return 0, err
	}
	defer box.Close()
	result, err = box.Run(ctx, sandbox.Cmd{
		Grant: grant, Argv: c.Argv, Env: c.Env, Stdin: c.Stdin, Timeout: min(c.Timeout, grant.Limits().Wall), Out: c.Out, Err: c.Err,
	})
	switch {
	case err != nil:
		return 0, err
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case result.Status == sandbox.TimedOut:
		return 0, context.DeadlineExceeded
	case result.Status != sandbox.Exited:
		return 0, errors.New("it was stopped: " + result.Status.String())
	}
	return result.Code, nil
}

// hookArguments is how many arguments of a hook are the event's.
const hookArguments = 4

// profile is that of a session's box; empty where it has none.
func (b *boxRunner) profile(session string) string {
	if session == "" {
		return ""
	}
	for _, box := range b.works.sandbox.Boxes() {
		if shortID(box.ID()) == session {
			return box.Grant().Profile()
		}
	}
	return ""
}
