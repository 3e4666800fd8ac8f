package mcp

import (
	"context"
	"errors"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// outlet receives the messages of a guard for its client. Over stdio, over a WebSocket and
// over HTTP with SSE, these are all messages. Over Streamable HTTP, an outlet receives the
// answer to one POST with the messages that belong to it, or the messages that belong to no
// request.
type outlet interface {
	// Send sends a message of the server.
	Send(frame []byte, as kind) error
	// Answer sends the answer to one message or batch; a nil frame means that there is no
	// answer. why is set if the whole message or batch was refused. with is notified
	// whether the answer was written.
	Answer(frame []byte, why *wire.Error, with ...wire.Delivery) error
}

// kind is the kind of a message of the server.
type kind int

const (
	aRequest kind = iota
	aNotification
	aProgress // a progress message may be lost
)

// outletKey is the key of the outlet in the context of a request.
type outletKey struct{}

// sendIn sends a message of the server to the outlet of the request that is served in ctx,
// or to the guard's own outlet if the request's outlet takes no more messages.
func (g *guard) sendIn(ctx context.Context, frame []byte, as kind) error {
	if to, ok := ctx.Value(outletKey{}).(outlet); ok {
		if err := to.Send(frame, as); !errors.Is(err, sse.ErrOver) {
			return err
		}
	}
	return g.out.Send(frame, as)
}

// lines is the outlet of a conversation over stdio or a WebSocket.
type lines struct {
	*wire.LineWriter

	among bool // there are other clients, whose notifications are sent after this client's
}

// Send queues a line. If too many lines wait, progress is lost, because a slow client must
// not slow down a call. A notification is lost, too, if other clients would have to wait.
func (l lines) Send(frame []byte, as kind) error {
	if as == aProgress || as == aNotification && l.among {
		return l.Offer(frame)
	}
	return l.LineWriter.Send(frame)
}

// Answer queues a line.
func (l lines) Answer(frame []byte, _ *wire.Error, with ...wire.Delivery) error {
	if frame == nil {
		return nil
	}
	err := l.LineWriter.Send(frame, with...)
	if err != nil {
		for _, o := range with {
			o.Done(false)
		}
	}
	return err
}

// stream is an outlet over HTTP.
type stream struct{ *sse.Stream }

// Send sends an event. If no client reads it, a notification is lost, or waits for a client
// that reconnects.
func (s stream) Send(frame []byte, as kind) error {
	if as == aRequest {
		return s.Request(frame)
	}
	if err := s.Notify(frame); errors.Is(err, sse.ErrOver) {
		return err
	}
	return nil
}

// Answer ends the stream.
func (s stream) Answer(frame []byte, _ *wire.Error, with ...wire.Delivery) error {
	return s.Stream.Answer(frame, with...)
}

// exchange is the outlet of one POST.
type exchange struct {
	stream
	caller  *Identity       // caller of the POST; nil if there are no tenants
	detach  <-chan struct{} // closed when nobody reads the answer any more, see WithDetach; may be nil
	served  *Served         // receives the outcome of the request; may be nil
	refused *wire.Error     // why the whole POST was refused; set before its answer is sent
}

// newExchange returns the outlet of a POST with the context ctx. The answer is sent to s.
func newExchange(ctx context.Context, s *sse.Stream) *exchange {
	return &exchange{stream: stream{s}, caller: identityIn(ctx), detach: detachedIn(ctx), served: servedIn(ctx)}
}

// identityIn returns the caller in the context of a request; nil if there are no tenants.
func identityIn(ctx context.Context) *Identity {
	if id, ok := ctx.Value(callerKey{}).(Identity); ok {
		return &id
	}
	return nil
}

func (x *exchange) from() *Identity { return x.caller }

// letter is the outlet of a POST over HTTP with SSE: its answers go to the stream of the
// session.
type letter struct {
	stream
	caller *Identity // caller of the POST; nil if there are no tenants
}

func (l *letter) from() *Identity { return l.caller }

// Answer sends an event. It waits for a client that does not read.
func (l *letter) Answer(frame []byte, _ *wire.Error, with ...wire.Delivery) error {
	if frame != nil {
		l.Reply(frame, with...)
	}
	return nil
}

// withOutlet returns the context for a request that came with an outlet. ctx is the context
// of the session: the request that began the session has ended, and may have had another
// token.
func withOutlet(ctx context.Context, to outlet) context.Context {
	if x, ok := to.(interface{ from() *Identity }); ok && x.from() != nil {
		ctx = context.WithValue(ctx, callerKey{}, *x.from())
	}
	var served *Served // not that of the request which began the session
	if x, ok := to.(*exchange); ok {
		served = x.served
		if x.detach != nil {
			ctx = WithDetach(ctx, x.detach)
		}
	}
	if served != servedIn(ctx) {
		ctx = context.WithValue(ctx, servedKey{}, served)
	}
	return context.WithValue(ctx, outletKey{}, to)
}

// Answer ends the stream.
func (x *exchange) Answer(frame []byte, why *wire.Error, with ...wire.Delivery) error {
	x.refused = why
	return x.stream.Answer(frame, nil, with...)
}
