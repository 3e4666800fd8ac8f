package sandbox

import (
	"context"
	"fmt"
)

// How the end of a command reaches its caller:
//
//   - One goroutine of the box (life.serve) receives the messages of the init. In the
//     first moments of a command, the goroutine that starts it may receive them instead:
//     it calls Hear of the connection and has the turn there (package initconn says
//     when, and what this saves).
//   - Whoever receives a message gives it to initProc.hear, which puts it into the
//     replies of the job that it is for.
//   - The replies of a job are read first by what starts it (Job.begun, warmShell.tell),
//     and then by Job.watch and Job.killAll. Each of these may find the end reported there.
//   - Job.finish, which Job.conclude calls, makes the Result and closes the channel for which
//     Job.Wait waits. Job.giveUp does both for a command that did not run.

// Run starts a command and waits for its end. If ctx ends first, the command and
// all processes that it started are killed, and the Result says Killed. A program
// that fails is a Result; an error means that the command did not run.
func (b *Box) Run(ctx context.Context, c Cmd) (Result, error) {
	j, err := b.Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	r, err := j.Wait(ctx)
	if err == nil {
		return r, nil
	}
	return j.Kill(0), nil
}

// Start starts a command and returns once it runs. ctx bounds only the start: a command
// that has started is returned, with its output, even if ctx has ended meanwhile. The
// error is a *limit.Refusal if the sandbox will not or cannot run the command; it may wrap
// limit.ErrTooMany or ErrClosed.
func (b *Box) Start(ctx context.Context, c Cmd) (*Job, error) {
	if err := c.validate(b); err != nil {
		return nil, err
	}
	if err := b.life.stay(ctx); err != nil {
		return nil, err
	}
	defer b.life.waking.RUnlock()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start command: %w", context.Cause(ctx))
	}
	var j *Job
	var err error
	for _, start := range starters {
		if j, err = start(b, &c); j != nil || err != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if b.means.lease != nil {
		b.means.lease.NoteUse()
	}
	if c.Shell != "" && b.means.shell == shellPath {
		b.warmSoon(j)
	}
	return j, nil
}

// A starter starts a command in one way. If that is not possible now, it returns
// neither a job nor an error, and nothing was run.
type starter func(*Box, *Cmd) (*Job, error)

// starters are the ways to start a command, the cheapest first. raw is a plain fork and
// exec of the same program.
var starters = []starter{
	startWarm, // by a bash that waits for a script: 0.3 of raw; not for every script
	startCold, // by a new process of the init: 1.0 to 1.1 of raw; for every command
}
