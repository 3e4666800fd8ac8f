package upstreams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"belljar.dev/mcp/wire"
)

const (
	maxLine  = 16 << 20 // most bytes of a message
	maxDepth = 1 << 16  // most levels of nesting in a message
)

// statusPipe is the exit status that a shell reports for a process that SIGPIPE (13) ended.
const statusPipe = 128 + 13

// conversation is the work of a server for one client. One goroutine reads and performs the
// acts. The goroutines of Forever only write.
type conversation struct {
	server    Server
	out, errs stream
	beside    sync.WaitGroup // waits for the goroutines of Forever

	mu  sync.Mutex
	log []string // guarded by mu: last messages of the client

	// These fields belong to the goroutine that reads.
	applied  []int              // number of messages to which each rule applied
	changed  bool               // whether the list of tools is Server.Changed
	framed   bool               // whether a message was sent
	asked    int                // number of requests to the client
	answers  map[string]waiting // acts that wait for an answer of the client, by the IDs of the requests
	gathered []waiting
}

// stream is standard output or standard error.
type stream struct {
	to io.Writer
	// turn is full while a goroutine writes. It is a channel instead of a mutex, so that a
	// bubble of testing/synctest sees the goroutines that wait for it.
	turn chan struct{}
}

func newStream(to io.Writer) stream { return stream{to, make(chan struct{}, 1)} }

// write writes a text in one piece. If the reader is closed, write returns an error that
// ends the server.
func (s stream) write(text []byte) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if _, err := s.to.Write(text); err != nil {
		return exit{statusPipe}
	}
	return nil
}

// waiting is a message with its remaining acts.
type waiting struct {
	m    *wire.Message
	acts []Act
}

func newConversation(s Server, out, errs io.Writer) *conversation {
	return &conversation{
		server: s, out: newStream(out), errs: newStream(errs),
		applied: make([]int, len(s.Rules)), answers: make(map[string]waiting),
	}
}

// exit is the error that ends a server before the end of its input.
type exit struct{ status int }

func (e exit) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// run serves until the end of input or an act that ends the server, and returns the exit
// status. The end of ctx ends the act Linger. The goroutines of Forever may continue until a
// write fails.
func (c *conversation) run(ctx context.Context, in io.Reader) int {
	err := c.serve(ctx, in)
	if ended, ok := errors.AsType[exit](err); ok {
		return ended.status
	}
	if err != nil {
		return 1
	}
	return 0
}

func (c *conversation) serve(ctx context.Context, in io.Reader) error {
	if err := c.perform(ctx, nil, c.ruleFor(Started, nil)); err != nil {
		return err
	}
	lines := wire.NewLineReader(in, maxLine)
	for {
		line, err := lines.Next()
		if _, long := errors.AsType[*wire.LongLineError](err); long {
			c.note("(a line that is too long)")
			continue
		}
		if err != nil {
			return c.perform(ctx, nil, c.ruleFor(Ended, nil))
		}
		line = wire.TrimLine(line)
		if len(line) == 0 {
			continue
		}
		c.note(string(line))
		if err := c.line(ctx, line); err != nil {
			return err
		}
	}
}

func (c *conversation) line(ctx context.Context, line []byte) error {
	if bad := wire.CheckLine(line, maxDepth); bad != nil {
		return c.send(bad.Frame(wire.RequestID(line), wire.Legacy))
	}
	m, bad := wire.ParseMessage(line)
	switch {
	case bad != nil:
		return c.send(bad.Frame(m.ID, m.Era()))
	case m.Method == "":
		w, ok := c.answers[m.Key]
		delete(c.answers, m.Key)
		if !ok {
			return nil
		}
		return c.perform(ctx, w.m, w.acts)
	}
	acts := c.ruleFor(m.Method, m)
	if acts == nil && m.IsRequest() {
		if acts = c.ruleFor(Request, m); acts == nil {
			acts = []Act{Answer()}
		}
	}
	return c.perform(ctx, m, acts)
}

// ruleFor returns the acts of the first rule that applies; nil if none does.
func (c *conversation) ruleFor(on string, m *wire.Message) []Act {
	for i, r := range c.server.Rules {
		if r.On != on || m != nil && !bytes.Contains(m.Raw, []byte(r.Has)) {
			continue
		}
		c.applied[i]++
		if r.Nth == 0 || r.Nth == c.applied[i] {
			return append([]Act{}, r.Do...)
		}
	}
	return nil
}

