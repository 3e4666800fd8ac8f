package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"belljar.dev/internal/pause"
)

// holding is something that is closed together with the door.
type holding struct{ close func() }

// hold makes the door call shut when it is closed, unless drop was called before.
// Close waits until drop is called. hold fails if the door is closed already. shut
// must not block and may run at the same time as drop. drop may be called more than
// once.
func (d *Door) hold(shut func()) (drop func(), err error) {
	h := &holding{close: shut}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	d.held[h] = struct{}{}
	d.work.Add(1)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		delete(d.held, h)
		d.mu.Unlock()
		d.work.Done()
	}), nil
}

// isClosed reports whether the door is closed.
func (d *Door) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// acceptFailures is how many times in a row accepting may fail, for example for
// lack of file descriptors, and acceptPause the pause after each. Meanwhile new
// connections wait in the queue of the listener.
const (
	acceptFailures = 100
	acceptPause    = 100 * time.Millisecond
)

// accept serves the connections of a listener until it fails for too long or the door is
// closed. It serves as many connections at the same time as most allows, and closes further
// ones immediately. When the door is closed, the context of each handler ends and its
// connection is closed; a connection is also closed when its handler returns. accept closes
// the listener and waits for its handlers.
//
// A handler calls decided, once or more, when the connection was allowed or refused and any
// refusal is in Blocked. accept calls it when the handler returns.
func (d *Door) accept(l net.Listener, most int, handle func(ctx context.Context, c net.Conn, decided func())) error {
	//nolint:forbidigo // a connection lives as long as the door, independent of the caller
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	drop, err := d.hold(func() { cancel(); l.Close() })
	if err != nil {
		l.Close()
		return err
	}
	defer drop()
	var handlers sync.WaitGroup
	defer handlers.Wait()
	defer l.Close()
	slots := make(chan struct{}, most)
	for failures := 0; ; {
		c, err := l.Accept()
		switch {
		case d.isClosed():
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if failures++; failures >= acceptFailures {
				return fmt.Errorf("accept on %s: %w", l.Addr(), err)
			}
			_ = pause.For(ctx, acceptPause)
			continue
		}
		failures = 0
		d.fresh.Add(1)
		decided := sync.OnceFunc(func() { d.fresh.Add(-1) })
		select {
		case slots <- struct{}{}:
		default:
			decided()
			c.Close()
			continue
		}
		handlers.Go(func() {
			defer func() { <-slots }()
			defer decided()
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			handle(ctx, c, decided)
		})
	}
}
