package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp/wire"
)

// In the modern era a server asks in its result: the client answers the questions and makes
// the same call again, with the answers and the server's state, which the client must not
// interpret (MCP 2026-07-28, "Multi Round-Trip Requests").

const (
	mostInputs = 16        // most questions of one result
	mostState  = 256 << 10 // most bytes of a server's state
)

// wantsInput reports whether a result asks for input, and whether results of the method
// may.
func wantsInput(era wire.Era, method string, result json.RawMessage) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		return era == wire.Modern && wire.Text(wire.Member(result, "resultType")) == "input_required"
	}
	return false
}

// input answers the questions of a result, one after the other, since most answers come
// from a person. It returns the members with the answers for the next request.
func (c *Conn) input(ctx context.Context, result json.RawMessage, o CallOptions) ([]byte, error) {
	questions, state := wire.Member(result, "inputRequests"), wire.Member(result, "requestState")
	if questions == nil && state == nil {
		return nil, errors.New("the result has neither inputRequests nor requestState")
	}
	if state != nil && (state[0] != '"' || len(state) > mostState) {
		return nil, fmt.Errorf("its requestState must be a string of at most %d bytes", mostState)
	}
	if questions == nil { // the server wants the call to be repeated, but not immediately
		return members("requestState", state), pause.For(ctx, time.Second)
	}
	if !wire.IsObject(questions) {
		return nil, errors.New("its inputRequests must be an object")
	}
	capabilities := o.Capabilities
	if capabilities == nil {
		capabilities = c.cfg.Capabilities
	}
	ctx, done := c.whileOpen(ctx)
	defer done()
	var answers []byte
	var bad error
	n := 0
	wire.Members(questions, func(name, question []byte) bool {
		if n++; n > mostInputs {
			bad = fmt.Errorf("it asks more than %d questions in one result", mostInputs)
			return false
		}
		r := Request{Owner: o.Owner, Method: wire.Text(wire.Member(question, "method")), Params: wire.Member(question, "params")}
		var answer json.RawMessage
		if bad = offered(r.Method, capabilities); bad == nil {
			answer, bad = c.cfg.OnRequest(ctx, r)
		}
		if bad == nil && !json.Valid(answer) {
			bad = fmt.Errorf("the answer to %s is not JSON", r.Method)
		}
		if bad == nil {
			answers = appendMember(answers, name, oneLine(answer))
		}
		return bad == nil
	})
	if bad != nil {
		return nil, bad
	}
	responses := append(append([]byte{'{'}, answers...), '}')
	b := members("inputResponses", responses)
	if state != nil {
		b = appendMember(b, []byte("requestState"), state)
	}
	return b, nil
}

// whileOpen returns a context that also ends with the connection, until done is called.
func (c *Conn) whileOpen(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-c.over:
			cancel(c.Err())
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-over
	}
}

func members(name string, value []byte) []byte { return appendMember(nil, []byte(name), value) }
