package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/front"
	"belljar.dev/internal/testenv"
)

// estate is a server over HTTP with places, and the clients of its tenants. The token of a
// tenant is "token-" and the tenant's name.
type estate struct {
	*Server
	t      testing.TB
	url    string
	dir    string // directory of all workspaces; each has a file "who" with the name of the workspace
	policy string // path of the policy
	log    *bytes.Buffer
	closed func()
}

// rented are the workspaces of an estate other than "home".
var rented = []string{"a", "a-site", "b", "b-site", "b-own"}

// estatePolicy is the beginning of the policy of an estate.
const estatePolicy = `version: 1
defaults: {decision: allow, profile: box}
profiles: {box: {fs: {system: true, workspace: rw}}}
`

// tenants returns the tenants for the policy of an estate, followed by more.
func (e *estate) tenants(more string) string {
	return strings.ReplaceAll(`tenants:
  a: {token: "${file:DIR/t/a}", workspace: DIR/a, places: {site: DIR/a-site}}
  b: {token: "${file:DIR/t/b}", workspace: DIR/b, places: {site: DIR/b-site, own: DIR/b-own}}
  c: {token: "${file:DIR/t/c}"}
`+more, "DIR", e.dir)
}

// newEstate makes the directories of an estate. It does not open a server.
func newEstate(t testing.TB) *estate {
	t.Helper()
	e := &estate{t: t, dir: t.TempDir(), log: &bytes.Buffer{}}
	e.policy = filepath.Join(e.dir, "policy.yaml")
	for _, name := range append([]string{"home"}, rented...) {
		lay(t, filepath.Join(e.dir, name, "who"), name)
	}
	for _, tenant := range []string{"a", "b", "c"} {
		lay(t, filepath.Join(e.dir, "t", tenant), digest("token-"+tenant))
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return e
}

// hello is the request that begins a session.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// servedEstate returns an estate with three tenants whose server serves.
func servedEstate(t testing.TB) *estate {
	t.Helper()
	e := newEstate(t)
	put(t, e.policy, estatePolicy+e.tenants(""))
	e.serve(e.config())
	return e
}

// lay writes a file, and makes its directory.
func lay(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, name, text)
}

// config returns the configuration of the estate's server.
func (e *estate) config() Config {
	return Config{
		Command: "serve", Workspace: filepath.Join(e.dir, "home"), State: filepath.Join(e.dir, "state"), Policy: e.policy,
		Log: slog.New(slog.NewTextHandler(e.log, nil)), Tools: &Tools{}, Hooks: &Hooks{}, Callbacks: &Callbacks{},
		Service: &Service{HTTP: &front.Config{Addr: "127.0.0.1:0"}},
	}
}

// serve opens the server and serves until the test ends.
func (e *estate) serve(cfg Config) {
	e.t.Helper()
	testenv.Need(e.t, testenv.UserNamespaces, testenv.Bash)
	var err error
	if e.Server, err = Open(e.t.Context(), cfg); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	ready := make(chan string, 1)
	var serving sync.WaitGroup
	serving.Go(func() {
		defer close(ready)
		if err := e.ServeHTTP(ctx, func(url string) { ready <- url }); err != nil {
			e.t.Error(err)
		}
	})
	e.url = strings.TrimSuffix(<-ready, "/mcp")
	e.closed = sync.OnceFunc(func() {
		cancel()
		serving.Wait()
		e.Close()
	})
	e.t.Cleanup(e.closed)
}

