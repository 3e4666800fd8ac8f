package mcp

import (
	"context"
	"errors"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// Completing is what a client wants to complete: an argument of an upstream's prompt, or a
// variable of a template of its resources.
type Completing struct {
	Of    string // name of the prompt, or the template
	Name  string // name of the argument or the variable
	Typed string
	Given map[string]string // values of the other arguments or variables
}

// args returns all that the upstream gets, for rules, people and the audit log: the value by
// its name, and the members "of" and "arguments", which a name of the client's choice does
// not replace. "arguments" contains the other values and this value again.
func (c Completing) args() map[string]any {
	arguments := make(map[string]any, len(c.Given)+1)
	for name, value := range c.Given {
		arguments[name] = value
	}
	arguments[c.Name] = c.Typed
	all := map[string]any{c.Name: c.Typed}
	all["of"], all["arguments"] = c.Of, arguments
	return all
}

// Completion contains the possible values.
type Completion struct {
	Values []string // sorted, the best first
	Total  int      // number of possible values; 0 if it is not known
	More   bool     // there are more values than Values contains
}

// Limits of one completion.
const (
	completeOf = 100  // values (MCP 2025-11-25, "Completion")
	valueMost  = 4096 // bytes of an upstream's value; longer values are left out
	givenMost  = 64   // values of other arguments
)

// known returns a completion that contains all possible values.
func known(values []string, err error) (Completion, error) {
	return Completion{Values: values, Total: len(values)}, err
}

// complete answers completion/complete.
func (a *adapter) complete(ctx context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
	session, err := a.sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	c, err := a.completion(ctx, session, req.Params)
	if err != nil {
		return nil, err
	}
	shown := c.Values[:min(len(c.Values), completeOf)]
	return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
		Values: append([]string{}, shown...), Total: c.Total, HasMore: c.More || len(shown) < len(c.Values),
	}}, nil
}

func (a *adapter) completion(ctx context.Context, session *Session, p *sdk.CompleteParams) (none Completion, _ error) {
	want := Completing{Name: p.Argument.Name, Typed: p.Argument.Value}
	if len(want.Typed) > queryMost {
		return none, wire.Errorf(wire.InvalidParams, "argument.value: got %d bytes, want at most %d", len(want.Typed), queryMost)
	}
	if p.Context != nil {
		if want.Given = p.Context.Arguments; len(want.Given) > givenMost {
			return none, wire.Errorf(wire.InvalidParams, "context.arguments: got %d, want at most %d", len(want.Given), givenMost)
		}
	}
	switch p.Ref.Type {
	case "ref/prompt":
		want.Of = p.Ref.Name
		return a.completePrompt(ctx, session, want)
	case "ref/resource":
		want.Of = p.Ref.URI
		if r := a.server.resources.remoteOf(want.Of); r != nil {
			return a.completeRemote(ctx, r, session, want)
		}
		return a.completeResource(ctx, session, want)
	}
	return none, wire.Errorf(wire.InvalidParams, `ref.type: got %.40q, want "ref/prompt" or "ref/resource"`, p.Ref.Type)
}

// completePrompt completes an argument of a prompt.
func (a *adapter) completePrompt(ctx context.Context, session *Session, want Completing) (none Completion, _ error) {
	prompt, found, err := a.server.prompts.find(ctx, session, want.Of)
	switch from := prompt.from; {
	case err != nil:
		return none, err
	case !found && a.server.cfg.Suite == nil:
		return none, a.server.prompts.unknown(ctx, session, want.Of)
	case from.CompleteGranted != nil:
		return a.server.gate.complete(ctx, session, from.Facts(session, want.Of, nil), want, from.CompleteGranted)
	case from.Complete == nil:
		return none, nil
	default:
		return known(from.Complete(ctx, session, want.Of, want.Name, want.Typed))
	}
}

// completeResource completes a variable of a template of this server.
func (a *adapter) completeResource(ctx context.Context, session *Session, want Completing) (none Completion, _ error) {
	r := a.server.resources.of(want.Of)
	switch {
	case r == nil:
		return none, wire.Errorf(wire.InvalidParams, "unknown resource template %.200q; resources/templates/list lists all templates", want.Of)
	case r.CompleteFacts != nil:
		return known(a.server.resources.completeGated(ctx, r, session, want.Name, want.Typed))
	case r.Complete == nil:
		return none, nil
	}
	return known(r.Complete(ctx, session, want.Name, want.Typed))
}

// completeRemote completes a variable of a template of an upstream.
func (a *adapter) completeRemote(ctx context.Context, r *RemoteResources, session *Session, want Completing) (none Completion, _ error) {
	if r.Complete == nil {
		return none, nil
	}
	f, err := r.Facts(session, want.Of)
	if err != nil {
		return none, wire.Errorf(wire.InvalidParams, "unknown resource template %.200q; resources/templates/list lists all templates", want.Of)
	}
	return a.server.gate.complete(ctx, session, f, want, r.Complete)
}

// complete lets an upstream complete a value, if the policy allows it without an approval.
// For an argument that the policy refuses, there are no values.
func (g *callGate) complete(ctx context.Context, session *Session, f policies.Facts, want Completing, run func(context.Context, Call, Completing) (Completion, error)) (c Completion, err error) {
	id := NewCallID()
	ctx, cancel := context.WithCancelCause(ctx)
	if err := session.begin(id, cancel); err != nil {
		return c, wire.Errorf(wire.InternalError, "%v", err)
	}
	defer session.finish(id)
	f.Args = want.args()
	err = g.runIfAllowed(ctx, session, f, func(call Call) error {
		c, err = run(ctx, call, want)
		return err
	})
	switch bad, ok := errors.AsType[*wire.Error](err); {
	case ok:
		return c, bad
	case errors.Is(err, ErrNotFound):
		return c, wire.Errorf(wire.InvalidParams, "complete %.200q: %s", want.Of, faultText(err))
	case err != nil:
		return c, wire.Errorf(wire.InternalError, "complete %.200q: %s", want.Of, faultText(err))
	}
	c.Values = slices.DeleteFunc(c.Values, func(v string) bool { return len(v) > valueMost })
	return c, nil
}
