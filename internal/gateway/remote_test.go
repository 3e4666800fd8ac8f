package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/testenv"
)

// elsewhere is a remote server with a tool, a prompt and a resource.
type elsewhere struct {
	*httptest.Server

	refuse  atomic.Bool // whether it requires a login
	mu      sync.Mutex
	headers http.Header // headers of the latest request; guarded by mu
}

// newNotes returns the MCP server with the offers of an elsewhere.
func newNotes() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "elsewhere", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct{ A, B int }) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(in.A + in.B)}}}, nil, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["who"]}}}}, nil
	})
	s.AddResource(&sdk.Resource{URI: "note://desk/1", Name: "one"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "on the desk"}}}, nil
	})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "note://desk/{n}", Name: "notes"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "some note"}}}, nil
	})
	return s
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e, s := &elsewhere{}, newNotes()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.headers = r.Header.Clone()
		e.mu.Unlock()
		if e.refuse.Load() {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Host = "localhost" // a Host that the handler accepts despite its guard against DNS rebinding
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// gateTo opens a place with a JSON entry of a remote server.
func gateTo(t *testing.T, e *elsewhere, keys, entry string) *gated {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces)
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
	g.use(strings.ReplaceAll(keys, "PORT", u.Port()), `secrets: {key: {env: KEY}, other: {env: KEY}}
rules:
  - {id: no-seven, match: {tool: mcp_far_resources}, when: "args.uri.endsWith('7')", decision: deny}
`)
	file := filepath.Join(g.files, "mcp.json")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(entry, "PORT", u.Port())), 0o600); err != nil {
		t.Fatal(err)
	}
	g.open(file)
	return g
}

const farEntry = `{"mcpServers": {"far": {"url": "http://host.belljar.internal:PORT/mcp", "headers": {"X-Key": "k ${secret:key}"}}}}`

// A remote server is reached through the door as far as the policy allows, with its
// secrets. Its tools, prompts and resources are offered like those of any other server.
func TestRemoteServer(t *testing.T) {
	e := newElsewhere(t)
	g := gateTo(t, e, `servers: {far: {secrets: {key: env}, profile: {net: {mode: proxy, allow_private: ["host.belljar.internal:PORT"]}}}}`, farEntry)
	if got := g.names(); got != "mcp_far_add" {
		_, notes := g.list()
		t.Fatalf("got the tools %q: %q\n%s", got, notes, &g.logged)
	}
	g.wants("mcp_far_add", `{"A":1,"B":2}`, false, "3")
	e.mu.Lock()
	if got := e.headers.Get("X-Key"); got != "k the-value-of-key" {
		t.Errorf("the server got the header %q", got)
	}
	e.mu.Unlock()
	for method, want := range map[string]string{
		"prompts/list|{}":             `"mcp_far_greet"`,
		"resources/list|{}":           `"mcp+far://note///desk/1"`,
		"resources/templates/list|{}": `"mcp+far://note///desk/{n}"`,
		`prompts/get|{"name":"mcp_far_greet","arguments":{"who":"Ann"}}`: `Greet Ann`,
		`resources/read|{"uri":"mcp+far://note///desk/1"}`:               `"uri":"mcp+far://note///desk/1"`,
		`resources/read|{"uri":"mcp+far://note///desk/2"}`:               `some note`,
		`resources/read|{"uri":"mcp+far://note///desk/7"}`:               `no-seven`,
		`resources/read|{"uri":"mcp+other://note///desk/7"}`:             `not found`,
	} {
		method, params, _ := strings.Cut(method, "|")
		m := g.ask(method, params)
		text, _ := json.Marshal(m)
		if !strings.Contains(strings.ReplaceAll(string(text), `\"`, `"`), want) {
			t.Errorf("%s %s: got %s, want %s in it", method, params, text, want)
		}
	}
	e.refuse.Store(true)
	g.wants("mcp_far_add", `{"A":1,"B":2}`, true, "does not accept the headers of its entry")
	e.refuse.Store(false) // otherwise its session could not be closed
}

