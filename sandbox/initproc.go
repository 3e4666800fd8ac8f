package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/sandbox/boxinit"
	"belljar.dev/sandbox/initconn"
	"belljar.dev/sandbox/limit"
)

// initProc is the init of a box as the supervisor sees it: its process, the requests to it,
// and its answers. A box that was parked gets another process and connection. Every message
// of an init is treated like that of an attacker.
type initProc struct {
	table    *table    // the table of the commands that it runs
	patience *patience // how long the supervisor waits for it

	process *os.Process // set with conn, table.mu and life.waking held; nil before the first init
	conn    *initconn.Conn
	strays  uint64             // number of messages that nobody waited for; guarded by the turn at conn
	idle    atomic.Int64       // number of OpIdle requests without a reply
	answers chan boxinit.Reply // the latest OpIdle reply
	sockets socketRequests     // requests for sockets
	gone    chan struct{}      // closed when the box has ended
	end     func()             // closes gone

	// Guarded by table.mu; see startwatch.go.
	asked map[*Job]time.Time // start requests without an answer yet, and when each was sent
	late  *time.Timer        // timer that checks asked while armed is set
	armed bool
}

func newInitProc(t *table, p *patience) initProc {
	gone := make(chan struct{})
	return initProc{
		table: t, patience: p, answers: make(chan boxinit.Reply, 1), asked: map[*Job]time.Time{},
		gone: gone, end: sync.OnceFunc(func() { close(gone) }),
	}
}

// kill ends the init, and with it all processes of the box. Calls that wait for replies are
// notified.
func (i *initProc) kill() { _ = i.process.Kill() }

// reap ends the init, if it has not ended, and waits for its end.
func (i *initProc) reap() *os.ProcessState {
	i.conn.Close()
	i.kill()
	state, _ := i.process.Wait()
	return state
}

// send sends one request to the init. If the init does not read, it waits until the
// deadline.
func (i *initProc) send(r *boxinit.Request, files ...int) error {
	text, err := r.Encode()
	if errors.Is(err, unix.EMSGSIZE) {
		return &limit.Refusal{Message: "the command with its arguments and environment is too long; put long text into a file or stdin", Err: err}
	}
	if err != nil {
		return err
	}
	if err := i.conn.Send(text, files, i.patience.start); err != nil {
		i.table.mu.Lock()
		defer i.table.mu.Unlock()
		if i.table.cause != nil {
			return i.table.goneErr()
		}
		return fmt.Errorf("tell the init of box %s: %w", i.table.box, err)
	}
	return nil
}

// receive waits for one message of the init.
func (i *initProc) receive() (boxinit.Reply, []int, error) {
	text, files, err := i.conn.Receive()
	if err != nil {
		return boxinit.Reply{}, nil, err
	}
	return parseReply(text, files)
}

// parseReply checks only the form of a message. Files may be part only of OpSocket,
// OpListener or OpKept, and the caller owns them.
func parseReply(text []byte, files []int) (r boxinit.Reply, _ []int, err error) {
	if err = io.EOF; len(text) > 0 {
		r, err = boxinit.ParseReply(text)
	}
	if err != nil || !bringsFiles(r.Op) {
		boxinit.CloseAll(files) // such a message must bring no files
		files = nil
	}
	return r, files, err
}

func bringsFiles(op boxinit.Op) bool {
	return op == boxinit.OpSocket || op == boxinit.OpListener || op == boxinit.OpKept
}

// listen receives the init's messages until the init ends, and returns how and why the init
// ended.
func (i *initProc) listen() (*os.ProcessState, error) {
	err := i.conn.Listen(i.hear)
	// An init ends by itself when the connection ends; the kill is for an init that hangs.
	return i.reap(), err
}

// hear passes a message of the init to the job or request that waits for it. The error says
// that the init sent a message without a request, or has ended. The caller has the turn at
// the connection.
func (i *initProc) hear(text []byte, files []int) error {
	r, files, err := parseReply(text, files)
	if err != nil {
		return err
	}
	if i.sockets.hear(r, files) {
		return nil
	}
	if r.Op == boxinit.OpIdle && i.idle.Add(-1) >= 0 {
		select {
		case <-i.answers: // a reply to a request that was given up
		default:
		}
		i.answers <- r
		return nil
	}
	j, asked := i.table.find(r.ID)
	if j != nil && r.Op != boxinit.OpReady && j.replies.put(r) {
		return nil
	}
	// A job may stop waiting for its command. The init reports the end of each
	// command once, so it sends at most one such message per command.
	if i.strays++; r.Op == boxinit.OpReady || bringsFiles(r.Op) || r.Op == boxinit.OpIdle || r.ID > asked || i.strays > asked {
		return errors.New("it reports something that was not requested")
	}
	return nil
}

// holdsNothing asks the init whether something would be lost with it, and reports whether
// nothing would be.
func (i *initProc) holdsNothing() bool {
	select {
	case <-i.answers: // a reply to a request that was given up
	default:
	}
	i.table.mu.Lock()
	id := i.table.nextID()
	i.table.mu.Unlock()
	i.idle.Add(1)
	if i.send(&boxinit.Request{Op: boxinit.OpIdle, ID: id}) != nil {
		return false
	}
	late := time.NewTimer(i.patience.start)
	defer late.Stop()
	select {
	case r := <-i.answers:
		return r.ID == id && r.Errno == 0
	case <-i.gone:
	case <-late.C:
	}
	return false
}

// socket returns a new TCP socket of the box's network. The caller closes it, and must keep
// the box awake.
func (i *initProc) socket(ctx context.Context) (int, error) {
	if err := context.Cause(ctx); err != nil {
		return -1, err
	}
	i.table.mu.Lock()
	closed := i.table.cause != nil
	i.table.mu.Unlock()
	if closed {
		return -1, fmt.Errorf("box %s: %w", i.table.box, ErrClosed)
	}
	s := &i.sockets
	answer := make(chan socketAnswer, 1)
	s.mu.Lock()
	if len(s.waiting) >= maxSockets {
		s.mu.Unlock()
		return -1, fmt.Errorf("%d sockets were asked for at once: %w", maxSockets, limit.ErrTooMany)
	}
	if s.waiting == nil {
		s.waiting = map[uint64]chan socketAnswer{}
	}
	s.last++
	id := socketIDs + s.last
	s.waiting[id] = answer
	s.mu.Unlock()
	if err := i.send(&boxinit.Request{Op: boxinit.OpSocket, ID: id}); err != nil {
		s.mu.Lock()
		delete(s.waiting, id) // no answer will arrive
		s.mu.Unlock()
		return -1, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.patience.start)
	defer cancel()
	select {
	case a := <-answer:
		return a.fd, a.err
	case <-i.gone:
		s.forget(id, answer)
		return -1, fmt.Errorf("box %s: %w", i.table.box, ErrClosed)
	case <-ctx.Done():
		s.forget(id, answer)
		return -1, fmt.Errorf("the init of box %s made no socket: %w", i.table.box, context.Cause(ctx))
	}
}
