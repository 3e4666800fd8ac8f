package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/closers"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// grace is how long a server may take to end on its own after its input was closed. The
// protocol requires this pause (MCP 2025-11-25, basic/lifecycle, shutdown).
const grace = 300 * time.Millisecond

// command says how a server is started.
type command struct {
	Install *phase // fetches the server; nil if nothing must be fetched
	Run     phase
	Scratch bool // whether Run changes the fetched files; the changes are discarded
	// Secrets are values that the server knows and that must not be shown.
	Secrets []string
}

// phase is one start of a program.
type phase struct {
	Argv []string
	Dir  string            // working directory; empty means the one of the box
	Env  map[string]string // variables in addition to the environment of the box
}

// starter starts upstreams, each in a box of its own. A server ends together with its box,
// and so do all processes that the server has started, however they hide.
type starter struct {
	boxes *sandbox.Workspace
	// command returns how a server is started.
	command func(ctx context.Context, s upstream.Spec) (command, error)
	// grant returns the grant of one of a server's boxes: Upstreams.Grant of the policy.
	grant func(tenant string, b policies.UpstreamBox) (policies.Grant, error)
	// check returns an error if something must not run. It is called before a fetch, with
	// an empty directory, and before the server is started, with the directory of the
	// fetched files, if there are any. The result contains what was compared.
	check func(ctx context.Context, s upstream.Spec, fetched string, installing bool) (pin.Runs, error)
	store cache
}

// Start starts a server.
func (u *starter) Start(ctx context.Context, s upstream.Spec) (upstream.Process, error) {
	p, err := u.start(ctx, s)
	if errors.Is(err, sandbox.ErrNoScratch) {
		u.store.copies.Store(true)
		p, err = u.start(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (u *starter) start(ctx context.Context, s upstream.Spec) (*process, error) {
	c, err := u.command(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, upstream.ErrLasting)
	}
	var opened closers.Stack
	started := false
	defer func() {
		if !started {
			_ = opened.Close()
		}
	}()
	grant, fetched := s.Grant, ""
	if c.Install != nil {
		if _, err = u.check(ctx, s, "", true); err != nil {
			return nil, err
		}
		copies := u.store.copies.Load()
		if fetched, err = u.fetched(ctx, s, *c.Install, c.Scratch && copies, &opened); err != nil {
			return nil, err
		}
		of := grant.OfUpstream()
		of.Cache, of.Scratch, of.Layer = fetched, c.Scratch && copies, c.Scratch && !copies
		if grant, err = u.grant(s.Key.Tenant, of); err != nil {
			return nil, err
		}
	}
	runs, err := u.check(ctx, s, fetched, false)
	if err != nil {
		return nil, err
	}
	box, err := u.boxes.Open(ctx, "upstream-"+rand.Text(), grant)
	if err != nil {
		return nil, err
	}
	opened.Add(box.Close)
	p := &process{box: box, runs: runs, opened: &opened, stderr: &peer.Tail{}, secrets: newSecrets(c.Secrets), ended: make(chan struct{})}
	p.in, p.out = newInlet(), newOutlet(p.ended)
	p.job, err = box.Start(ctx, sandbox.Cmd{
		Grant: grant, Argv: c.Run.Argv, Dir: c.Run.Dir, Env: c.Run.Env, Background: true, Timeout: grant.Limits().Background,
		In: p.in, Out: p.out, Err: p.stderr,
	})
	if err != nil {
		if _, refused := errors.AsType[*limit.Refusal](err); refused {
			err = fmt.Errorf("%w: %w", err, upstream.ErrLasting)
		}
		return nil, err
	}
	started = true
	p.watching.Go(p.watch)
	return p, nil
}

// leastMasked is the shortest part of a secret that is masked on its own: a shorter part is
// in many other words.
const leastMasked = 8

// secrets are values that must not be shown.
type secrets []string

// newSecrets returns the values in the form in which they are shown. A value of several
// lines is also split into its lines.
func newSecrets(values []string) (all secrets) {
	for _, s := range values {
		if s != "" {
			all = append(all, peer.Shown(s))
		}
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= leastMasked {
				all = append(all, peer.Shown(line))
			}
		}
	}
	return all
}

// mask replaces the secrets in a line. A line that begins or ends with … may have been
// cut inside a secret. Therefore the end of a secret at the beginning of such a line, and
// the beginning of a secret at its end, are replaced too.
func (s secrets) mask(line string) string {
	text, head := strings.CutPrefix(line, "…")
	text, tail := strings.CutSuffix(text, "…")
	hidden := make([]bool, len(text)) // for each byte of text, whether it is hidden
	hide := func(from, to int) {
		for i := from; i < to; i++ {
			hidden[i] = true
		}
	}
	for _, one := range s {
		for at := 0; ; at++ {
			i := strings.Index(text[at:], one)
			if i < 0 {
				break
			}
			at += i
			hide(at, at+len(one))
		}
		for n := 1; n < min(len(one), len(text)+1); n++ {
			if head && strings.HasPrefix(text, one[len(one)-n:]) {
				hide(0, n)
			}
			if tail && strings.HasSuffix(text, one[:n]) {
				hide(len(text)-n, len(text))
			}
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			b.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			b.WriteString(masked)
		}
	}
	return strings.Replace(line, text, b.String(), 1)
}

// masked is the text that replaces a secret.
const masked = "[secret]"

// process is a server in its box.
type process struct {
	box     *sandbox.Box
	runs    pin.Runs       // programs that run in the box
	opened  *closers.Stack // releases of the box and of the directories that it sees
	job     *sandbox.Job
	in      *inlet
	out     *outlet
	stderr  *peer.Tail
	secrets secrets
	ended   chan struct{} // closed by watch
	err     error         // set before ended is closed

	watching sync.WaitGroup // waits for watch

	closing sync.Once
	mu      sync.Mutex
	closed  bool // guarded by mu: whether Close was called before the server had ended
}

// In returns the standard input of the server.
func (p *process) In() io.WriteCloser { return p.in }

// Out returns the standard output of the server. It ends when the server has ended.
func (p *process) Out() io.Reader { return p.out }

// Stderr returns the last lines of standard error, without the server's secrets. While the
// server runs, it returns only complete lines, because mask cannot find half of a secret.
func (p *process) Stderr(most int) []string {
	last := p.stderr.Ended
	select {
	case <-p.ended:
		last = p.stderr.Lines
	default:
	}
	lines := last(most)
	for i := range lines {
		lines[i] = p.secrets.mask(lines[i])
	}
	return lines
}

// Done returns a channel that is closed when the server has ended.
func (p *process) Done() <-chan struct{} { return p.ended }

// Err returns how the server ended on its own; nil if it has not.
func (p *process) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Close ends the server and its box, and waits until both have ended. After that, reads and
// writes of the server's streams fail.
func (p *process) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.in.Close()
	// Otherwise the end of the job would wait for a reader of the remaining output.
	p.out.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
	p.closing.Do(func() { _ = p.opened.Close() })
	p.watching.Wait()
}

// watch waits for the end of the server, which Close causes at the latest.
func (p *process) watch() {
	<-p.job.Done()
	err := outcome(p.job.Kill(0), p.box.Grant()) // the job has ended, so Kill only returns the result
	p.mu.Lock()
	if !p.closed {
		p.err = err
	}
	p.mu.Unlock()
	close(p.ended)
}
