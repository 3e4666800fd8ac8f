package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp"
	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/names"
	"belljar.dev/mcp/upstream/peer"
	"belljar.dev/mcp/upstream/pin"
	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// calls makes the calls of clients.
type calls struct {
	*site
	pool   *upstream.Pool[*conn]
	offers *offers
	kept   keeper
}

// gather implements Gateway.Gather.
func (g *calls) gather(ctx context.Context, s *mcp.Session) {
	g.offers.begin(s.Tenant())
	if missing := g.offers.missing(s.Tenant()); len(missing) > 0 {
		for _, status := range g.pool.Gather(ctx, callerOf(s), missing...) {
			g.offers.state(status) // the instance itself may report it a little later
		}
	}
}

// callerOf returns the caller of a session's calls, in the form for the pool.
func callerOf(s *mcp.Session) upstream.Caller {
	return upstream.Caller{Tenant: s.Tenant(), Principal: s.Principal(), Session: s.ID()}
}

// run makes a call of a tool that was offered with a definition, or continues the call for
// which a client has sent answers.
func (g *calls) run(ctx context.Context, call mcp.Call, tool names.Tool, offered pin.Digest, args json.RawMessage) (*mcp.Result, error) {
	if !call.AsksByResult() {
		return g.once(ctx, &running{call: call}, tool, offered, args)
	}
	return g.resumable(ctx, call, tool, offered, args)
}

// resumable is run for a client that is asked by the result of its call.
func (g *calls) resumable(ctx context.Context, call mcp.Call, tool names.Tool, offered pin.Digest, args json.RawMessage) (*mcp.Result, error) {
	one, err := g.kept.resume(call)
	if err != nil {
		return nil, err
	}
	if one == nil {
		args = bytes.Clone(args) // the request may end before the call
		one = g.kept.begin(ctx, call, g.cfg.Log, func(ctx context.Context, one *kept) (*mcp.Result, error) {
			return g.once(ctx, &running{call: call, kept: one}, tool, offered, args)
		})
	}
	res, err := one.follow(ctx)
	if err != nil {
		g.kept.end(one, err)
	}
	return res, err
}

// once makes one call of a tool.
func (g *calls) once(ctx context.Context, run *running, tool names.Tool, offered pin.Digest, args json.RawMessage) (res *mcp.Result, err error) {
	err = g.pool.Do(ctx, run.call.Grant, callerOf(run.call.Session), tool.Server, func(ctx context.Context, c *conn) error {
		d, err := c.tool(ctx, tool.Native, offered)
		if err != nil {
			return err
		}
		// The arguments stay as the client wrote them, because package mcp has checked
		// them.
		params := make([]byte, 0, len(tool.Native)+len(args)+32)
		params = wire.AppendQuoted(append(params, `{"name":`...), tool.Native)
		params = append(append(append(params, `,"arguments":`...), args...), '}')
		raw, err := c.ask(ctx, run, "tools/call", params, d.raw)
		if err != nil {
			return err
		}
		res, err = mcp.RawResult(tool.Server, raw)
		return err
	})
	return res, err
}

// tool returns the definition of a tool. It returns an error if the connection does not
// have the definition that was offered.
func (c *conn) tool(ctx context.Context, native string, offered pin.Digest) (d definition, err error) {
	f, err := c.now(ctx)
	if err != nil {
		return d, err
	}
	d, ok := f.tools[native]
	switch {
	case !ok && f.verdict.Why(pin.KindTool, native) != "":
		err = fmt.Errorf("the server %s offers this tool with a definition that is not trusted: %s. Nothing was called. Tell the person you work for: belljar upstream pins diff %s shows it. Go on without the tool", upstream.Line(c.server.Name), f.verdict.Why(pin.KindTool, native), printable.Operand(c.server.Name))
	case !ok:
		err = fmt.Errorf("the server %s has no such tool any more. Nothing was called. List the tools again", upstream.Line(c.server.Name))
	case d.sum != offered && f.verdict.Mode != pin.Off:
		err = fmt.Errorf("the server %s offers this tool with another definition than the one that was listed. Nothing was called. List the tools again", upstream.Line(c.server.Name))
	}
	return d, err
}

// ask makes a request for a call of a client. Questions of the server go to that client
// meanwhile.
func (c *conn) ask(ctx context.Context, run *running, method string, params, tool json.RawMessage) (json.RawMessage, error) {
	call := &run.call
	c.mu.Lock()
	c.calls[call.ID] = run
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, call.ID)
		c.mu.Unlock()
	}()
	level, logs := c.listen(ctx, run)
	var offers json.RawMessage
	if c.Info().Era == wire.Modern { // a server of this era gets the list of what its client can be asked
		offers = offersOf(c.server, offersAt{person: call.Asks(), browser: call.Opens() != mcp.NotAsked, model: call.Samples()})
	}
	how := peer.CallOptions{
		Timeout: c.server.Settings.Timeouts.Call, Owner: call.ID, Session: call.Session.ID(), Depth: call.Depth, Tool: tool, Capabilities: offers, Level: level, Log: logs,
		Progress: func(params json.RawMessage) { run.tell(func(call mcp.Call) { report(call, params) }) },
	}
	raw, err := c.Call(ctx, method, params, how)
	for e, ok := errors.AsType[*peer.Error](err); ok && e.Code == addressCode; e, ok = errors.AsType[*peer.Error](err) {
		if again, err := c.askAddresses(ctx, run, e); !again {
			return nil, err
		}
		raw, err = c.Call(ctx, method, params, how)
	}
	c.mu.Lock()
	comes := run.comes
	c.mu.Unlock()
	if comes {
		return nil, errComesAgain
	}
	return raw, c.failure(err)
}

// errComesAgain is the error for the use of a prompt or a resource whose result asks the
// client. The answer of the server does not count without the client's answer.
var errComesAgain = errors.New("the client answers a question first, and makes the call again")

// report passes on the progress of a call.
func report(call mcp.Call, params json.RawMessage) {
	var p struct {
		Progress float64 `json:"progress"`
		Total    float64 `json:"total"`
		Message  string  `json:"message"`
	}
	if json.Unmarshal(params, &p) == nil {
		call.Progress(p.Progress, p.Total, p.Message)
	}
}

// timedOut returns the error for a request that the server did not answer in time. The text
// of the server is at the end, on its own line: it must not look like a sentence of
// belljar. If several principals share the server, the text is left out, because it may be
// about the call of another principal.
func (c *conn) timedOut(late *peer.TimeoutError) error {
	did, last := late.Meanwhile(), ""
	if c.stderr != nil {
		did = "its process runs, and " + did
	}
	if c.stderr != nil && c.server.Settings.Share != policies.ShareTenant {
		last = ".\nIt has written no line to stderr"
		if lines := c.stderr(1); len(lines) > 0 {
			last = ".\nThe last line that it wrote to stderr:\n  " + upstream.Line(lines[0])
		}
	}
	return fmt.Errorf("the server %s did not answer within %v, and was told to stop: %s. What it had done until then stays done. Retry with less work, or go on without the tool%s",
		upstream.Line(c.server.Name), late.After, did, last)
}

// failure returns the error of a request in the form for a client.
func (c *conn) failure(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*peer.Error](err); ok {
		return &mcp.RemoteError{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	if late, ok := errors.AsType[*peer.TimeoutError](err); ok {
		return c.timedOut(late)
	}
	return fmt.Errorf("the server %s: %w", upstream.Line(c.server.Name), loginHint(err))
}
