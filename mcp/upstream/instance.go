package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/internal/printable"
	"belljar.dev/policies"
)

// maxCalls bounds the calls of one instance that run at the same time.
const maxCalls = 128

// errGone is the error of a call whose instance has ended. Another instance may have taken
// its place.
var errGone = errors.New("the instance has ended")

// instance is one server for one key, from the first call or list that needs it until
// nothing of it runs any more. Its goroutine is run, the only code that starts or ends the
// server. If the server is needed later, another instance is made, which begins when this
// one is gone.
type instance[C Conn] struct {
	spec   Spec
	cfg    *Config[C]
	before <-chan struct{} // closed when the previous instance is gone; nil for the first instance
	gone   chan struct{}   // closed when no part of the instance is left
	end    context.CancelCauseFunc
	ended  bool // guarded by Pool.mu: end was called

	mu      sync.Mutex
	machine machine                 // guarded by mu
	changed chan struct{}           // guarded by mu: closed at the next change of the state
	conn    C                       // guarded by mu: the connection, set while the state is Ready
	calls   map[*running]struct{}   // guarded by mu
	used    time.Time               // guarded by mu: when a call last began or ended
	step    string                  // guarded by mu: the step of the current start, such as the handshake
	stderr  func(most int) []string // guarded by mu: returns the last lines of the latest process; may be nil
}

// running is a call that uses an instance.
type running struct{ cancel context.CancelCauseFunc }

// ending is the cause with which a call ends together with its instance.
type ending struct{ why error }

// Error returns the reason for the end.
func (e *ending) Error() string { return e.why.Error() }

// newInstance returns an instance that continues with the state of an earlier one.
func newInstance[C Conn](spec Spec, cfg *Config[C], m machine, before <-chan struct{}) *instance[C] {
	now := time.Now()
	m.to(Starting, now)
	return &instance[C]{
		spec: spec, cfg: cfg, before: before, gone: make(chan struct{}),
		machine: m, changed: make(chan struct{}), calls: make(map[*running]struct{}), used: now,
	}
}

// run is the goroutine of the instance: it starts the server, serves until the server ends,
// and starts it again while the machine allows that. When ctx ends, run ends the server;
// the cause of ctx is the reason.
func (i *instance[C]) run(ctx context.Context) {
	defer close(i.gone)
	if i.before != nil {
		<-i.before
	}
	worked := true // false if nobody has used the server since its failure
	for ctx.Err() == nil {
		i.change(i.start)
		conn, p, err := i.open(ctx)
		if err == nil {
			err = i.serve(ctx, conn, p)
			err = i.shut(ctx, conn, p, err)
		}
		if ctx.Err() != nil || err == nil {
			break
		}
		if !i.failed(err) {
			return // the machine is held or has failed
		}
		if !i.wait(ctx) {
			break
		}
		if i.retire() {
			worked = false
			break
		}
	}
	i.change(func(m *machine, now time.Time) { m.stop(now, worked) })
}

// start notes that an attempt begins, before its first step. The caller holds mu.
func (i *instance[C]) start(m *machine, now time.Time) {
	i.step = ""
	m.start(now)
}

// open starts the server and connects to it.
func (i *instance[C]) open(ctx context.Context) (conn C, p Process, err error) {
	server := &i.spec.Server
	times := server.Settings.Timeouts
	if !server.Remote {
		what, most := "the start", times.Handshake
		if server.Installs {
			what, most = "the installation", times.Install
		}
		if err = i.within(ctx, what, most, func(ctx context.Context) (err error) {
			p, err = i.cfg.Starter.Start(ctx, i.spec)
			return err
		}); err != nil {
			return conn, nil, err
		}
		i.mu.Lock()
		i.stderr = p.Stderr
		i.mu.Unlock()
	}
	err = i.within(ctx, "the handshake", times.Handshake, func(ctx context.Context) (err error) {
		conn, err = i.cfg.Dialer.Dial(ctx, i.spec, p)
		return err
	})
	if err != nil && p != nil {
		p.Close()
		err = because(err, p.Err())
	}
	return conn, p, err
}

// within runs a step of the start: it notes the name of the step, and calls f with a
// deadline. If f fails because of that deadline, the error names the step.
func (i *instance[C]) within(ctx context.Context, what string, most time.Duration, f func(ctx context.Context) error) error {
	i.mu.Lock()
	i.step = what
	i.mu.Unlock()
	late := fmt.Errorf("%s took longer than %v", what, most)
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	err := f(ctx)
	switch {
	case err == nil || !errors.Is(context.Cause(ctx), late) || errors.Is(err, late):
		return err
	case err == context.DeadlineExceeded: //nolint:errorlint // unwrapped, it adds nothing to late
		return late
	}
	return fmt.Errorf("%w: %w", late, err)
}

