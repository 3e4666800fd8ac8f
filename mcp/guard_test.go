package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/mcp/wire"
	"belljar.dev/policies"
)

// TestStates checks the states, and that there is no other way from one state to another
// (W11).
func TestStates(t *testing.T) {
	states := []State{Uninitialized, Initializing, Ready, Shutting, Closed}
	valid := map[string]State{
		"uninitialized initialize": Initializing,
		"initializing initialized": Ready,
		"initializing reject":      Uninitialized,
		"uninitialized shutdown":   Shutting,
		"initializing shutdown":    Shutting,
		"ready shutdown":           Shutting,
		"uninitialized error":      Shutting,
		"initializing error":       Shutting,
		"ready error":              Shutting,
		"shutting close":           Closed,
	}
	for _, from := range states {
		for e := evInitialize; e <= evClose; e++ {
			name := from.String() + " " + e.String()
			got, err := from.next(e)
			want, ok := valid[name]
			var invalid *InvalidTransition
			switch {
			case ok && (err != nil || got != want):
				t.Errorf("%s: %v, %v, want %v", name, got, err, want)
			case !ok && (!errors.As(err, &invalid) || invalid.From != from || got != from):
				t.Errorf("%s: %v, %v, want InvalidTransition", name, got, err)
			}
		}
	}
}

func TestCloseUnblocksRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Gate: allowAll{}})
		if err != nil {
			t.Fatal(err)
		}
		session, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := wire.NewLineWriter(io.Discard, nil)
		g := newGuard(session, lines{LineWriter: w})
		read := make(chan error, 1)
		go func() {
			_, err := g.Read(context.Background())
			read <- err
		}()
		synctest.Wait()
		g.Close()
		g.Close()
		if err := <-read; !errors.Is(err, io.EOF) {
			t.Errorf("Read after Close: %v, want EOF", err)
		}
		w.Close()
		<-w.Done()
		session.Close()
	})
}

// A request of this server ends when the client's answer to it is too long or cannot be
// read. It does not wait until its time is up.
func TestARefusedAnswerEndsItsRequest(t *testing.T) {
	for name, line := range map[string]string{
		"too long":    `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("x", 2<<20) + `"}}`,
		"a key twice": `{"jsonrpc":"2.0","id":7,"result":{"x":1,"x":2}}`,
	} {
		s, err := New(Config{Gate: allowAll{}})
		if err != nil {
			t.Fatal(err)
		}
		session, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := wire.NewLineWriter(io.Discard, nil)
		g := newGuard(session, lines{LineWriter: w})
		g.asked[int64(7)] = struct{}{}
		if err := readLines(g, strings.NewReader(line+"\n")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(g.waiting) != 1 || len(g.asked) > 0 {
			t.Errorf("%s: %d messages for the sdk, and %d requests still wait", name, len(g.waiting), len(g.asked))
		}
		g.Close()
		w.Close()
		<-w.Done()
		session.Close()
	}
}

// allowAll is a gate without a policy.
type allowAll struct{}

func (allowAll) Decide(policies.Facts) policies.Decision {
	return policies.Decision{Verdict: policies.Allow}
}

type fuzzInput struct {
	Text string `json:"text"`
}

func (fuzzInput) Facts() policies.Facts { return policies.Facts{} }

// FuzzGuard sends a handshake and then any bytes. The server must answer only what was
// asked, in JSON, and must end when the client ends.
func FuzzGuard(f *testing.F) {
	const handshake = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"f","version":"0"}}}` + "\n"
	for _, s := range []string{
		"", "1", "[]", "{}", `{"a":1,"a":2}`, `{"a":{"b":[1,2,{"c":null}]}}`, ` { "jsonrpc" : "2.0" , "id" : "x" , "method" : "ping" } `,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":1,"method":"ping"},3]`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`,
	} {
		f.Add([]byte(s))
	}
	s, err := New(Config{Gate: allowAll{}, Limits: Limits{Line: 4096, Depth: 16, Drain: time.Second}})
	if err != nil {
		f.Fatal(err)
	}
	AddTool(s, Tool{Name: "echo", Description: "says it"}, func(_ context.Context, _ Call, in fuzzInput) (*Result, error) {
		return Text("%s", in.Text), nil
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		in := io.NopCloser(io.MultiReader(strings.NewReader(handshake), bytes.NewReader(text)))
		started := time.Now()
		if err := s.ServeStdio(t.Context(), in, &out); err != nil {
			t.Fatalf("ServeStdio: %v", err)
		}
		if took := time.Since(started); took >= time.Second {
			t.Fatalf("the end took %v", took)
		}
		// There are no more answers than lines. A batch contains several requests, but its
		// answer is one line.
		lines := 2 + bytes.Count(text, []byte("\n"))
		for line := range bytes.Lines(out.Bytes()) {
			lines--
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatalf("the server wrote %q: %v", line, err)
			}
			if m, ok := v.(map[string]any); ok && m["method"] != nil {
				lines++ // the line is a notification
			}
		}
		if lines < 0 {
			t.Fatalf("more answers than lines:\n%s\nto\n%q", out.Bytes(), text)
		}
	})
}