// Unless the policy allows a remote server, no request goes out to it, and clients read
// what is missing in the policy.
func TestRemoteServerIsRefused(t *testing.T) {
	e := newElsewhere(t)
	for _, tt := range []struct{ keys, entry, want string }{
		{"", farEntry, "secret"},
		{"servers: {far: {secrets: {key: env}}}", farEntry, "gives it no network"},
		{`servers: {far: {secrets: {key: env}, profile: {net: {mode: proxy, allow: [other.example]}}}}`, farEntry, "host.belljar.internal"},
		{`servers: {far: {secrets: {key: env}, profile: {net: {mode: proxy, allow_private: ["host.belljar.internal:PORT"]}}}}`, strings.Replace(farEntry, "/mcp", "/mcp?key=${secret:key}", 1), "secret"},
	} {
		g := gateTo(t, e, tt.keys, tt.entry)
		if got := g.names(); got != "" {
			t.Errorf("%s: got the tools %q", tt.keys, got)
		}
		if _, notes := g.list(); !strings.Contains(notes["far"], tt.want) {
			t.Errorf("%s: clients are told %q, want %q in it", tt.keys, notes["far"], tt.want)
		}
		e.mu.Lock()
		if e.headers != nil {
			t.Errorf("%s: the server was asked with %v", tt.keys, e.headers)
		}
		e.mu.Unlock()
	}
}

// GW-A30: a host that the policy allows by name is judged again by its address when it is
// dialled. A name that leads to this machine reaches nothing.
func TestRemoteServerIsJudgedAtDial(t *testing.T) {
	e := newElsewhere(t)
	g := gateTo(t, e, `servers: {far: {profile: {net: {mode: proxy, allow: ["localhost:PORT"]}}}}`, `{"mcpServers": {"far": {"url": "http://localhost:PORT/mcp"}}}`)
	if got := g.names(); got != "" {
		t.Errorf("got the tools %q", got)
	}
	if _, notes := g.list(); !strings.Contains(notes["far"], "localhost") {
		t.Errorf("clients are told %q", notes["far"])
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.headers != nil {
		t.Errorf("the server was asked with %v", e.headers)
	}
}

// A server gets the value of a secret if the policy says env, and a placeholder if the
// policy says door. Its recorded stderr does not contain the value.
func TestSecretsOfServers(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	const script = `echo "$A $B" >&2; exit 3`
	g := &gated{t: t, workspace: t.TempDir(), files: t.TempDir()}
	g.use("servers: {s: {secrets: {key: env, other: door}}}", "secrets: {key: {env: KEY}, other: {env: KEY}}")
	file := filepath.Join(g.files, "mcp.json")
	text, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"s": map[string]any{
		"command": "/bin/bash", "args": []string{"-c", script}, "env": map[string]string{"A": "${secret:key}", "B": "${secret:other}"},
	}}})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g.open(file)
	g.list()
	var said string
	for _, s := range g.Status() {
		said += strings.Join(s.Stderr, "\n")
	}
	if said != "[secret] BELLJAR-SECRET-other" {
		t.Errorf("the server wrote %q", said)
	}
	if text := g.logged.String(); strings.Contains(text, "the-value-of") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// A login is refused, before any request leaves this machine, if the server has no login or
// the policy does not allow the server.
func TestLoginIsRefused(t *testing.T) {
	e := newElsewhere(t)
	reaches := `{profile: {net: {mode: proxy, allow_private: ["host.belljar.internal:PORT"]}}}`
	g := gateTo(t, e, "servers: {far: {secrets: {key: env}}, plain: "+reaches+", own: "+reaches+"}", `{"mcpServers": {
  "far": {"url": "http://host.belljar.internal:PORT/mcp"}, "here": {"command": "true"}, "bad": {"url": "${NO_SUCH_VARIABLE}"},
  "plain": {"url": "http://host.belljar.internal:PORT/mcp"},
  "own": {"url": "https://host.belljar.internal:PORT/mcp", "headers": {"authorization": "Bearer x"}}}}`)
	for name, want := range map[string]string{
		"far": "gives it no network", "here": "runs on this machine", "bad": "NO_SUCH_VARIABLE", "none": "no file has a server none",
		"plain": "does not begin with https://", "own": "has a header Authorization",
	} {
		err := Login(t.Context(), g.cfg, "local", name, func(string) { t.Errorf("%s: a person was asked", name) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.headers != nil {
		t.Errorf("the server was asked with %v", e.headers)
	}
}
