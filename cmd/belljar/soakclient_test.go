package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
)

// soakWay is a way in which clients of the soak reach a server.
type soakWay struct {
	name, era string
	stdio     bool // whether each client has a server of its own
	ends      bool // whether the connection is the session and ends with the server
	by        func(url string, c *http.Client) sdk.Transport
}

// soakWays contains all transports in both eras. Each is used by a tenth of the clients for
// each time that it is listed.
var soakWays = []soakWay{
	{name: "http with a stream", era: "2025-11-25", by: streamable(true)},
	{name: "http", era: "2025-11-25", by: streamable(false)},
	{name: "http modern", era: "2026-07-28", by: streamable(false)},
	{name: "sse", era: "2024-11-05", ends: true, by: legacySSE},
	{name: "websocket", era: "2025-11-25", ends: true, by: webSocket},
	{name: "http modern, subscribed", era: "2026-07-28", by: streamable(true)},
	{name: "stdio", era: "2025-11-25", stdio: true},
	{name: "http with a stream", era: "2025-11-25", by: streamable(true)},
	{name: "websocket modern", era: "2026-07-28", ends: true, by: webSocket},
	{name: "stdio modern", era: "2026-07-28", stdio: true},
}

func streamable(stream bool) func(string, *http.Client) sdk.Transport {
	return func(url string, c *http.Client) sdk.Transport {
		return &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: c, DisableStandaloneSSE: !stream}
	}
}

func legacySSE(url string, c *http.Client) sdk.Transport {
	return &sdk.SSEClientTransport{Endpoint: strings.TrimSuffix(url, "/mcp") + "/sse", HTTPClient: c}
}

func webSocket(url string, c *http.Client) sdk.Transport { return &socket{url: url, http: c} }

// lines are the connections of one client, which sends its token on each. They can be cut,
// as if the client's machine had failed.
type lines struct {
	token string
	http  http.Transport

	mu   sync.Mutex
	open map[*trackedConn]bool // guarded by mu
	cut  bool                  // whether no more connections can be opened; guarded by mu
}

func newLines(token string) *lines {
	l := &lines{token: token, open: make(map[*trackedConn]bool)}
	l.http.DialContext = l.dial
	return l
}

// RoundTrip sends a request with the token.
func (l *lines) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+l.token)
	return l.http.RoundTrip(r)
}

var errCut = errors.New("the client is gone")

func (l *lines) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		conn.Close()
		return nil, errCut
	}
	tracked := &trackedConn{conn, l}
	l.open[tracked] = true
	return tracked, nil
}

func (l *lines) cutAll() {
	l.mu.Lock()
	l.cut = true
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range open {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the connection ends with a reset
		}
		c.Conn.Close()
	}
}

// trackedConn is a connection of lines.
type trackedConn struct {
	net.Conn
	of *lines
}

// Close also forgets the connection.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// soakClient is a client of the soak. One goroutine uses it at a time.
type soakClient struct {
	*sdk.ClientSession
	s      *soak
	way    *soakWay
	tenant int
	token  string
	number int

	swaps int64  // value of soak.swaps when the client connected
	lines *lines // connections over HTTP
	cmd   *exec.Cmd
	errs  bytes.Buffer // standard error of cmd; complete once cmd has ended
}

// connect opens a session.
func (c *soakClient) connect() error {
	c.swaps = c.s.swaps.Load()
	var transport sdk.Transport
	if c.way.stdio {
		in, out, err := c.start()
		if err != nil {
			return err
		}
		transport = &sdk.IOTransport{Reader: out, Writer: in}
	} else {
		c.lines = newLines(c.token)
		transport = c.way.by(c.s.url, &http.Client{Transport: c.lines})
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "soak", Version: "1"}, nil)
	session, err := client.Connect(c.s.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: c.way.era})
	if err != nil {
		c.over()
		return err
	}
	c.ClientSession = session
	if got := session.InitializeResult().ProtocolVersion; got != c.way.era {
		return fmt.Errorf("it speaks %s, want %s", got, c.way.era)
	}
	if strings.Contains(c.way.name, "subscribed") {
		return session.Subscribe(c.s.t.Context(), &sdk.SubscribeParams{URI: pendingURI})
	}
	return nil
}

// start starts the server of a client over stdio.
func (c *soakClient) start() (in io.WriteCloser, out io.ReadCloser, err error) {
	s := c.s
	tenant := soakTenants[c.tenant]
	c.cmd = s.command(context.Background(), "serve", "--workspace", s.workspace(c.tenant), "--policy", s.policy, "--state", s.state, "--tenant", tenant)
	c.errs.Reset()
	c.cmd.Stderr = &c.errs
	if in, err = c.cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, nil, err
	}
	s.began(c.cmd.Process.Pid)
	return in, out, nil
}

