package mcp

import (
	"context"
	"errors"

	"belljar.dev/mcp/sse"
	"belljar.dev/mcp/wire"
)

// outlet takes what a guard has for its client: all of it over stdio, over a WebSocket and
// over HTTP with SSE; over Streamable HTTP the answer to one POST, with what belongs to
// that, or what belongs to no request.
type outlet interface {
	// Send sends a message of ours.
	Send(frame []byte, as kind) error
	// Answer sends the answer to what came in one piece; a nil frame says that there is
	// none. why is set if all of it was refused. with gets to know whether the answer was
	// written.
	Answer(frame []byte, why *wire.Error, with ...wire.Delivery) error
}

// kind is what a message of ours is.
type kind int

const (
	aRequest kind = iota
	aNotification
	aProgress // progress may be lost
)

// outletKey is where the context of a request holds its outlet.
type outletKey struct{}

// sendIn sends a message of ours: to the outlet of the request that is being served in
// ctx, if that takes messages yet.
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

	among bool // other clients get their notifications after this one
}

// Send queues a line. Progress is lost where too much waits, since a slow client must
// not slow a call down, and so is a notification for which others would wait.
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

// Send sends an event. A notification that nobody reads is lost, or waits for a client
// that comes back.
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
	caller  *Identity       // the caller; nil where there are no tenants
	detach  <-chan struct{} // closed when nobody reads its answer any more, see WithDetach; nil for never
	served  *Served         // where it is noted what becomes of it; nil for nowhere
	refused *wire.Error     // why all of it was refused; set before its answer is sent
}

// newExchange returns the outlet of a POST in whose context ctx is. Its answer goes to s.
func newExchange(ctx context.Context, s *sse.Stream) *exchange {
	return &exchange{stream: stream{s}, caller: identityIn(ctx), detach: detachedIn(ctx), served: servedIn(ctx)}
}

// identityIn is the caller in the context of a request; nil where there are no tenants.
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
	caller *Identity // the caller; nil where there are no tenants
}

func (l *letter) from() *Identity { return l.caller }

// Answer sends an event. A client that does not read is waited for.
func (l *letter) Answer(frame []byte, _ *wire.Error, with ...wire.Delivery) error {
	if frame != nil {
		l.Reply(frame, with...)
	}
	return nil
}

// withOutlet returns the context in which a request is served that came with an outlet.
// ctx is that of the session: the request that began it is over, and may have been
// another caller's token.
func withOutlet(ctx context.Context, to outlet) context.Context {
	if x, ok := to.(interface{ from() *Identity }); ok && x.from() != nil {
		ctx = context.WithValue(ctx, callerKey{}, *x.from())
	}
	var served *Served // nothing of the request that began the session
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
