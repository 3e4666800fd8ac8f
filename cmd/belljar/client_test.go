package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/mcptest"
	"belljar.dev/internal/testenv"
)

// wire is a way in which clients reach a server.
type wire struct {
	name string
	http bool
	era  string // protocol revision that the client requests
}

// wires are all ways to reach a server: what is true for one must be true for each.
var wires = []wire{
	{"stdio", false, "2025-11-25"},
	{"stdio modern", false, "2026-07-28"},
	{"http", true, "2025-11-25"},
	{"http modern", true, "2026-07-28"},
}

// onEachWire runs a test for each wire, in parallel with other tests: each has servers of
// its own, and waits for them most of the time.
func onEachWire(t *testing.T, f func(t *testing.T, w wire)) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			f(t, w)
		})
	}
}

// place contains the directories of a server, and its command line.
type place struct {
	dir, ws, state string
	policy         string // path of the policy; empty for the built-in one
	program        string // path of the program; empty for the program under test
	env            []string
	flags          []string
}

func newPlace(t testing.TB) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{dir: dir, ws: filepath.Join(dir, "ws"), state: filepath.Join(dir, "st")}
	if err := os.Mkdir(p.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	return p
}

// file writes a file below the place, and creates its directories.
func (p *place) file(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// outside returns the flags with which all hooks of the place's folder "mine" run outside
// of any box. The hooks must exist.
func (p *place) outside(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join(p.dir, "mine")
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("hooks in %s: %v, %v", dir, found, err)
	}
	flags := []string{"--hooks", dir}
	for _, hook := range found {
		name, _ := filepath.Rel(dir, hook)
		flags = append(flags, "--trust-hook", name)
	}
	return flags
}

// command returns a command of belljar with arguments, at the place.
func (p *place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(p.program, os.Args[0]))
	cmd.Args = append([]string{"belljar"}, args...)
	cmd.Env, cmd.Dir = p.env, p.dir
	return cmd
}

// run returns what a command of belljar prints about the state of the place.
func (p *place) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := p.command(t.Context(), append(args, "--state", p.state)...).CombinedOutput()
	return string(out), err
}

// tokenFor makes a token of belljar's own for a tenant of the place's policy.
func (p *place) tokenFor(t testing.TB, tenant string) (made struct{ Token, ID string }) {
	t.Helper()
	out, err := p.command(t.Context(), "token", "create", "--tenant", tenant, "--policy", p.policy, "--state", p.state, "--json").Output()
	if bad := json.Unmarshal(out, &made); err != nil || bad != nil || made.Token == "" {
		t.Fatalf("token create: %s, %v", out, errors.Join(err, bad))
	}
	return made
}

// serving is a belljar server at a place, in a process of its own.
type serving struct {
	cmd    *exec.Cmd
	url    string // URL of the server over HTTP
	in     io.WriteCloser
	out    io.ReadCloser
	stderr bytes.Buffer // standard error; complete once the server has ended
	wg     sync.WaitGroup
	once   sync.Once
}

// start starts a server for clients on a wire. The test ends it.
func (p *place) start(t testing.TB, w wire) *serving {
	t.Helper()
	args := append([]string{"serve", "--workspace", p.ws, "--state", p.state}, p.flags...)
	if p.policy != "" {
		args = append(args, "--policy", p.policy)
	}
	if w.http {
		args = append(args, "--http", "127.0.0.1:0")
	}
	s := &serving{cmd: p.command(context.Background(), args...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if s.out, err = s.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := make(chan string, 1)
	s.wg.Go(func() {
		defer close(url)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.stderr.WriteString(lines.Text() + "\n")
			if _, after, ok := strings.Cut(lines.Text(), " url="); ok {
				url <- strings.Fields(after)[0]
			}
		}
	})
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("the server said:\n%s", s.stderr.String())
		}
	})
	if w.http {
		if s.url = <-url; s.url == "" {
			s.stop()
			t.Fatalf("the server does not serve: %s", s.stderr.String())
		}
	}
	return s
}

// stop ends the server with SIGTERM, and kill with SIGKILL. Both may be called twice.
func (s *serving) stop() { s.end(syscall.SIGTERM) }
func (s *serving) kill() { s.end(syscall.SIGKILL) }

func (s *serving) end(how os.Signal) {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(how) // the process may have ended
		s.in.Close()
		s.wg.Wait()
		_ = s.cmd.Wait()
	})
}

// reload makes the server read its policy again, and returns when the new policy decides.
func (s *serving) reload(t *testing.T, p *place) {
	t.Helper()
	want, err := config.ReadPolicy(p.policy, "")
	if err == nil {
		err = s.cmd.Process.Signal(syscall.SIGHUP)
	}
	if err != nil {
		t.Fatal(err)
	}
	for held := (control.Policy{}); held.SHA256 != want.Hash(); {
		all, err := control.Clients(p.state)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.PID != s.cmd.Process.Pid {
				continue
			}
			if err := one.Ask(t.Context(), http.MethodGet, "/policy", nil, &held); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// client is a client of the SDK.
type client struct {
	*sdk.ClientSession
	subscriber mcptest.Subscriber
}

// connect connects a client; over stdio a server has one.
func (s *serving) connect(t *testing.T, w wire, o *sdk.ClientOptions) client {
	t.Helper()
	return s.connectAs(t, w, o, "")
}

// bearer sends a token with each request.
type bearer string

// RoundTrip sends a request with the token over the default transport.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connectAs connects a client with a token; if it is empty, without one.
func (s *serving) connectAs(t *testing.T, w wire, o *sdk.ClientOptions, token string) client {
	t.Helper()
	var transport sdk.Transport = &sdk.IOTransport{Reader: s.out, Writer: s.in}
	if w.http {
		transport = &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: bearer(token)}}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	if err := sdk.AddSendingCustomMethod[*taskParams, *taskResult](c, "tasks/get"); err != nil {
		t.Fatal(err)
	}
	if err := sdk.AddSendingCustomMethod[*methodParams, *methodResult](c, "analyze_complexity"); err != nil {
		t.Fatal(err)
	}
	subscriber := mcptest.NewSubscriber(c)
	session, err := c.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: w.era})
	if err != nil {
		t.Fatal(err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != w.era {
		t.Fatalf("the client speaks %s, want %s", got, w.era)
	}
	t.Cleanup(func() { session.Close() })
	return client{session, subscriber}
}

// call makes a call and returns its result.
func (c client) call(t *testing.T, tool string, args map[string]any) *sdk.CallToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	return r
}

// texts returns the text blocks of a call's result.
func (c client) texts(t *testing.T, tool string, args map[string]any) []string {
	t.Helper()
	return textsOf(c.call(t, tool, args))
}

func textsOf(r *sdk.CallToolResult) (all []string) {
	for _, block := range r.Content {
		if text, ok := block.(*sdk.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return all
}

// all returns the text blocks of a call's result as one text.
func (c client) all(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	return strings.Join(c.texts(t, tool, args), "\n")
}
