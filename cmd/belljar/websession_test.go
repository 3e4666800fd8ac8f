package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
)

// Clients that keep their session lose nothing when the server is killed or stopped: the
// next server answers the first call of each session, and reports once that the session has
// a new box.
func TestSessionsOutliveTheServer(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	const sessions = 12 // a tenant has 16 boxes
	bash := func(id int, command string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Bash","arguments":{"command":%q}}}`, id, command)
	}
	k := newPlace(t)
	s := k.start(t, wire{http: true})
	var all []map[string]string
	w := &web{t: t, url: s.url}
	for range sessions {
		all = append(all, w.session(""))
	}
	if res, text := w.post(all[0], bash(1, "echo kept >kept; echo gone >/tmp/gone")); res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", res.Status, text)
	}
	for _, end := range []func(){s.kill, func() { s.stop() }} {
		end()
		s = k.start(t, wire{http: true})
		w := &web{t: t, url: s.url}
		for i, session := range all {
			_, text := w.post(session, bash(2, "cat kept; ls /tmp"))
			if !strings.Contains(text, `kept\n`) || strings.Contains(text, `gone\n`) || strings.Count(text, "the session has a new box") != 1 {
				t.Errorf("session %d, its first call: %s", i, text)
			}
			if _, text = w.post(session, bash(3, "true")); !strings.Contains(text, "exit=0") || strings.Contains(text, "the session has a new box") {
				t.Errorf("session %d, its second call: %s", i, text)
			}
		}
	}
	ended := all[0]
	if out, err := k.run(t, "session", "end", ended["Mcp-Session-Id"]); err != nil {
		t.Fatalf("session end: %v\n%s", err, out)
	}
	s.kill()
	s = k.start(t, wire{http: true})
	w = &web{t: t, url: s.url}
	if res, text := w.post(ended, bash(4, "true")); res.StatusCode != http.StatusNotFound {
		t.Errorf("a session that was ended: %s %s", res.Status, text)
	}
	if res, text := w.post(all[1], bash(4, "true")); res.StatusCode != http.StatusOK {
		t.Errorf("another one: %s %s", res.Status, text)
	}
}

// The go-sdk's client survives a killed server: the first call of each of its sessions is
// answered. `make clients` checks the same with clients from npm.
func TestGoSDKOutlivesTheServer(t *testing.T) {
	k := newPlace(t)
	s := k.start(t, wire{http: true})
	list := func(c *sdk.ClientSession) error {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "TaskManager", Arguments: map[string]any{"action": "list"}})
		if err == nil && res.IsError {
			err = fmt.Errorf("the call failed: %v", res.Content)
		}
		return err
	}
	var addr string
	next := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
	defer next.CloseIdleConnections()
	addr = strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp")
	var all []*sdk.ClientSession
	for range 50 {
		client := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil)
		c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: next}, DisableStandaloneSSE: true},
			&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		if c.ID() == "" {
			t.Fatal("the client has no session")
		}
		all = append(all, c)
		if err := list(c); err != nil {
			t.Fatal(err)
		}
	}
	s.kill()
	next.CloseIdleConnections()
	s = k.start(t, wire{http: true})
	addr = strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp")
	for i, c := range all {
		if err := list(c); err != nil {
			t.Errorf("session %d, its first call: %v", i, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("session %d, its end: %v", i, err)
		}
	}
}