// over waits for the end of the client's own connections and server, and returns an error
// if its server ended with a fault.
func (c *soakClient) over() error {
	c.ClientSession = nil
	if c.lines != nil {
		c.lines.cutAll()
		c.lines.http.CloseIdleConnections()
	}
	if c.cmd == nil {
		return nil
	}
	err := c.cmd.Wait()
	c.cmd = nil
	if err != nil || c.errs.Len() > 0 {
		return fmt.Errorf("its server ended (%w), and said %s", err, c.errs.String())
	}
	return nil
}

// leave ends the session in order.
func (c *soakClient) leave() {
	if c.ClientSession == nil {
		return
	}
	err := c.ClientSession.Close()
	if c.way.ends {
		err = nil // neither side knows for sure how the connection ends
	}
	if err = cmp.Or(c.over(), err); err != nil {
		c.s.t.Errorf("the end of %v: %v", c, err)
	}
}

// vanish kills the client in the middle of a call: its connections are cut, and it does not
// come back. Half of the servers over stdio are killed with their clients. The others wait
// for the end of the call, and then end.
func (c *soakClient) vanish() {
	if c.ClientSession == nil {
		return
	}
	kill, long := c.way.stdio && c.number%2 == 0, "1000"
	if c.way.stdio && !kill {
		long = "1"
	}
	call := c.s.ledger.begin(c.tenant, false)
	mark := c.s.ledger.mark(call)
	begun := filepath.Join(c.s.workspace(c.tenant), mark)
	var calling sync.WaitGroup
	session := c.ClientSession
	calling.Go(func() {
		if _, err := session.CallTool(c.s.t.Context(), bash("touch /workspace/"+mark+"; sleep "+long)); err == nil && (kill || !c.way.stdio) {
			c.s.t.Errorf("%v: a call that does not end was answered", c)
		}
	})
	if !testenv.Until(soakPatience, func() bool { return os.Remove(begun) == nil }) {
		c.s.t.Errorf("%v: its last call does not begin", c)
	}
	if kill {
		c.s.killed(c.cmd.Process.Pid)
		_ = c.cmd.Process.Kill()
	}
	if c.lines != nil {
		c.lines.cutAll()
	}
	session.Close()
	calling.Wait()
	if err := c.over(); err != nil && !kill {
		c.s.t.Errorf("%v, after its client had gone: %v", c, err)
	}
}

// String returns the name of the client for a reader of the test.
func (c *soakClient) String() string {
	return fmt.Sprintf("client %d of tenant %s by %s", c.number, soakTenants[c.tenant], c.way.name)
}

func bash(command string) *sdk.CallToolParams {
	return &sdk.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": command}}
}

// call makes the next call. Half of the calls need no box, and one in eight is refused.
func (c *soakClient) call(n int) {
	if c.ClientSession == nil {
		return
	}
	denied := n%8 == 6
	call := c.s.ledger.begin(c.tenant, denied)
	mark := c.s.ledger.mark(call)
	var params *sdk.CallToolParams
	want := mark
	switch n % 8 {
	case 0, 5:
		params = bash("echo " + mark)
	case 2:
		params = &sdk.CallToolParams{Name: "BackgroundBash", Arguments: map[string]any{"command": "echo " + mark}}
		want = "Task "
	case 6:
		params = bash("forbidden " + mark)
		want = "the soak forbids it"
	default:
		params = &sdk.CallToolParams{Name: "SearchSkills", Arguments: map[string]any{"pattern": mark}}
		want = ""
	}
	res, err := c.CallTool(c.s.t.Context(), params)
	if err != nil {
		c.cutOff(err)
		return
	}
	c.s.ledger.answered(call)
	text := strings.Join(textsOf(res), "\n")
	switch {
	case res.IsError == denied && strings.Contains(text, want):
	case !denied && c.s.kills.Load() > 0 && (res.IsError && strings.Contains(text, "box") || strings.Contains(text, " status=killed ")):
		c.s.lostBox.Add(1) // the box was killed during the call, before or after the command began
	default:
		c.s.t.Errorf("%v: %s %v: %s", c, params.Name, params.Arguments, text)
	}
}

// cutOff handles a call that got no answer: the client connects again. This may only happen
// on a connection from before a hand-over. If the connection is the session, it ends with
// the old process. On another connection, a request may cross with the end of the
// connection; then no answer of the server may report that.
func (c *soakClient) cutOff(why error) {
	closed := func(text string) bool { return strings.Contains(why.Error(), text) }
	switch {
	case c.way.stdio || c.swaps == c.s.swaps.Load():
		c.s.t.Errorf("%v: a call has no answer: %v", c, why)
	case c.way.ends:
		c.s.ended.Add(1)
	case slices.ContainsFunc([]string{"EOF", "connection reset", "broken pipe", "server closed idle connection"}, closed):
		c.s.crossed.Add(1)
	default:
		c.s.t.Errorf("%v: a call is refused by a server that is handed over: %v", c, why)
	}
	c.ClientSession.Close()
	_ = c.over()
	if err := c.connect(); err != nil {
		c.s.t.Errorf("%v does not connect again: %v", c, err)
		c.ClientSession = nil
	}
}

// soakPatience is how long the soak waits for an event on a slow machine.
const soakPatience = 2 * time.Minute
