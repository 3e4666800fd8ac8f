package mcp

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Suite contains the tools, resources and prompts that the protocol's conformance suite
// calls by name and this package cannot express. The only implementation is in
// internal/conformance; production servers have none. Values of the go-sdk are passed as
// any, since no exported signature may contain a type of the go-sdk.
type Suite interface {
	// Register adds the suite's tools, resources and prompts. below is the server of the
	// go-sdk, a *mcp.Server of its package mcp.
	Register(s *Server, below any)
	// Defers returns how a call of a tool is deferred. call is the go-sdk's
	// *mcp.CallToolRequest.
	Defers(tool string, call any) Deferral
}

// Deferral is how a call of a tool of the Suite is deferred. The zero value defers it like
// other calls.
type Deferral struct {
	Always   bool // deferred immediately, however long the call takes
	Required bool // a client without the tasks extension cannot make the call
	Asks     bool // the call asks the client before it is deferred
}

// AskByTask asks the client of a deferred call, for a Suite. request is an InputRequest of
// the go-sdk, and answer an InputResponse.
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
