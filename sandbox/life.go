package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
)

// life is the time in which a box has an init: from its opening to its end, except while it
// is parked (see park.go).
type life struct {
	box *Box

	// waking keeps parking, waking and the start of commands apart. A goroutine that
	// needs the init holds it for reading, from before it checks that the box is awake
	// until its command is in the table. A goroutine that starts or ends an init holds
	// it for writing. It is taken before table.mu.
	waking sync.RWMutex
	parked bool          // whether the box has no init; set with waking and table.mu held
	ended  chan struct{} // closed when the init has ended; set like parked
	kept   kept          // what outlives the init

	// Guarded by table.mu; see park.go.
	used    time.Time   // when the wait for the box to be idle last began
	resting *time.Timer // calls rest; nil until restLater first sets it
	waits   bool        // whether resting is armed
}

// stay wakes the box if it is parked, and locks l.waking for reading, which
// keeps it awake. If stay returns no error, the caller must unlock it.
func (l *life) stay(ctx context.Context) error {
	for {
		l.waking.RLock()
		if !l.parked {
			return nil
		}
		l.waking.RUnlock()
		if err := l.wake(ctx); err != nil {
			return err
		}
	}
}

// wake builds a parked box again. If that fails, the box stays parked, and nothing of it is
// lost.
func (l *life) wake(ctx context.Context) error {
	b := l.box
	l.waking.Lock()
	defer l.waking.Unlock()
	b.table.mu.Lock()
	parked, closed := l.parked, b.table.cause != nil
	err := b.table.goneErr()
	b.table.mu.Unlock()
	switch {
	case closed:
		return err
	case !parked:
		return nil // another goroutine was first
	}
	if err := b.means.group.Room(); err != nil {
		return err
	}
	if err := l.live(ctx); err != nil {
		if gone := l.gone(); gone != nil { // the box was closed meanwhile, which is the reason
			return gone
		}
		return fmt.Errorf("wake box %s: %w", b.id, err)
	}
	return nil
}

// gone returns why nothing can run in the box any more, or nil if something can.
func (l *life) gone() error {
	t := &l.box.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause == nil {
		return nil
	}
	return t.goneErr()
}

// live begins a life of the box: from its init to the init's end. If live fails, the box
// is as it was.
func (l *life) live(ctx context.Context) error {
	b := l.box
	if err := l.begin(ctx); err != nil {
		b.means.detach()
		return err
	}
	_ = b.init.conn.Expect(time.Time{})
	ended := make(chan struct{})
	b.table.mu.Lock()
	closed := b.table.cause != nil
	if !closed {
		l.parked, l.ended = false, ended
		b.table.wg.Go(func() {
			defer close(ended)
			l.serve()
		})
	}
	b.table.mu.Unlock()
	if closed {
		b.init.reap()
		b.means.detach()
		return errors.New("it is being closed")
	}
	if err := b.means.door.listenAgain(ctx); err != nil {
		l.letGo()
		return fmt.Errorf("open the egress door: %w", err)
	}
	l.restLater()
	return nil
}

// begin starts the init and waits until it has built the box. It prepares the
// script while the kernel makes the namespaces.
func (l *life) begin(ctx context.Context) error {
	b := l.box
	type start struct {
		process *os.Process
		conn    *initconn.Conn
		err     error
	}
	started := make(chan start, 1)
	go func() {
		process, conn, err := b.sup.spawner.start(b.means.group, b.means.uid)
		started <- start{process, conn, err}
	}()
	script, files, err := l.design(ctx)
	s := <-started
	if s.err != nil {
		boxinit.CloseAll(files)
		return errors.Join(s.err, err)
	}
	b.table.mu.Lock()
	b.init.process, b.init.conn, b.init.strays = s.process, s.conn, 0
	b.init.idle.Store(0)
	if b.table.cause != nil { // shut ran before it could see and kill this init
		err = errors.Join(err, b.table.goneErr())
	}
	b.table.mu.Unlock()
	if err == nil {
		err = sendScript(b.init.conn, script, files, b.sup.patience.start)
	}
	boxinit.CloseAll(files)
	if err == nil {
		err = l.ready(ctx, script)
	}
	if err != nil {
		b.init.reap()
	}
	return err
}

