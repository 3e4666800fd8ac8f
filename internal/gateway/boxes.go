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

// grace is how long a server may take to end by itself after its input has ended,
// as the protocol wants it (MCP 2025-11-25, basic/lifecycle, shutdown).
const grace = 300 * time.Millisecond

// command is how a server is started.
type command struct {
	Install *phase // fetches the server; nil if nothing has to be fetched
	Run     phase
	Scratch bool // Run writes into what Install fetched, and that is thrown away
	// Secrets are values that the server knows, and that nobody is shown.
	Secrets []string
}

// phase is one start of a program.
type phase struct {
	Argv []string
	Dir  string            // empty for that of the box
	Env  map[string]string // added to the environment of the box
}

// starter starts other people's servers, each in a box of its own. A server ends together with
// its box, and so does whatever the server has started, however that hides.
type starter struct {
	boxes *sandbox.Workspace
	// command returns how a server is started.
	command func(ctx context.Context, s upstream.Spec) (command, error)
	// grant returns the grant of one of a server's boxes: Upstreams.Grant of the policy.
	grant func(tenant string, b policies.UpstreamBox) (policies.Grant, error)
	// check returns an error for what must not run. It is called before something is fetched,
	// with an empty directory, and before the server is started, with the directory of what was
	// fetched, if anything was. The result is what was compared.
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

// leastMasked is the shortest part of a secret that is masked alone: a shorter one is part of many
// other words.
const leastMasked = 8

// secrets are the values that nobody is shown.
type secrets []string

// newSecrets returns the values, and the lines of those that have several, as they are shown.
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

// mask replaces the secrets in a line. A line that begins or ends with … may have been cut within a
// secret, so the end of a secret at its beginning, and the beginning of one at its end, are replaced
// too.
func (s secrets) mask(line string) string {
	text, head := strings.CutPrefix(line, "…")
	text, tail := strings.CutSuffix(text, "…")
	hidden := make([]bool, len(text)) // by byte
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

// masked replaces a secret.
const masked = "[secret]"

// process is a server in its box.
type process struct {
	box     *sandbox.Box
	runs    pin.Runs       // what runs in it
	opened  *closers.Stack // the box and what it sees
	job     *sandbox.Job
	in      *inlet
	out     *outlet
	stderr  *peer.Tail
	secrets secrets
	ended   chan struct{} // closed by watch
	err     error         // set before ended is closed

	watching sync.WaitGroup // of watch

	closing sync.Once
	mu      sync.Mutex
	closed  bool // guarded by mu: Close was called before the server had ended
}

// In is the standard input of the server.
func (p *process) In() io.WriteCloser { return p.in }

// Out is the standard output of the server. It ends when the server has ended.
func (p *process) Out() io.Reader { return p.out }

// Stderr returns the last lines, without the server's secrets. While the server runs, these are
// lines that it has ended: mask does not find one half of a secret.
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

// Done is closed when the server has ended.
func (p *process) Done() <-chan struct{} { return p.ended }

// Err returns how the server ended by itself, and nil if it has not.
func (p *process) Err() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Close ends the server and its box, and waits until both have ended. Reads and writes of the
// server's streams fail from then on.
func (p *process) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.in.Close()
	// Nobody may read the rest, on which the end of the job would wait.
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

// watch waits for the end of the server, which Close brings about at the latest.
func (p *process) watch() {
	<-p.job.Done()
	err := outcome(p.job.Kill(0), p.box.Grant()) // the job has ended: Kill only returns the result
	p.mu.Lock()
	if !p.closed {
		p.err = err
	}
	p.mu.Unlock()
	close(p.ended)
}
