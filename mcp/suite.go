package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Suite is what the protocol's conformance suite calls by name and this package cannot
// express. internal/conformance has the only one, which no server in use has. Values of
// the go-sdk cross it as any, since no exported signature has a type of the go-sdk.
type Suite interface {
	// Register adds the suite's tools, resources and prompts. below is the server of the
	// go-sdk, a *mcp.Server of its package mcp.
	Register(s *Server, below any)
	// Defers says how a call of a tool is deferred. call is the go-sdk's
	// *mcp.CallToolRequest.
	Defers(tool string, call any) Deferral
}

// Deferral is how a call of a tool of the Suite is deferred. The zero value defers it in
// the way of other calls.
type Deferral struct {
	Always   bool // at once, whatever the time that the call takes
	Required bool // a client without the tasks extension cannot make the call
	Asks     bool // the call asks something before it is deferred
}

// AskByTask asks the client of a deferred call, for a Suite. request is an InputRequest
// of the go-sdk, and the answer an InputResponse.
func AskByTask(ctx context.Context, request any) (answer any, err error) {
	d := deferredIn(ctx)
	r, ok := request.(sdk.InputRequest)
	switch {
	case d == nil:
		return nil, errors.New("the client cannot be asked")
	case !ok:
		return nil, fmt.Errorf("ask a client: a %T is not a request", request)
	}
	return d.ask(ctx, r)
}