// design returns the script of the box and the descriptors of the trees that it mounts;
// the caller closes them. For the first init design makes the door, the view of execs
// and the lease of an overlay workspace, which the box then keeps.
func (l *life) design(ctx context.Context) (_ *boxinit.Script, _ []int, err error) {
	b := l.box
	m := &b.means
	p, err := b.sup.plan(b.grant, m.uid, m.image, b.home)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			boxinit.CloseAll(p.passed())
		}
	}()
	first := m.door == nil
	if first {
		if err := m.connect(b, p); err != nil {
			return nil, nil, err
		}
	}
	if err := m.watch(b, p); err != nil {
		return nil, nil, err
	}
	if err := m.overlay(b, p); err != nil {
		return nil, nil, err
	}
	if first {
		m.opened.Do(l.kept.close) // closed before the lease: the kept mounts use its layers
	}
	if m.guard, err = b.home.protector(b.grant); err != nil {
		return nil, nil, err
	}
	if m.guard != nil {
		if p.pins, err = m.guard.Pins(); err != nil {
			return nil, nil, err
		}
	}
	b.sup.useTemplate(ctx, p)
	if err := l.kept.again(p, m.area); err != nil {
		return nil, nil, err
	}
	return p.script(), p.passed(), nil
}

// ready waits until the init reports that the box is built.
func (l *life) ready(ctx context.Context, script *boxinit.Script) error {
	b := l.box
	deadline := time.Now().Add(b.sup.patience.start)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = b.init.conn.Expect(deadline)
	first, files, err := b.init.receive()
	for _, step := range []struct {
		brings boxinit.Op
		take   func(files []int) error
	}{{boxinit.OpSocket, b.means.door.take}, {boxinit.OpKept, l.keep}, {boxinit.OpListener, b.means.execs.watch}} {
		if err == nil && first.Op == step.brings {
			if err := step.take(files); err != nil {
				return err
			}
			first, files, err = b.init.receive()
		}
	}
	boxinit.CloseAll(files)
	switch {
	case err != nil:
		return fmt.Errorf("its init did not answer: %w", err)
	case first.Op == boxinit.OpFailed:
		if err := b.home.explainOverlay(script.Name(first.Step), first.Errno); err != nil {
			return err
		}
		if err := explainScratch(script.Name(first.Step), first.Errno); err != nil {
			return err
		}
		return &limit.Refusal{
			Message: "this host could not build the box; run \"belljar doctor\" to see what is missing",
			Err:     fmt.Errorf("%s: %w", script.Name(first.Step), first.Errno),
		}
	case first.Op != boxinit.OpReady || !b.means.door.opened || l.kept.want > 0 || b.means.execs != nil && !b.means.execs.begun:
		return errors.New("its init broke the protocol: a message was missing or out of order")
	}
	return nil
}

// keep takes over the mounts that the init of a new box sent.
func (l *life) keep(files []int) error {
	return l.kept.take(files, l.box.grant.Workspace() == policies.AccessOverlay)
}

// serve receives the init's messages until the init ends. Then the box has ended,
// and with it its jobs, unless the box was parked: a parked box has none.
func (l *life) serve() {
	b := l.box
	state, err := b.init.listen()
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	if l.parked {
		return
	}
	if b.table.end(fmt.Errorf("the box's init ended (%v): %w", state, err)) {
		b.sup.cfg.Log.Warn("box broke", "box", b.id, "err", b.table.cause)
	}
	b.init.end()
}

// fail ends a box that no longer works as it must, and waits for its end.
func (l *life) fail(why string) {
	b := l.box
	b.sup.cfg.Log.Error("box is killed", "box", b.id, "reason", why)
	b.init.kill()
	<-b.init.gone
}

// leave takes a command out of the table, and starts to wait for the box to be idle. The
// output is kept if ran is set.
func (l *life) leave(j *Job, ran bool) {
	l.box.table.leave(j, ran)
	l.restLater()
}