// because adds how a process ended to an error that this end has caused.
func because(err, ended error) error {
	if ended == nil || strings.Contains(err.Error(), ended.Error()) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ended)
}

// serve lets calls use the server until the server ends by itself, ctx ends or the server
// is idle. It returns an error with the reason if the server ended by itself; otherwise
// nil.
func (i *instance[C]) serve(ctx context.Context, conn C, p Process) error {
	var exited <-chan struct{} // nil for a remote server, which has no process
	if p != nil {
		exited = p.Done()
	}
	i.change(func(m *machine, now time.Time) {
		m.ready(now)
		i.conn, i.used = conn, now // the server counts as used now, however long the start took
	})
	idle := time.NewTimer(i.spec.Server.Settings.Timeouts.Idle)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Done():
			return cmp.Or(conn.Err(), errors.New("the server has ended the connection"))
		case <-exited:
			return cmp.Or(p.Err(), errors.New("the server has ended"))
		case <-idle.C:
			if i.retire() {
				return nil
			}
			idle.Reset(i.untilIdle())
		}
	}
}

// retire reports whether nobody has used the server for its idle timeout. If so, no call
// can use the server any more.
func (i *instance[C]) retire() bool {
	i.mu.Lock()
	settings := &i.spec.Server.Settings
	if settings.Keep || len(i.calls) > 0 || time.Since(i.used) < settings.Timeouts.Idle {
		i.mu.Unlock()
		return false
	}
	s := i.changeLocked((*machine).drain)
	i.mu.Unlock()
	i.tell(s)
	return true
}

// untilIdle returns the time after which the server may be idle.
func (i *instance[C]) untilIdle() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	idle := i.spec.Server.Settings.Timeouts.Idle
	if left := idle - time.Since(i.used); left > 0 && len(i.calls) == 0 && !i.spec.Server.Settings.Keep {
		return left
	}
	return idle
}

// shut ends the server after serve has returned err. Running calls end first, with the
// reason. The returned error also contains how the process ended, if it ended by itself.
func (i *instance[C]) shut(ctx context.Context, conn C, p Process, err error) error {
	why := cmp.Or(context.Cause(ctx), err, errGone)
	i.change(func(m *machine, now time.Time) {
		if m.state == Ready { // if it was not retired
			m.drain(now)
		}
		var none C
		i.conn = none
		for c := range i.calls {
			c.cancel(&ending{why})
		}
	})
	conn.Close()
	if p == nil {
		return err
	}
	p.Close()
	if err == nil {
		return nil
	}
	return because(err, p.Err())
}

// failed records a failure, and reports whether the server must be started again.
func (i *instance[C]) failed(err error) (again bool) {
	// The server chooses most of this text, and its length.
	reason := printable.Line(err.Error(), maxReason)
	i.mu.Lock()
	s := i.changeLocked(func(m *machine, now time.Time) {
		m.login = errors.Is(err, ErrLogin)
		if errors.Is(err, ErrHeld) {
			m.hold(now, reason)
			return
		}
		again = m.fail(now, reason, errors.Is(err, ErrLasting), i.cfg.Chance())
	})
	stderr := i.stderr
	i.mu.Unlock()
	if stderr != nil && s.State != Held {
		s.Stderr = stderr(shownStderr) // complete, since the process has ended
	}
	i.tell(s)
	return again
}

// wait waits until the time of the next start. It returns false if ctx ends before that.
func (i *instance[C]) wait(ctx context.Context) bool {
	i.mu.Lock()
	until := i.machine.until
	i.mu.Unlock()
	return pause.For(ctx, time.Until(until)) == nil
}

// do calls f with the connection. It waits while the server is being started or ended. In
// the other states except Ready it fails immediately. The context of f ends with the
// instance.
func (i *instance[C]) do(ctx context.Context, f func(ctx context.Context, conn C) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call := &running{cancel}
	conn, changed, err := i.enter(ctx, call)
	if err != nil {
		return err
	}
	err = f(inner, conn)
	i.mu.Lock()
	delete(i.calls, call)
	i.used = time.Now()
	i.mu.Unlock()
	var e *ending
	byUs := errors.As(context.Cause(inner), &e) && (errors.Is(err, context.Canceled) || errors.Is(err, e))
	over := conn.Err()
	if err == nil || !byUs && (over == nil || !errors.Is(err, over)) {
		return err
	}
	return i.broken(ctx, changed, e)
}

