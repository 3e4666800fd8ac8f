package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/wire"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// message is a message that the test's server has received.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta           map[string]json.RawMessage `json:"_meta"`
		RequestID      json.RawMessage            `json:"requestId"`
		Cursor         string                     `json:"cursor"`
		InputResponses json.RawMessage            `json:"inputResponses"`
		RequestState   json.RawMessage            `json:"requestState"`
		Notifications  json.RawMessage            `json:"notifications"`
		Name           string                     `json:"name"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	raw string
}

// server is a server that the test plays.
type server struct {
	t    testing.TB
	got  chan message // closed when the client has closed its end
	out  *io.PipeWriter
	in   *io.PipeReader
	over chan struct{}
}

// newServer returns a server and a transport to it.
func newServer(t testing.TB) (*server, Pipes) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &server{t: t, got: make(chan message, 4096), out: outW, in: inR, over: make(chan struct{})}
	go func() {
		defer close(s.over)
		defer close(s.got)
		lines := bufio.NewReader(inR)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Errorf("the client wrote %q: %v", line, err)
			}
			m.raw = strings.TrimSuffix(line, "\n")
			s.got <- m
		}
	}()
	t.Cleanup(func() {
		s.out.Close()
		s.in.Close()
		<-s.over
	})
	return s, Pipes{In: inW, Out: outR}
}

// next returns the next message of the client.
func (s *server) next() message {
	s.t.Helper()
	m, ok := <-s.got
	if !ok {
		s.t.Fatal("the client has closed its end")
	}
	return m
}

// want returns the next message of the client, which must have the method.
func (s *server) want(method string) message {
	s.t.Helper()
	m := s.next()
	if m.Method != method {
		s.t.Fatalf("the client sent %s, want %s", m.raw, method)
	}
	return m
}

// quiet fails if a message of the client waits.
func (s *server) quiet() {
	s.t.Helper()
	select {
	case m := <-s.got:
		s.t.Errorf("the client sent %s, want nothing", m.raw)
	default:
	}
}

// say writes a line. It is no error if the client has closed its end.
func (s *server) say(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *server) result(m message, result string) {
	s.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *server) fail(m message, code int, text string) {
	s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

const (
	helloLegacy = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"toy","version":"1"}}`
	helloModern = `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toy","version":"1"}}}`
)

// greet plays the server's part of the handshake of an era.
func (s *server) greet(era wire.Era) {
	s.t.Helper()
	discover := s.want("server/discover")
	if era == wire.Modern {
		s.result(discover, helloModern)
		return
	}
	s.fail(discover, -32601, "method not found")
	s.initialize(helloLegacy)
}

// initialize plays the server's part of initialize.
func (s *server) initialize(hello string) {
	s.t.Helper()
	s.result(s.want("initialize"), hello)
	s.want("notifications/initialized")
}

// opened is the result of Open.
type opened struct {
	conn *Conn
	err  error
}

// dial runs Open, while play plays the server's part.
func dial(t testing.TB, cfg Config, play func(s *server)) (*Conn, *server, error) {
	t.Helper()
	s, pipes := newServer(t)
	done := make(chan opened, 1)
	go func() {
		c, err := Open(t.Context(), pipes, cfg)
		done <- opened{c, err}
	}()
	play(s)
	o := <-done
	if o.conn != nil {
		t.Cleanup(o.conn.Close)
	}
	return o.conn, s, o.err
}

// connect opens a connection to a server of an era.
func connect(t testing.TB, era wire.Era, cfg Config) (*Conn, *server) {
	t.Helper()
	c, s, err := dial(t, cfg, func(s *server) { s.greet(era) })
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// reply is the result of Call.
type reply struct {
	result json.RawMessage
	err    error
}

// invoke runs Call in its own goroutine.
func invoke(ctx context.Context, c *Conn, method, params string, o CallOptions) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		result, err := c.Call(ctx, method, json.RawMessage(params), o)
		done <- reply{result, err}
	}()
	return done
}

// good returns the result of a call that must not fail.
func good(t testing.TB, done <-chan reply) string {
	t.Helper()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return string(r.result)
}

// failed returns the text of the error of a call that must fail.
func failed(t testing.TB, done <-chan reply) string {
	t.Helper()
	r := <-done
	if r.err == nil {
		t.Fatalf("the call returned %s, want an error", r.result)
	}
	return r.err.Error()
}

func contains(t testing.TB, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want an error with %q", what, err, want)
	}
}

func is(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}