// do sends a request to a path. It returns the status, the body and the headers of the
// answer.
func (e *estate) do(tenant, path, body string, headers ...string) (int, string, http.Header) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if tenant != "" {
		req.Header.Set("Authorization", "Bearer token-"+tenant)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// call calls a tool in the modern era. It returns the text of the result, or the status and
// body of another answer.
func (e *estate) call(tenant, path, tool string, args map[string]any) string {
	e.t.Helper()
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": tool, "arguments": args, "_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		},
	}})
	if err != nil {
		e.t.Fatal(err)
	}
	status, body, _ := e.do(tenant, path, string(text), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
	for line := range strings.Lines(body) { // events of a stream, or the one line of a JSON answer
		var answer struct {
			Result struct {
				Content []struct{ Text string }
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &answer) == nil && len(answer.Result.Content) > 0 {
			return answer.Result.Content[0].Text
		}
	}
	return fmt.Sprint(status, " ", body)
}

func (e *estate) bash(tenant, path, script string) string {
	e.t.Helper()
	return e.call(tenant, path, "Bash", map[string]any{"command": script})
}

// placeOf returns the name of the workspace in which a request works, or the answer to the
// request if there is no such place.
func (e *estate) placeOf(tenant, path string) string {
	e.t.Helper()
	return strings.SplitN(e.bash(tenant, path, "cat /workspace/who; echo"), "\n", 2)[0]
}

// Each tenant works in the places that the policy gives it, under the tenant's own names
// for them. For all other tenants these places do not exist, and the answers to a stranger
// reveal nothing.
func TestPlacesOfTenants(t *testing.T) {
	e := servedEstate(t)
	for _, tt := range []struct{ tenant, path, want string }{
		{"a", "/mcp", "a"},
		{"a", "/w/site/mcp", "a-site"},
		{"b", "/mcp", "b"},
		{"b", "/w/site/mcp", "b-site"},
		{"b", "/w/own/mcp", "b-own"},
		{"c", "/mcp", "home"},
	} {
		if got := e.placeOf(tt.tenant, tt.path); got != tt.want {
			t.Errorf("%s at %s works in %q, want %q", tt.tenant, tt.path, got, tt.want)
		}
	}
	status, nothing, header := e.do("a", "/w/nosuch/mcp", "{}")
	if status != http.StatusNotFound {
		t.Fatalf("a place that does not exist: %d %q", status, nothing)
	}
	for _, tt := range []struct{ tenant, path string }{
		{"a", "/w/own/mcp"},
		{"c", "/w/site/mcp"},
		{"c", "/w/own/mcp"},
		{"c", "/w/home/mcp"},
		{"a", "/w/b/mcp"},
		{"a", "/w/SITE/mcp"},
		{"a", "/w/site%00/mcp"},
		{"c", "/w/" + strings.Repeat("x", 5000) + "/mcp"},
	} {
		gotStatus, got, gotHeader := e.do(tt.tenant, tt.path, "{}")
		header.Del("Date")
		gotHeader.Del("Date")
		if gotStatus != status || got != nothing || !maps.EqualFunc(gotHeader, header, func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }) {
			t.Errorf("%s at %s: %d %q %v, want the answer for a place that does not exist: %d %q %v", tt.tenant, tt.path, gotStatus, got, gotHeader, status, nothing, header)
		}
	}
	for _, path := range []string{"/w/%2e%2e/mcp", "/w/..%2fb/mcp", "/w/" + strings.ReplaceAll(e.dir, "/", "%2f") + "%2fb/mcp", "/w/site/../../w/own/mcp", "/w//mcp"} {
		if got, body, _ := e.do("a", path, "{}"); got != http.StatusNotFound {
			t.Errorf("%s: %d %q, want 404", path, got, body)
		}
	}
	e.closed()
	text, err := os.ReadFile(filepath.Join(e.dir, "state", "audit", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	begun := make(map[string]bool) // workspaces that the session records of the log name
	for line := range strings.Lines(string(text)) {
		var record struct{ Kind, Event, Workspace string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Kind == "session" && record.Event == "start" {
			begun[record.Workspace] = true
		}
	}
	for _, name := range rented {
		if !begun[filepath.Join(e.dir, name)] {
			t.Errorf("the audit log has no session in %s: %v", name, begun)
		}
	}
	if !begun[""] || len(begun) != len(rented)+1 {
		t.Errorf("the audit log has sessions in %v", begun)
	}
}

// A client without a token cannot distinguish a place that exists from one that does not.
func TestPlacesAndStrangers(t *testing.T) {
	e := servedEstate(t)
	known, _, _ := e.do("", "/w/site/mcp", "{}")
	other, _, _ := e.do("", "/w/nosuch/mcp", "{}")
	if known != http.StatusUnauthorized || other != known {
		t.Errorf("a stranger gets %d for a place, and %d for another one", known, other)
	}
}

// If a client has the address of a place, the place tells it where to log in, and its
// metadata have exactly this address as the resource. A place that does not exist gives the
// same answers.
func TestPlacesNameTheirResource(t *testing.T) {
	e := newEstate(t)
	put(t, e.policy, estatePolicy+e.tenants("auth: {issuers: [{url: \"https://127.0.0.1:1\", addresses: 127.0.0.0/8, tenant: a}]}\n"))
	e.serve(e.config())
	for _, path := range []string{"/mcp", "/w/site/mcp", "/w/nosuch/mcp"} {
		status, _, header := e.do("", path, "{}")
		want := e.url + "/.well-known/oauth-protected-resource" + path
		if got := header.Get("WWW-Authenticate"); status != http.StatusUnauthorized || got != `Bearer realm="belljar", resource_metadata="`+want+`"` {
			t.Errorf("%s: %d %s", path, status, got)
			continue
		}
		resp, err := http.Get(want)
		if err != nil {
			t.Fatal(err)
		}
		var document struct{ Resource string }
		err = json.NewDecoder(resp.Body).Decode(&document)
		resp.Body.Close()
		if err != nil || document.Resource != e.url+path {
			t.Errorf("%s: %s has the resource %q, %v", path, want, document.Resource, err)
		}
	}
	for _, path := range []string{"/w/SITE/mcp", "/w/si\"te/mcp", "/w//mcp", "/w/site/sse"} {
		resp, err := http.Get(e.url + "/.well-known/oauth-protected-resource" + strings.ReplaceAll(path, `"`, "%22"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// A session belongs to its place. At another path it does not exist, even for the same
// tenant.
func TestSessionsStayInTheirPlace(t *testing.T) {
	e := servedEstate(t)
	_, _, header := e.do("a", "/mcp", hello)
	id := header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatal("there is no session")
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if status, body, _ := e.do("a", "/w/site/mcp", list, "Mcp-Session-Id", id); status != http.StatusNotFound {
		t.Errorf("the session of another place: %d %q", status, body)
	}
	if status, body, _ := e.do("a", "/mcp", list, "Mcp-Session-Id", id); status != http.StatusOK {
		t.Errorf("the session in its place: %d %q", status, body)
	}
}

// A policy that is read again adds places, and removes places together with the sessions in
// them.
func TestPlacesFollowThePolicy(t *testing.T) {
	e := servedEstate(t)
	if got := e.placeOf("b", "/w/own/mcp"); got != "b-own" {
		t.Fatalf("b works in %q", got)
	}
	_, _, header := e.do("b", "/w/site/mcp", hello)
	id := header.Get("Mcp-Session-Id")
	// b's place own is gone, and its place site is another directory.
	put(t, e.policy, estatePolicy+strings.ReplaceAll(`tenants:
  a: {token: "${file:DIR/t/a}", workspace: DIR/a, places: {new: DIR/b-own, other: DIR/b-site}}
  b: {token: "${file:DIR/t/b}", workspace: DIR/b, places: {site: DIR/a-site}}
`, "DIR", e.dir))
	e.reloader.reload(t.Context())
	for _, tt := range []struct{ tenant, path, want string }{
		{"b", "/mcp", "b"}, {"b", "/w/site/mcp", "a-site"}, {"a", "/w/new/mcp", "b-own"}, {"b", "/w/own/mcp", "404 " + noSuchPlace}, {"c", "/mcp", "401 "},
	} {
		if got := e.placeOf(tt.tenant, tt.path); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s at %s works in %q, want %q", tt.tenant, tt.path, got, tt.want)
		}
	}
	for _, s := range e.places.sessions() {
		if s.ID == id {
			t.Error("a session lives on in a place that its tenant may not enter any more")
		}
	}
	if status, body, _ := e.do("b", "/w/site/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "Mcp-Session-Id", id); status != http.StatusNotFound {
		t.Errorf("a session in a place that its tenant may not enter: %d %q", status, body)
	}
	// A policy whose places cannot be laid out changes nothing.
	put(t, e.policy, estatePolicy+e.tenants("  d: {workspace: DIR/nosuch}\n"))
	e.reloader.reload(t.Context())
	if got := e.placeOf("a", "/w/new/mcp"); got != "b-own" {
		t.Errorf("after a policy that names a directory that is not there, a works in %q", got)
	}
	if refused := e.reloader.status.info().Refused; !strings.Contains(refused, "tenant d") || !strings.Contains(refused, "no such directory") {
		t.Errorf("the status says %q", refused)
	}
}

// What all places share follows the policy in force: who may log in, whose tokens are read
// again, the operator's secrets, and what boxes can write.
func TestWhatPlacesShareFollowsThePolicy(t *testing.T) {
	e := newEstate(t)
	lay(t, filepath.Join(e.dir, "t", "d"), digest("token-d"))
	lay(t, filepath.Join(e.dir, "s", "old"), "old-secret")
	lay(t, filepath.Join(e.dir, "s", "new"), "new-secret")
	mounted := filepath.Join(e.dir, "mounted")
	lay(t, filepath.Join(mounted, "program"), "")
	policy := func(secret, more, tenants string) string {
		return strings.ReplaceAll("version: 1\ndefaults: {decision: allow, profile: box}\nsecrets: {key: {file: DIR/s/"+secret+"}}\nprofiles: {box: {fs: {system: true, workspace: rw}}"+more+"}\n"+tenants, "DIR", e.dir)
	}
	put(t, e.policy, policy("old", "", e.tenants("")))
	e.serve(e.config())
	if got := e.placeOf("c", "/mcp"); got != "home" {
		t.Fatalf("c works in %q", got)
	}
	// The tenant c is removed, and the tenant d is added.
	put(t, e.policy, policy("new", ", other: {fs: {write: [DIR/mounted]}}", strings.ReplaceAll(`tenants:
  a: {token: "${file:DIR/t/a}", workspace: DIR/a}
  d: {token: "${file:DIR/t/d}"}
`, "DIR", e.dir)))
	e.reloader.reload(t.Context())
	check := func(when string) {
		t.Helper()
		for _, tt := range []struct{ tenant, want string }{{"a", "a"}, {"d", "home"}, {"c", "401 "}, {"b", "401 "}} {
			if got := e.placeOf(tt.tenant, "/mcp"); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %s works in %q, want %q", when, tt.tenant, got, tt.want)
			}
		}
	}
	check("a policy with other tenants")
	if got, err := e.host.secret(t.Context(), "key"); got != "new-secret" {
		t.Errorf("the secret is %q, error %v; want that of the policy that holds", got, err)
	}
	if err := e.host.boxes().Check(filepath.Join(mounted, "program")); err == nil {
		t.Error("a program that boxes can write by now may run outside of them")
	}
	// Tokens are read again for the tenants of the policy in force.
	e.reloader.rotate(t.Context())
	check("tokens that were read again")
	// The policy in force names tenants, so a policy without tenants is refused.
	put(t, e.policy, policy("new", "", ""))
	e.reloader.reload(t.Context())
	check("a policy without tenants")
}

// If a policy names tenants, no place exists for another tenant, which was let in before
// the policy was read again, and whose session still runs.
func TestNoPlaceForUnknownTenants(t *testing.T) {
	e := newEstate(t)
	put(t, e.policy, estatePolicy+e.tenants(""))
	l, err := (&site{home: filepath.Join(e.dir, "home"), http: true}).read(e.policy)
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := l.at("c", ""); !ok || at != l.home || !l.enters("c", l.home) {
		t.Errorf("c is led to %q, %t", at, ok)
	}
	for _, name := range []string{"", "site"} {
		if at, ok := l.at("gone", name); ok {
			t.Errorf("a tenant that the policy does not name is led to %q", at)
		}
	}
	if l.enters("gone", l.home) {
		t.Error("a tenant that the policy does not name enters the place of --workspace")
	}
}

const noSuchPlace = "there is no such place"

// If the policy has no tenants, the command line names the places.
func TestPlacesOfTheCommandLine(t *testing.T) {
	e := newEstate(t)
	put(t, e.policy, estatePolicy)
	cfg := e.config()
	cfg.Places = map[string]string{"one": filepath.Join(e.dir, "a"), "two": filepath.Join(e.dir, "b"), "again": filepath.Join(e.dir, "home")}
	e.serve(cfg)
	for path, want := range map[string]string{"/mcp": "home", "/w/one/mcp": "a", "/w/two/mcp": "b", "/w/again/mcp": "home", "/w/a/mcp": "404 " + noSuchPlace} {
		if got := e.placeOf("", path); !strings.HasPrefix(got, want) {
			t.Errorf("%s works in %q, want %q", path, got, want)
		}
	}
	for _, s := range e.places.operations().sessions() {
		if s.Tenant != "local" {
			t.Errorf("a session of tenant %q", s.Tenant)
		}
	}
}

// A configuration is refused at the start if one of its places could reach another.
func TestPlacesThatCannotBe(t *testing.T) {
	for want, set := range map[string]func(e *estate, cfg *Config) string{
		"lies in the workspace": func(e *estate, cfg *Config) string {
			cfg.Workspace = e.dir
			return e.tenants("")
		},
		"no such directory": func(e *estate, _ *Config) string { return e.tenants("  d: {workspace: DIR/nosuch}\n") },
		"b/inner": func(e *estate, _ *Config) string {
			lay(e.t, filepath.Join(e.dir, "b", "inner", "x"), "")
			return e.tenants("  d: {places: {x: DIR/b/inner}}\n")
		},
		"by a link": func(e *estate, _ *Config) string {
			if err := os.Symlink(filepath.Join(e.dir, "b"), filepath.Join(e.dir, "by a link")); err != nil {
				e.t.Fatal(err)
			}
			lay(e.t, filepath.Join(e.dir, "b", "by a link", "x"), "")
			return e.tenants("  d: {workspace: \"DIR/by a link/by a link\"}\n")
		},
		"names tenants": func(e *estate, cfg *Config) string {
			cfg.Places = map[string]string{"one": filepath.Join(e.dir, "a")}
			return e.tenants("")
		},
		"--place one": func(e *estate, cfg *Config) string {
			cfg.Places = map[string]string{"one": filepath.Join(e.dir, "nosuch")}
			return ""
		},
		"state": func(e *estate, cfg *Config) string {
			lay(e.t, filepath.Join(e.dir, "b", "st", "x"), "")
			cfg.State = filepath.Join(e.dir, "b", "st")
			return e.tenants("")
		},
		"policy": func(e *estate, cfg *Config) string {
			cfg.Policy = filepath.Join(e.dir, "b", "policy.yaml")
			lay(e.t, cfg.Policy, estatePolicy+e.tenants(""))
			return e.tenants("")
		},
		"the key": func(e *estate, cfg *Config) string {
			lay(e.t, filepath.Join(e.dir, "a-site", "key"), "")
			cfg.Service.HTTP.Key = filepath.Join(e.dir, "a-site", "key")
			return e.tenants("")
		},
	} {
		e := newEstate(t)
		cfg := e.config()
		put(t, e.policy, estatePolicy+set(e, &cfg))
		s, err := Open(t.Context(), cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// The rules of a project apply in its workspace, and in no other place.
func TestPlacesHaveTheirProjects(t *testing.T) {
	e := newEstate(t)
	lay(t, filepath.Join(e.dir, "rules.yaml"), "version: 1\nrules: [{id: none, match: {tool: Bash}, decision: deny}]\n")
	put(t, e.policy, estatePolicy+e.tenants("projects: {DIR/b: [./rules.yaml]}\n"))
	e.serve(e.config())
	for path, want := range map[string]string{"/mcp": "DENIED", "/w/site/mcp": "b-site"} {
		if got := e.placeOf("b", path); !strings.HasPrefix(got, want) {
			t.Errorf("b at %s: %q, want %q", path, got, want)
		}
	}
	if got := e.placeOf("a", "/mcp"); got != "a" {
		t.Errorf("a works in %q", got)
	}
}

// The rules of a project are files of the policy, in whatever place they apply: a change of
// these files is noticed, and no box can write them, from their own place or from another.
func TestProjectsOfPlacesAreGuarded(t *testing.T) {
	e := newEstate(t)
	rules := filepath.Join(e.dir, "rules.yaml")
	lay(t, rules, "version: 1\nrules: []\n")
	put(t, e.policy, estatePolicy+e.tenants("projects: {DIR/b: [./rules.yaml]}\n"))
	e.serve(e.config())
	if got := e.placeOf("b", "/mcp"); got != "b" {
		t.Errorf("b works in %q", got)
	}
	if files := e.reloader.files(); !slices.Contains(files, rules) {
		t.Errorf("a change of %s is not noticed, only of %q", rules, files)
	}
	for _, at := range []string{"a", "b", "home"} {
		lay(t, filepath.Join(e.dir, at, "rules.yaml"), "version: 1\nrules: []\n")
		before := e.places.layout.Load()
		put(t, e.policy, estatePolicy+e.tenants("projects: {DIR/b: [./"+at+"/rules.yaml]}\n"))
		e.reloader.reload(t.Context())
		if e.places.layout.Load() != before {
			t.Errorf("rules for the place b hold that boxes of %s can write", at)
		}
	}
}

// BenchmarkIdlePlace measures the memory of an open place without sessions.
func BenchmarkIdlePlace(b *testing.B) {
	const places = 100
	e := newEstate(b)
	put(b, e.policy, estatePolicy)
	cfg := e.config()
	cfg.Log = slog.New(slog.DiscardHandler)
	dirs := make([]string, places+1)
	for i := range dirs {
		dirs[i] = filepath.Join(e.dir, "many", fmt.Sprint(i))
		lay(b, filepath.Join(dirs[i], "who"), "x")
	}
	// used returns the memory of a server with n further places, all of them open.
	used := func(n int) int64 {
		cfg.State, cfg.Places = b.TempDir(), make(map[string]string)
		for i, dir := range dirs[:n] {
			cfg.Places[fmt.Sprint(i)] = dir
		}
		s, err := Open(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for _, dir := range dirs[:n] {
			if _, err := s.places.at(b.Context(), dir); err != nil {
				b.Fatal(err)
			}
		}
		if got := len(s.places.all()); got != n+1 {
			b.Fatalf("%d places are open, want %d", got, n+1)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // frees the objects that the first collection has finalized
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	used(1) // makes what all places share
	for b.Loop() {
		b.ReportMetric(float64(used(places+1)-used(1))/places/1024, "KiB/place")
	}
}

// A tenant has each quota only once for all places. What exceeds a quota is refused with
// the name of the quota, and other tenants are not affected.
func TestQuotasOfATenant(t *testing.T) {
	e := newEstate(t)
	put(t, e.policy, strings.ReplaceAll(estatePolicy+`tenants:
  a: {token: "${file:DIR/t/a}", workspace: DIR/a, places: {site: DIR/a-site}, limit: {sessions: 2, streams: 1, boxes: 1}}
  b: {token: "${file:DIR/t/b}", workspace: DIR/b}
`, "DIR", e.dir))
	e.serve(e.config())
	begin := func(tenant, path string) string {
		t.Helper()
		status, body, header := e.do(tenant, path, hello)
		if status != http.StatusOK {
			t.Fatalf("%s at %s begins no session: %d %s", tenant, path, status, body)
		}
		return header.Get("Mcp-Session-Id")
	}
	// listen opens the stream of a session, and returns a function that ends it. The
	// function is nil if the stream is refused.
	listen := func(tenant, path, id string) (end func(), refusal string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Authorization", "Bearer token-"+tenant)
		req.Header.Set("Mcp-Session-Id", id)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			return func() { resp.Body.Close() }, ""
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.Header.Get("Retry-After") == "" {
			t.Errorf("a refusal without Retry-After: %v", err)
		}
		return nil, fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	one, two := begin("a", "/mcp"), begin("a", "/w/site/mcp")
	end, refusal := listen("a", "/mcp", one)
	if end == nil {
		t.Fatalf("the first stream is refused: %s", refusal)
	}
	defer end()
	if more, refusal := listen("a", "/w/site/mcp", two); more != nil || !strings.HasPrefix(refusal, "429 ") || !strings.Contains(refusal, "all 1 streams of tenant a are open (quota streams)") {
		t.Errorf("a second stream, in another place: %q", refusal)
	}
	if more, refusal := listen("b", "/mcp", begin("b", "/mcp")); more == nil {
		t.Errorf("a stream of another tenant: %q", refusal)
	} else {
		more()
	}
	// The session in this place is in use. The session in another place is not ended to
	// make room.
	if status, body, header := e.do("a", "/mcp", hello); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body, "all 2 sessions of tenant a (quota sessions)") {
		t.Errorf("a third session: %d %s", status, body)
	}
	if got := e.placeOf("a", "/mcp"); got != "a" {
		t.Fatalf("a works in %q", got)
	}
	if got := e.placeOf("a", "/w/site/mcp"); !strings.Contains(got, "(quota boxes: 1)") {
		t.Errorf("a second box: %q", got)
	}
	if got := e.placeOf("b", "/mcp"); got != "b" {
		t.Errorf("b works in %q", got)
	}
	used := make(map[string]float64)
	for _, of := range (&quotas{e.places, e.sandbox}).tenants() {
		for _, q := range of.Quotas {
			if q.Used != nil {
				used[of.Name+" "+q.Name] = *q.Used
			}
		}
	}
	for name, want := range map[string]float64{"a sessions": 2, "a streams": 1, "a boxes": 1, "b sessions": 1, "b boxes": 1} {
		if used[name] != want {
			t.Errorf("%s: %v are used, want %v", name, used[name], want)
		}
	}
}

// The bytes that ReadDocs and WebSearch send and receive for a tenant count like those of
// its boxes. If the bytes of the hour are used up, the calls of both are refused, and those
// of another tenant continue.
func TestToolsHaveTheQuotaOfEgress(t *testing.T) {
	pages := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, r.URL.Path, strings.Repeat(" page", 20_000))
	}))
	defer pages.Close()
	e := newEstate(t)
	put(t, e.policy, strings.NewReplacer("DIR", e.dir, "AT", strings.TrimPrefix(pages.URL, "http://")).Replace(`version: 1
defaults: {decision: allow, profile: box}
profiles: {box: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow: ["html.duckduckgo.com"], allow_private: ["AT"]}}}
tenants:
  a: {token: "${file:DIR/t/a}", limit: {egress: 64KiB}}
  b: {token: "${file:DIR/t/b}"}
`))
	e.serve(e.config())
	read := func(tenant, page string) string {
		t.Helper()
		return e.call(tenant, "/mcp", "ReadDocs", map[string]any{"url": pages.URL + page})
	}
	const quota = "tenant \"a\" has sent and received the 65536 bytes of this hour (quota egress)"
	read("a", "/first") // the quota cuts this page off
	if used := e.sandbox.Used("a").Egress; used < 64<<10 {
		t.Fatalf("%d bytes are counted", used)
	}
	if got := read("a", "/second"); !strings.Contains(got, quota) {
		t.Errorf("then a page: %.400s, want %q", got, quota)
	}
	if got := e.call("a", "/mcp", "WebSearch", map[string]any{"query": "x", "engines": []string{"duckduckgo"}}); !strings.Contains(got, quota) {
		t.Errorf("then a search: %.400s, want %q", got, quota)
	}
	if got := read("b", "/third"); !strings.Contains(got, "/third page") {
		t.Errorf("another tenant: %.400s", got)
	}
}