// perform performs acts for a message; m is nil for acts without a message. An error ends
// the server.
func (c *conversation) perform(ctx context.Context, m *wire.Message, acts []Act) error {
	for i, a := range acts {
		rest := waiting{m, acts[i+1:]}
		switch a.Do {
		case "ask":
			return c.ask(a, rest)
		case "gather":
			c.gathered = append(c.gathered, rest)
			if len(c.gathered) < a.N {
				return nil
			}
			all := c.gathered
			c.gathered = nil
			for _, w := range slices.Backward(all) {
				if err := c.perform(ctx, w.m, w.acts); err != nil {
					return err
				}
			}
			return nil
		case "repeat":
			for range a.N {
				if err := c.perform(ctx, m, a.Acts); err != nil {
					return err
				}
			}
		default:
			if err := c.act(ctx, m, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// act performs one act that is complete in itself.
func (c *conversation) act(ctx context.Context, m *wire.Message, a Act) error {
	switch a.Do {
	case "answer":
		return c.reply(m, a.Data)
	case "fail":
		if m == nil || m.ID == nil {
			return nil
		}
		return c.send(wire.ErrorFrame(m.ID, int64(a.N), string(a.Text), a.Data))
	case "result":
		if m == nil || m.ID == nil {
			return nil
		}
		return c.send(wire.ResultFrame(m.ID, a.Data))
	case "print":
		return c.out.write(a.Text)
	case "complain":
		return c.errs.write(a.Text)
	case "notify":
		return c.send(notification(string(a.Text), a.Data))
	case "progress":
		return c.progress(m, a.N)
	case "change":
		c.changed = true
	case "exit":
		return exit{a.N}
	case "linger":
		<-ctx.Done()
		return exit{0}
	case "forever":
		c.beside.Go(func() {
			for c.repeat(a.Acts) == nil {
			}
		})
	case "ignore signals":
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE)
	default:
		return startChild(ctx, a.Do, c.server.Mark)
	}
	return nil
}

// repeat performs the acts of Forever. It does not use the fields of the goroutine that
// reads.
func (c *conversation) repeat(acts []Act) error {
	for _, a := range acts {
		var err error
		switch a.Do {
		case "print":
			err = c.out.write(a.Text)
		case "complain":
			err = c.errs.write(a.Text)
		case "notify":
			err = c.out.write(c.server.Framing.frame(notification(string(a.Text), a.Data)))
		case "repeat":
			for range a.N {
				if err = c.repeat(a.Acts); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *conversation) reply(m *wire.Message, id []byte) error {
	if m == nil || m.ID == nil {
		return nil
	}
	if id == nil {
		id = m.ID
	}
	result, bad := c.answer(m)
	if bad != nil {
		return c.send(bad.Frame(id, m.Era()))
	}
	return c.send(wire.ResultFrame(id, result))
}

func (c *conversation) ask(a Act, rest waiting) error {
	c.asked++
	id := fmt.Sprintf("ask-%d", c.asked)
	key, bad := wire.IDKey([]byte(`"` + id + `"`))
	if bad != nil {
		return bad
	}
	c.answers[key] = rest
	var o object
	o.add("jsonrpc", "2.0")
	o.add("id", id)
	o.add("method", string(a.Text))
	if a.Data != nil {
		o.addRaw(`"params"`, a.Data)
	}
	return c.send(o.text())
}

func (c *conversation) progress(m *wire.Message, done int) error {
	if m == nil {
		return nil
	}
	token := wire.Member(m.Meta, "progressToken")
	if token == nil {
		return nil
	}
	return c.send(notification("notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, done)))
}

func notification(method string, params []byte) []byte {
	var o object
	o.add("jsonrpc", "2.0")
	o.add("method", method)
	if params != nil {
		o.addRaw(`"params"`, params)
	}
	return o.text()
}

// send sends one message.
func (c *conversation) send(message []byte) error {
	framed := c.server.Framing.frame(message)
	if c.server.Framing == BOM && !c.framed {
		framed = append([]byte("\ufeff"), framed...)
	}
	c.framed = true
	return c.out.write(framed)
}

// frame returns a message with its framing.
func (f Framing) frame(message []byte) []byte {
	switch f {
	case CRLF:
		return append(message, "\r\n"...)
	case ContentLength:
		return fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", len(message), message)
	case Lines, BOM:
	}
	return append(message, '\n')
}
