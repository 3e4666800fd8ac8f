package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"belljar.dev/policies"
)

// W1, C3: a message ends with LF; a line above its limit is skipped, whatever
// the buffer holds.
func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct {
		name, in string
		want     []string // "!" for a line too long
	}{
		{"empty", "", nil},
		{"lines", "a\nb\n", []string{"a", "b"}},
		{"no LF at the end", "a\nb", []string{"a", "b"}},
		{"blank lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"CR stays", "a\r\n", []string{"a\r"}},
		{"limit", long[:100_000] + "\nb\n", []string{long[:100_000], "b"}},
		{"above the limit", long[:100_001] + "\nb\n", []string{"!", "b"}},
		{"far above the limit", long + long + "\nb\n", []string{"!", "b"}},
		{"above the limit and no LF", long, []string{"!"}},
		{"as long as the buffer", long[:readBuffer] + "\nb", []string{long[:readBuffer], "b"}},
		{"one less than the buffer", long[:readBuffer-1] + "\nb", []string{long[:readBuffer-1], "b"}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "halves": iotest.HalfReader(strings.NewReader(tt.in)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			var got []string
			lines := newLineReader(r, 100_000)
			for {
				line, err := lines.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if _, long := errors.AsType[*longLineError](err); long {
					line = []byte("!")
				} else if err != nil {
					t.Fatalf("%s, %s: %v", tt.name, name, err)
				}
				got = append(got, string(line))
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") || len(got) != len(tt.want) {
				t.Errorf("%s, %s: got %d lines, want %d", tt.name, name, len(got), len(tt.want))
			}
		}
	}
}

// chunks notes how much is written at once.
type chunks struct {
	bytes.Buffer
	largest, writes int
}

func (c *chunks) Write(p []byte) (int, error) {
	c.largest = max(c.largest, len(p))
	c.writes++
	return c.Buffer.Write(p)
}

// W7: answers leave in pieces.
func TestLineWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out chunks
		w := newLineWriter(&out)
		want := ""
		for i := range 100 {
			line := strings.Repeat("x", i*100)
			if err := w.send([]byte(line)); err != nil {
				t.Fatal(err)
			}
			want += line + "\n"
		}
		w.close()
		<-w.done
		if out.String() != want {
			t.Errorf("%d bytes were written, want %d", out.Len(), len(want))
		}
		if out.largest > 8192 {
			t.Errorf("%d bytes were written at once, want at most 8192", out.largest)
		}
		if err := w.send([]byte("late")); err == nil {
			t.Error("send after close was taken")
		}
	})
}

// TestSlowClient holds that a client that does not read holds up answers, not
// progress, and no more than the backlog and one line of memory.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stuck := io.Pipe()
		w := newLineWriter(stuck)
		line := bytes.Repeat([]byte("x"), 100_000)
		sent := make(chan int, 100)
		go func() {
			defer close(sent)
			for i := range 50 {
				if w.send(line) != nil {
					return
				}
				sent <- i
			}
		}()
		synctest.Wait()
		if n := len(sent); n < 10 || n > 24 {
			t.Errorf("%d lines of 100 kB were taken before the client read, want 1 to 2 MiB", n)
		}
		if err := w.offer(line); err != nil {
			t.Errorf("offer: %v", err)
		}
		r.Close()
		for range sent {
		}
		if err := w.send(line); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("send to a client that is gone: %v", err)
		}
		<-w.done
	})
}

// W11: the states, and no other way from one to another.
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
		in, other := io.Pipe()
		g := newGuard(session, in, io.Discard)
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
		g.out.close()
		<-g.out.done
		other.Close()
		session.Close()
	})
}

func TestCheckJSONAgainstTheStandard(t *testing.T) {
	for _, text := range seeds {
		compare(t, []byte(text))
	}
	// Small changes of valid texts find the edges of the grammar.
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		text := []byte(seeds[rnd.IntN(len(seeds))])
		if len(text) == 0 {
			continue
		}
		for range 1 + rnd.IntN(3) {
			const alphabet = `{}[]",:\ntfu0123e.-+ E` + "\x00\xff\t"
			text[rnd.IntN(len(text))] = alphabet[rnd.IntN(len(alphabet))]
		}
		compare(t, text)
	}
}

var seeds = []string{
	``, ` `, `1`, `-0`, `01`, `1.`, `.5`, `1e5`, `1E+05`, `"`, `""`, `"\u12"`, `"\ud800"`, `true`, `tru`, `nul`, `[]`, `[1,]`, `[,1]`,
	`{}`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":{"b":[1,2,{"c":null}]}}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[1] 2`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"a":11}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\\\"b"},"_meta":{"progressToken":7}}}`,
	` { "jsonrpc" : "2.0" , "id" : "x" , "method" : "ping" } `,
}

// compare holds checkJSON to encoding/json, members to what it decodes, and
// requestID to the id that parseMessage reads.
func compare(t *testing.T, text []byte) {
	t.Helper()
	err := checkJSON(text, 1000)
	if _, dup := errors.AsType[*duplicateKeyError](err); dup {
		return
	}
	valid := json.Valid(text) && utf8.Valid(text)
	if (err == nil) != valid {
		t.Errorf("checkJSON(%q) = %v; valid is %v", text, err, valid)
	}
	var want map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &want) != nil {
		return
	}
	if m, bad := parseMessage(text); bad == nil && m.isRequest() && !bytes.Equal(requestID(text), m.id) {
		t.Errorf("requestID(%q) = %q, want %q", text, requestID(text), m.id)
	}
	got := map[string]json.RawMessage{}
	members(bytes.TrimSpace(text), func(name, value []byte) bool {
		got[unquote(name)] = value
		return true
	})
	if len(got) != len(want) {
		t.Errorf("members(%q) found %d, want %d", text, len(got), len(want))
	}
	for name, value := range want {
		if !bytes.Equal(got[name], value) {
			t.Errorf("members(%q)[%q] = %q, want %q", text, name, got[name], value)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s + "\n" + s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := newLineReader(iotest.HalfReader(bytes.NewReader(text)), 100)
		n := 0
		for {
			line, err := lines.next()
			if errors.Is(err, io.EOF) {
				break
			}
			n++
			if _, long := errors.AsType[*longLineError](err); long {
				continue
			}
			if err != nil || len(line) > 100 || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("line %d is %q, %v", n, line, err)
			}
			compare(t, line)
		}
		want := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			want++
		}
		if n != want {
			t.Fatalf("%d lines, want %d", n, want)
		}
	})
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

// FuzzGuard sends a handshake and any bytes, and wants the server to answer
// only what was asked, in JSON, and to end when the client does.
func FuzzGuard(f *testing.F) {
	const handshake = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"f","version":"0"}}}` + "\n"
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	for _, s := range []string{
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
		// The lines sent bound the answers; a batch has more, in one line.
		lines := 2 + bytes.Count(text, []byte("\n"))
		for line := range bytes.Lines(out.Bytes()) {
			lines--
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatalf("the server wrote %q: %v", line, err)
			}
			if m, ok := v.(map[string]any); ok && m["method"] != nil {
				lines++ // a notification
			}
		}
		if lines < 0 {
			t.Fatalf("more answers than lines:\n%s\nto\n%q", out.Bytes(), text)
		}
	})
}
