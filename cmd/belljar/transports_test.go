package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// W15: a server has other transports in addition to Streamable HTTP. Their clients log in,
// and get boxes, sessions and lines in the access log, as the clients of Streamable HTTP
// do.
func TestOtherTransports(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	w := serveTenant(t, "one", "--access-log", log, "--legacy-sse", "--websocket")
	for _, tt := range []struct {
		name string
		by   func(c *http.Client) sdk.Transport
	}{
		{"sse", func(c *http.Client) sdk.Transport { return legacySSE(w.url, c) }},
		{"websocket", func(c *http.Client) sdk.Transport { return webSocket(w.url, c) }},
		{"websocket of a page", func(c *http.Client) sdk.Transport { return &socket{w.url, c, true} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			if _, err := client.Connect(t.Context(), tt.by(&http.Client{Transport: bearer("two")}), nil); err == nil {
				t.Error("a client without a token of a tenant was let in")
			}
			session, err := client.Connect(t.Context(), tt.by(&http.Client{Transport: bearer("one")}), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for _, command := range []string{"echo $((6*7)) >/tmp/it", "cat /tmp/it"} {
				res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": command}})
				if err != nil || res.IsError {
					t.Fatalf("%s: %+v, %v", command, res, err)
				}
				if text, ok := res.Content[0].(*sdk.TextContent); command == "cat /tmp/it" && (!ok || !strings.HasPrefix(text.Text, "42")) {
					t.Errorf("the session has no box of its own: %+v", res.Content[0])
				}
			}
		})
	}
	w.end()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"tenant":"a","session":"`, `"http":"GET","route":"/sse","status":200,`, `"http":"GET","route":"/sse","status":401,`,
		`"http":"GET","route":"/mcp","status":101,`, `"http":"GET","route":"/mcp","status":401,`,
		`"tenant":"a","http":"POST","route":"/mcp/ticket","status":200,`, `"http":"POST","route":"/mcp/ticket","status":401,`,
		`"http":"POST","route":"/messages","method":"tools/call","tool":"Bash","status":202,`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the access log lacks %s:\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), `"session":"`); n < 5 {
		t.Errorf("%d lines name a session:\n%s", n, text)
	}
	if strings.Contains(string(text), "s-e") || strings.Contains(string(text), "mcp.ticket") {
		t.Errorf("the access log has the id of a session, or a ticket:\n%s", text)
	}
}

// socket is a WebSocket as a transport of the SDK, which has no WebSocket transport. Its
// client logs in. As a web page does, it can also get a ticket, which opens the WebSocket
// in place of the login.
type socket struct {
	url  string
	http *http.Client
	page bool
}

func (s *socket) Connect(ctx context.Context) (sdk.Connection, error) {
	o := &websocket.DialOptions{Subprotocols: []string{"mcp"}, HTTPClient: s.http}
	if s.page {
		ticket, err := s.ticket(ctx)
		if err != nil {
			return nil, err
		}
		o.Subprotocols, o.HTTPClient = append(o.Subprotocols, ticket), nil
	}
	conn, res, err := websocket.Dial(ctx, s.url, o)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(16 << 20)
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "mcp" {
		return nil, fmt.Errorf("the server speaks %q", got)
	}
	return socketConn{conn}, nil
}

// ticket fetches a ticket, and returns the WebSocket subprotocol that contains it.
func (s *socket) ticket(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/ticket", nil)
	if err != nil {
		return "", err
	}
	res, err := s.http.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var a struct{ Protocol string }
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return "", fmt.Errorf("a ticket: %s, %w", res.Status, err)
	}
	return a.Protocol, nil
}

type socketConn struct{ conn *websocket.Conn }

func (c socketConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	_, message, err := c.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(message)
}

func (c socketConn) Write(ctx context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.conn.Write(ctx, websocket.MessageText, text)
}

func (c socketConn) Close() error      { return c.conn.Close(websocket.StatusNormalClosure, "") }
func (c socketConn) SessionID() string { return "" }
