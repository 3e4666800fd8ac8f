package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// gate is a policy for tests: it allows all calls except those whose command contains
// "forbidden" or "ask". It counts its decisions.
type gate struct{ calls atomic.Int64 }

func (g *gate) Decide(f policies.Facts) policies.Decision {
	g.calls.Add(1)
	switch {
	case strings.Contains(f.Command, "forbidden"):
		return policies.Decision{Verdict: policies.Deny, Rule: "no-forbidden", Reason: "it is forbidden", Instead: "say hello", Part: f.Command}
	case strings.Contains(f.Command, "ask"):
		return policies.Decision{Verdict: policies.Ask, Rule: "ask-first"}
	}
	return policies.Decision{Verdict: policies.Allow, Rule: "all"}
}

type echoInput struct {
	Text    string            `json:"text" jsonschema:"what to say"`
	Times   *int64            `json:"times,omitempty" jsonschema:"how often"`
	Loud    bool              `json:"loud,omitempty"`
	Rate    float64           `json:"rate,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Nested  nested            `json:"nested,omitzero"`
	OnError string            `json:"on_error,omitempty"`
}

type nested struct {
	Depth int `json:"depth"`
}

func (in echoInput) Facts() policies.Facts { return policies.Facts{Command: in.Text} }

type echoOutput struct {
	Said string `json:"said"`
}

type noInput struct{}

func (noInput) Facts() policies.Facts { return policies.Facts{} }

type bytesInput struct {
	Bytes int `json:"bytes"`
}

func (bytesInput) Facts() policies.Facts { return policies.Facts{} }

// toy is a server with tools that exercise the front end.
type toy struct {
	*mcp.Server
	gate      *gate
	running   chan string   // gets the call id of each hang that has started
	cancelled chan error    // gets the cause of each hang that was cancelled
	free      chan struct{} // each value lets one hang return; closing it lets all return
	ended     chan string   // gets the id of each session that has ended
}

func newToy(t testing.TB, change ...func(*mcp.Config)) *toy {
	t.Helper()
	ty := &toy{
		gate:    &gate{},
		running: make(chan string, 4096), cancelled: make(chan error, 4096),
		free: make(chan struct{}), ended: make(chan string, 512),
	}
	cfg := mcp.Config{
		Gate: ty.gate, Name: "toy", Version: "1", Log: slog.New(slog.DiscardHandler),
		Moments: mcp.Moments{OnSessionEnd: func(s *mcp.Session) { ty.ended <- s.ID() }},
	}
	for _, f := range change {
		f(&cfg)
	}
	server, err := mcp.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ty.Server = server
	server.KeepTasks(newKeeper())
	mcp.AddTool(server, mcp.Tool{Name: "echo", Title: "Echo", Description: "says it", ReadOnly: true, Output: echoOutput{}},
		func(_ context.Context, _ mcp.Call, in echoInput) (*mcp.Result, error) {
			r := mcp.Text("%s", in.Text)
			r.Structured = echoOutput{in.Text}
			return r, nil
		})
	mcp.AddTool(server, mcp.Tool{Name: "hang", Description: "runs until it is cancelled or set free"},
		func(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
			ty.running <- call.ID
			select {
			case <-ctx.Done():
				ty.cancelled <- context.Cause(ctx)
				return nil, ctx.Err()
			case <-ty.free:
				return mcp.Text("free"), nil
			}
		})
	mcp.AddTool(server, mcp.Tool{Name: "hold", Description: "keeps its text until it is cancelled or set free"},
		func(ctx context.Context, call mcp.Call, in echoInput) (*mcp.Result, error) {
			ty.running <- call.ID
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-ty.free:
				return mcp.Text("%d", len(in.Text)), nil
			}
		})
	mcp.AddTool(server, mcp.Tool{Name: "panic", Description: "panics"},
		func(context.Context, mcp.Call, noInput) (*mcp.Result, error) { panic("secret reason") })
	mcp.AddTool(server, mcp.Tool{Name: "fail", Description: "fails"},
		func(context.Context, mcp.Call, noInput) (*mcp.Result, error) {
			return nil, errors.New("it did not work; try echo")
		})
	mcp.AddTool(server, mcp.Tool{Name: "big", Description: "answers so many bytes", MaxResultChars: 500_000},
		func(_ context.Context, _ mcp.Call, in bytesInput) (*mcp.Result, error) {
			return mcp.Text("%s", strings.Repeat("x", in.Bytes)), nil
		})
	mcp.AddTool(server, mcp.Tool{Name: "steps", Description: "tells its progress"},
		func(_ context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
			for i := range 3 {
				call.Progress(float64(i+1), 3, fmt.Sprintf("step %d", i+1))
			}
			return &mcp.Result{Content: []mcp.Content{
				{Text: "done"}, {Data: []byte("png"), MIME: "image/png"}, {URI: "note://7", Text: "note", MIME: "text/plain"},
			}}, nil
		})
	server.AddResource(mcp.Resource{
		Template: "note://{id}", Name: "note", MIME: "text/plain",
		Read: func(_ context.Context, s *mcp.Session, uri string) ([]byte, string, error) {
			if uri != "note://7" {
				return nil, "", mcp.ErrNotFound
			}
			return []byte("seven"), "", nil
		},
	})
	return ty
}

// client is the other end of a stdio connection.
type client struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *io.PipeReader
	line chan string // lines that the server wrote; closed when the server has stopped writing
	done chan error  // gets the error of ServeStdio
	stop context.CancelFunc
}

// connect starts a conversation over pipes. The test's cleanup ends it.
func (ty *toy) connect(t testing.TB) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	c := &client{t: t, in: inW, out: outR, line: make(chan string, 8192), done: make(chan error, 1), stop: stop}
	go func() {
		err := ty.ServeStdio(ctx, inR, outW)
		outW.Close()
		c.done <- err
	}()
	go func() {
		defer close(c.line)
		r := bufio.NewReader(outR)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.line <- line[:len(line)-1]
		}
	}()
	t.Cleanup(c.close)
	return c
}

// close ends the conversation and waits for its end. A test in a synctest bubble must call
// close itself, since its cleanups run outside of the bubble.
func (c *client) close() {
	c.stop()
	c.in.Close()
	for range c.line {
	}
	c.out.Close()
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatalf("write %.100s: %v", line, err)
		}
	}
}

// answer is a line that the server wrote.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	raw string
}

// short returns the answer in the form of the test tables.
func (a answer) short() string {
	if a.Error != nil {
		return fmt.Sprintf("%s: %d", a.ID, a.Error.Code)
	}
	return fmt.Sprintf("%s: ok", a.ID)
}

func (c *client) next() answer {
	c.t.Helper()
	select {
	case line, ok := <-c.line:
		if !ok {
			c.t.Fatalf("the server ended the conversation; ServeStdio: %v", <-c.done)
		}
		return parse(c.t, line)
	case <-time.After(20 * time.Second):
		c.t.Fatal("no answer in 20 s")
	}
	return answer{}
}

func parse(t testing.TB, line string) answer {
	t.Helper()
	a := answer{raw: line}
	if line[0] == '[' {
		return a
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("the server wrote %.200q: %v", line, err)
	}
	return a
}

const (
	hello       = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// greet makes the handshake.
func (c *client) greet(revision string) answer {
	c.t.Helper()
	c.send(fmt.Sprintf(hello, revision))
	a := c.next()
	if a.Error != nil {
		c.t.Fatalf("initialize: %s", a.raw)
	}
	c.send(initialized)
	return a
}

func call(id, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

// text returns the first text of a tools/call result.
func (a answer) text() string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(a.Result, &r) != nil || len(r.Content) == 0 {
		return a.raw
	}
	return r.Content[0].Text
}

// split returns the answers of a batch.
func split(t testing.TB, line string) (all []answer) {
	t.Helper()
	var raws []json.RawMessage
	if err := json.Unmarshal([]byte(line), &raws); err != nil {
		t.Fatalf("the server wrote %.200q: %v", line, err)
	}
	for _, raw := range raws {
		all = append(all, parse(t, string(raw)))
	}
	return all
}
