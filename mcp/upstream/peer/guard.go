package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"belljar.dev/mcp/wire"
)

// mostBlank is how many empty lines in a row a server may send.
const mostBlank = 4096

// guard handles the messages that the server sends. Its methods may be called from many
// goroutines.
type guard struct{ *Conn }

// receive handles a text that the server has sent: a message, a batch, or something else.
// from is the call in whose response the text came; nil if the transport does not tell.
func (g guard) receive(ctx context.Context, text []byte, from *call) {
	text = wire.TrimLine(text)
	if len(text) == 0 {
		g.blank()
		return
	}
	if text[0] == '[' && g.batches() {
		if err := wire.CheckJSON(text, g.cfg.Limits.Depth); err != nil {
			g.bad(text, err.Error())
			return
		}
		wire.Elements(text, func(raw []byte) bool {
			g.message(ctx, raw, from, false)
			return g.Err() == nil
		})
		return
	}
	err := wire.CheckJSON(text, g.cfg.Limits.Depth)
	deep := errors.Is(err, wire.ErrDeep)
	if deep { // one deep item of a list must not remove the other items
		err = wire.CheckJSON(text, deepestAnswer)
	}
	if err != nil {
		g.spoiled(wire.AnswerID(text), from, err.Error())
		g.bad(text, err.Error())
		return
	}
	g.message(ctx, text, from, deep)
}

// batches reports whether the server may send batches.
func (g guard) batches() bool {
	info := g.info.Load()
	return info != nil && info.Revision == wire.BatchRevision
}

// message handles one JSON message. deep reports that it is nested more deeply than
// Limits.Depth allows.
func (g guard) message(ctx context.Context, raw []byte, from *call, deep bool) {
	m, bad := wire.ParseMessage(raw)
	switch {
	case bad != nil:
		g.bad(raw, bad.Text)
	case m.Method == "":
		g.answered(m, from, deep)
	case deep:
		g.bad(raw, fmt.Sprintf("the message is nested deeper than %d levels", g.cfg.Limits.Depth))
	case len(raw) > g.cfg.Limits.Message:
		g.bad(raw, fmt.Sprintf("the message has %d bytes and the limit is %d", len(raw), g.cfg.Limits.Message))
	default:
		g.mu.Lock()
		g.heard.good()
		g.mu.Unlock()
		if m.IsRequest() {
			g.request(ctx, m, from)
		} else {
			g.notified(m, from)
		}
	}
}

// tooLong handles a message that was longer than Limits.Answer. id is the id of the request
// that it answers; nil if that is not known.
func (g guard) tooLong(id []byte, from *call) {
	why := fmt.Sprintf("the answer has more than %d bytes", g.cfg.Limits.Answer)
	g.spoiled(id, from, why)
	g.mu.Lock()
	g.heard.noise += g.cfg.Limits.Answer
	g.mu.Unlock()
	g.bad(nil, fmt.Sprintf("a message of more than %d bytes", g.cfg.Limits.Answer))
}

// spoiled ends the call whose answer cannot be used, if that call is known.
func (g guard) spoiled(id []byte, from *call, why string) {
	n, ok := number(id)
	g.mu.Lock()
	cl := g.open[n]
	g.mu.Unlock()
	if !ok || cl == nil {
		return
	}
	if from == nil || from == cl {
		g.finish(cl, nil, fmt.Errorf("%s: the server's answer cannot be used: %s", cl.method, why))
	}
}

// bad counts a message that cannot be used, and ends the connection if there are too many.
func (g guard) bad(text []byte, why string) {
	sample := why
	if len(text) > 0 {
		sample = excerpt(text, mostShown)
	}
	limits := g.cfg.Limits
	var end error
	g.mu.Lock()
	h := &g.heard
	g.stats.Bad++
	g.stats.Last = sample
	switch {
	case h.any:
		if h.bad++; h.bad >= limits.Bad {
			end = fmt.Errorf("the server sent %d messages in a row that cannot be used; the last: %s (%s)", h.bad, sample, why)
		}
	case bytes.HasPrefix(bytes.ToLower(text[:min(len(text), 32)]), []byte("content-length:")):
		end = errors.New("the server frames its messages with Content-Length headers, like a language server; MCP over stdio has one line of JSON for each message")
	default:
		if h.noise += len(text) + 1; h.noise > limits.Noise {
			end = fmt.Errorf("the server wrote more than %d bytes before its first message; they begin or end with: %s", limits.Noise, sample)
		}
	}
	g.mu.Unlock()
	if end != nil {
		g.fail(end)
	}
}