// enter adds a call when the server is ready. changed is closed at the next change of the
// state.
func (i *instance[C]) enter(ctx context.Context, call *running) (conn C, changed <-chan struct{}, err error) {
	state := i.settle(ctx, nil)
	for state == Ready {
		i.mu.Lock()
		switch {
		case i.machine.state != Ready: // the state has changed meanwhile
			i.mu.Unlock()
			state = i.settle(ctx, nil)
			continue
		case len(i.calls) >= maxCalls:
			err = fmt.Errorf("%d calls of the server %s are already running. Nothing was called. Retry when one of them has ended", maxCalls, Line(i.spec.Server.Name))
		default:
			i.calls[call], i.used = struct{}{}, time.Now()
			conn, changed = i.conn, i.changed
		}
		i.mu.Unlock()
		return conn, changed, err
	}
	switch {
	case state == Off:
		return conn, nil, errGone
	case ctx.Err() != nil:
		return conn, nil, context.Cause(ctx)
	}
	return conn, nil, i.unavailable()
}

// unavailable returns the error for a call that the server cannot accept or has not
// answered, with the present status of the instance. If the principals of a tenant share
// the instance, the error contains no lines of stderr.
func (i *instance[C]) unavailable() *Unavailable {
	u := &Unavailable{Status: i.status()}
	if u.State == Waiting {
		u.In = max(time.Until(u.Until), 0).Round(100 * time.Millisecond)
	}
	if i.spec.Server.Settings.Share == policies.ShareTenant && len(u.Stderr) > 0 {
		u.Stderr, u.StderrLeftOut = nil, true
	}
	return u
}

// settle waits for changed, if that is not nil, and then while the server is being started
// or ended, at most until ctx ends. It returns the state.
func (i *instance[C]) settle(ctx context.Context, changed <-chan struct{}) State {
	for {
		if changed != nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		i.mu.Lock()
		state := i.machine.state
		changed = i.changed
		i.mu.Unlock()
		if state != Starting && state != Draining || ctx.Err() != nil {
			return state
		}
	}
}

// broken returns the error of a call whose server has gone. It waits until the server has
// ended, so that the error contains the state after that.
func (i *instance[C]) broken(ctx context.Context, changed <-chan struct{}, e *ending) error {
	i.settle(ctx, changed)
	u := i.unavailable()
	if u.Ran = true; u.State == Off && e != nil {
		u.Reason = e.Error()
	}
	return u
}

// change changes the state, and reports the change to the owner of the pool.
func (i *instance[C]) change(f func(m *machine, now time.Time)) {
	i.mu.Lock()
	s := i.changeLocked(f)
	i.mu.Unlock()
	i.tell(s)
}

// changeLocked changes the state, and returns the status for tell. The caller holds mu.
func (i *instance[C]) changeLocked(f func(m *machine, now time.Time)) Status {
	f(&i.machine, time.Now())
	close(i.changed)
	i.changed = make(chan struct{})
	return i.snapshot()
}

// tell reports a change to the owner of the pool. The caller does not hold mu.
func (i *instance[C]) tell(s Status) {
	if i.cfg.Changed != nil {
		i.cfg.Changed(s)
	}
}

// snapshot returns the status without stderr. The caller holds mu.
func (i *instance[C]) snapshot() Status {
	m := &i.machine
	s := Status{Key: i.spec.Key, State: m.state, Since: m.since, Reason: m.reason, Attempt: len(m.starts), Until: m.until, Calls: len(i.calls), NeedsLogin: m.login}
	if m.state == Starting {
		s.Step = i.step
	}
	return s
}

// status returns the status of the instance.
func (i *instance[C]) status() Status {
	i.mu.Lock()
	s, stderr := i.snapshot(), i.stderr
	i.mu.Unlock()
	if stderr != nil {
		s.Stderr = stderr(shownStderr)
	}
	return s
}

// log returns the last lines of stderr.
func (i *instance[C]) log(most int) Log {
	i.mu.Lock()
	l, stderr := Log{Key: i.spec.Key, State: i.machine.state}, i.stderr
	i.mu.Unlock()
	if stderr != nil {
		l.Lines = stderr(most)
	}
	return l
}

// record returns the state, and the machine for a successor.
func (i *instance[C]) record() (State, machine) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.machine
	return m.state, m
}

// atRest reports whether run has returned.
func (i *instance[C]) atRest() bool {
	select {
	case <-i.gone:
		return true
	default:
		return false
	}
}

// clean reports whether the instance is off and has no failures to keep.
func (i *instance[C]) clean() bool {
	state, m := i.record()
	return state == Off && m.failures == 0
}
