package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"belljar.dev/mcp/upstream"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// upstreamGrace is how long a server may take to end by itself after its input has ended,
// as the protocol wants it (2025-11-25, basic/lifecycle, shutdown).
const upstreamGrace = 300 * time.Millisecond

// upstreamCommand is how a server is started.
type upstreamCommand struct {
	Argv []string
	Env  map[string]string // added to the environment of the box
	// Secrets are values that the server knows, and that nobody is shown.
	Secrets []string
}

// upstreamTail keeps the last lines of what is written to it, without control characters.
type upstreamTail interface {
	io.Writer
	Lines(most int) []string
}

// upstreamBoxes starts other people's servers, each in a box of its own. The end of a
// server is the end of its box: whatever it has started, and however that hides, ends with
// the box.
type upstreamBoxes struct {
	boxes *sandbox.Workspace
	// command returns how a server is started.
	command func(s upstream.Spec) (upstreamCommand, error)
	tail    func() upstreamTail
}

// Start starts a server.
func (u *upstreamBoxes) Start(ctx context.Context, s upstream.Spec) (upstream.Process, error) {
	c, err := u.command(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, upstream.ErrLasting)
	}
	box, err := u.boxes.Open(ctx, "upstream-"+rand.Text(), s.Grant)
	if err != nil {
		return nil, err
	}
	p := &upstreamProcess{box: box, stderr: u.tail(), secrets: masks(c.Secrets), ended: make(chan struct{})}
	p.theirIn, p.in = io.Pipe()
	p.out, p.theirOut = io.Pipe()
	p.job, err = box.Start(ctx, sandbox.Cmd{
		Grant: s.Grant, Argv: c.Argv, Env: c.Env, Background: true, Timeout: s.Grant.Limits().Background,
		In: p.theirIn, Out: p.theirOut, Err: p.stderr,
	})
	if err != nil {
		_ = box.Close()
		if _, refused := errors.AsType[*limit.Refusal](err); refused {
			err = fmt.Errorf("%w: %w", err, upstream.ErrLasting)
		}
		return nil, err
	}
	go p.watch()
	return p, nil
}

// masks replaces secrets by a word.
func masks(secrets []string) *strings.Replacer {
	var pairs []string
	for _, s := range secrets {
		if s != "" {
			pairs = append(pairs, s, "[secret]")
		}
	}
	return strings.NewReplacer(pairs...)
}

// upstreamProcess is a server in its box.
type upstreamProcess struct {
	box      *sandbox.Box
	job      *sandbox.Job
	in       *io.PipeWriter // its input: what is written here
	theirIn  *io.PipeReader // is read here by the box
	out      *io.PipeReader // its output
	theirOut *io.PipeWriter
	stderr   upstreamTail
	secrets  *strings.Replacer
	ended    chan struct{} // closed by watch
	err      error         // set before ended is closed

	mu     sync.Mutex
	closed bool // guarded by mu: Close was called before the server had ended
}

// In is the standard input of the server.
func (p *upstreamProcess) In() io.WriteCloser { return p.in }

// Out is the standard output of the server. It ends when the server has ended.
func (p *upstreamProcess) Out() io.Reader { return p.out }

// Stderr returns the last lines, without the server's secrets.
func (p *upstreamProcess) Stderr(most int) []string {
	lines := p.stderr.Lines(most)
	for i := range lines {
		lines[i] = p.secrets.Replace(lines[i])
	}
	return lines
}

// Done is closed when the server has ended.
func (p *upstreamProcess) Done() <-chan struct{} { return p.ended }

// Err returns how the server ended by itself, and nil if it has not.
func (p *upstreamProcess) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Close ends the server and its box, and waits for that. Reads and writes of the server's
// streams fail from then on.
func (p *upstreamProcess) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.in.Close()
	// Nobody may read the rest, on which the end of the job would wait.
	p.out.Close()
	grace := time.NewTimer(upstreamGrace)
	defer grace.Stop()
	select {
	case <-p.ended:
	case <-grace.C:
	}
	_ = p.box.Close()
	<-p.ended
}

// watch waits for the end of the server, which Close brings about at the latest.
func (p *upstreamProcess) watch() {
	<-p.job.Done()
	err := p.outcome(p.job.Kill(0)) // which has ended: Kill only returns the result
	p.mu.Lock()
	if !p.closed {
		p.err = err
	}
	p.mu.Unlock()
	p.theirOut.Close()
	p.theirIn.Close()
	close(p.ended)
}

// outcome says how a server ended.
func (p *upstreamProcess) outcome(r sandbox.Result) error {
	switch {
	case r.Status == sandbox.OOM:
		return fmt.Errorf("the server needed more memory than the %d MiB of its box", p.box.Grant().Limits().Memory>>20)
	case r.Status != sandbox.Exited:
		return fmt.Errorf("the server was stopped: %s", r.Status)
	case r.Signal != 0:
		return fmt.Errorf("the server ended by the signal %s", r.Signal)
	}
	return fmt.Errorf("the server exited with status %d", r.Code)
}