// blank counts an empty line.
func (g guard) blank() {
	g.mu.Lock()
	g.heard.blank++
	over := g.heard.blank > mostBlank
	g.mu.Unlock()
	if over {
		g.fail(fmt.Errorf("the server sent more than %d empty lines in a row", mostBlank))
	}
}

// answered handles an answer.
func (g guard) answered(m *wire.Message, from *call, deep bool) {
	var result json.RawMessage
	var err error
	switch {
	case m.Failure != nil && string(m.Failure) != "null":
		err = readError(m.Failure)
	case wire.IsObject(m.Result):
		result = m.Result
	default:
		err = fmt.Errorf("the server answered with a result that is not an object: %s", excerpt(m.Result, mostShown))
	}
	g.mu.Lock()
	before := g.stats.WrongID
	cl, late := g.claim(m, from)
	warn := before == 0 && g.stats.WrongID > 0
	if cl == nil && !late {
		g.stats.Unasked++
		g.mu.Unlock()
		g.bad(m.Raw, "an answer whose id matches no open request")
		return
	}
	g.heard.good()
	g.mu.Unlock()
	if cl == nil {
		return
	}
	if warn {
		g.cfg.Log.Warn("an upstream server answers with ids that no request had; such an answer is accepted only while exactly one request is open",
			"id", excerpt(m.ID, mostShown), "method", cl.method)
	}
	if deep && !cl.list {
		result, err = nil, fmt.Errorf("%s: the server's answer is nested deeper than %d levels", cl.method, g.cfg.Limits.Depth)
	}
	cl.result, cl.err = result, err
	cl.end()
}

// notified handles a notification.
func (g guard) notified(m *wire.Message, from *call) {
	switch m.Method {
	case "notifications/progress":
		g.progressed(m.Params)
		return
	case "notifications/cancelled":
		g.cancelled(m.Params)
		return
	}
	if m.Method == logMethod {
		g.logged(m.Params, from)
		return
	}
	g.mu.Lock()
	owner, _ := g.ownerOf(from)
	lost := g.cfg.OnNotification == nil
	if lost {
		g.stats.Dropped++
	}
	g.mu.Unlock()
	if !lost {
		g.queue(Notification{Method: m.Method, Params: m.Params, Owner: owner})
	}
}

// queue adds a notification to the inbox, whose notifications are handled one after the
// other.
func (g guard) queue(n Notification) {
	dropped, merged := g.inbox.add(n)
	if !dropped && !merged {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if dropped {
		g.stats.Dropped++
		if n.Method == logMethod {
			g.table.logs.lost += n.Lost + 1
		}
	} else {
		g.stats.Merged++
	}
}

// progressed queues a progress notification. The goroutine of the call shows it, so that
// none is shown after the call.
func (g guard) progressed(params []byte) {
	id, ok := number(wire.Member(params, progressKey))
	g.mu.Lock()
	defer g.mu.Unlock()
	cl := g.open[id]
	if !ok || cl == nil || cl.progress == nil || len(params) > mostProgress {
		g.stats.Dropped++
		return
	}
	params = bytes.Clone(params) // a copy, so that the params do not keep the whole message in memory
	if len(cl.steps) < perSecond {
		cl.steps = append(cl.steps, params)
	} else { // the newest step replaces the last one
		cl.steps[perSecond-1] = params
		g.stats.Dropped++
	}
	select {
	case cl.wake <- struct{}{}:
	default:
	}
}
