package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp/upstream"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// lines is a tail without a bound.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) Lines(most int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.text.String()), "\n")
	return all[max(0, len(all)-most):]
}

// plainPeer speaks to a server without more than the test needs.
type plainPeer struct {
	p    upstream.Process
	from *bufio.Reader
	done chan struct{}
	wg   sync.WaitGroup
	read chan string
}

func (c *plainPeer) Done() <-chan struct{} { return c.done }

func (c *plainPeer) Err() error {
	select {
	case <-c.done:
		return io.ErrUnexpectedEOF
	default:
		return nil
	}
}

func (c *plainPeer) Close() {
	c.p.Close()
	c.wg.Wait()
}

// ask sends a request and returns its answer.
func (c *plainPeer) ask(ctx context.Context, method string) (map[string]any, error) {
	if _, err := fmt.Fprintf(c.p.In(), `{"jsonrpc":"2.0","id":1,"method":%q}`+"\n", method); err != nil {
		return nil, err
	}
	select {
	case line, ok := <-c.read:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		var answer struct{ Result map[string]any }
		err := json.Unmarshal([]byte(line), &answer)
		return answer.Result, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type plainDialer struct{}

// Dial asks for the tools.
func (plainDialer) Dial(ctx context.Context, _ upstream.Spec, p upstream.Process) (*plainPeer, error) {
	c := &plainPeer{p: p, from: bufio.NewReader(p.Out()), done: make(chan struct{}), read: make(chan string, 16)}
	c.wg.Go(func() {
		defer close(c.done)
		defer close(c.read)
		for {
			line, err := c.from.ReadString('\n')
			if err != nil {
				return
			}
			c.read <- line
		}
	})
	if _, err := c.ask(ctx, "tools/list"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// scripted are servers in bash. Each answers every line with one.
var scripted = map[string]string{
	"plain": `echo "the token is $TOKEN" >&2; while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{"pid":"'$$'"}}'; done`,
	// It outlives its end wherever it can: a child without its parent, its session, its signals and its streams.
	"clinging": `trap '' TERM INT HUP; (setsid bash -c 'trap "" TERM INT HUP; exec sleep SECONDS' </dev/null >/dev/null 2>&1 &)
		sleep SECONDS & while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done; sleep SECONDS`,
	"dying":  `read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r line; echo "I give up" >&2; exit 3`,
	"silent": `echo "I never answer" >&2; exec sleep SECONDS`,
	"looks": `read -r line; seen=""; for f in /workspace /root /proc/1/environ /var/lib /run/user; do [ -r $f ] && [ -n "$(ls -A $f 2>/dev/null)" ] && seen="$seen $f"; done
		(exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && seen="$seen loopback"; (exec 3<>/dev/tcp/93.184.215.14/80) 2>/dev/null && seen="$seen internet"
		echo '{"jsonrpc":"2.0","id":1,"result":{"seen":"'$seen'","env":"'$(env | cut -d= -f1 | sort | tr '\n' ' ')'"}}'; read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"seen":"'$seen'","env":"'$(env | cut -d= -f1 | sort | tr '\n' ' ')'"}}'; read -r line`,
	"nothing": "",
}

// boxedUpstreams is a pool whose servers run in boxes, under a policy with these servers.
// seconds marks what they leave.
func boxedUpstreams(t *testing.T, of string) (pool *upstream.Pool[*plainPeer], boxes *sandbox.Supervisor, grant policies.Grant, seconds string) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x")
	boxes, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { boxes.Close() })
	w, err := boxes.Workspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policies.Parse("policy.yaml", []byte("version: 1\ndefaults: {decision: allow}\nprofiles: {a: {}}\nupstreams: {servers: {"+of+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	seconds = testenv.Seconds()
	starter := &upstreamBoxes{
		boxes: w, tail: func() upstreamTail { return &lines{} },
		command: func(s upstream.Spec) (upstreamCommand, error) {
			if s.Server.Name == "nothing" {
				return upstreamCommand{Argv: []string{"no-such-program"}}, nil
			}
			script := strings.ReplaceAll(scripted[s.Server.Name], "SECONDS", seconds)
			return upstreamCommand{Argv: []string{"bash", "-c", script}, Env: map[string]string{"TOKEN": "s3cret-value"}, Secrets: []string{"s3cret-value"}}, nil
		},
	}
	pool = upstream.NewPool(upstream.Config[*plainPeer]{Starter: starter, Dialer: plainDialer{}, Grant: func(tenant string, s upstream.Server) (policies.Grant, error) {
		return p.Upstreams().Grant(tenant, policies.UpstreamBox{Server: s.Name, Trusted: s.Trusted})
	}})
	t.Cleanup(pool.Close)
	var servers []upstream.Server
	for name := range scripted {
		s := upstream.Server{Name: name, ID: name, Trusted: true, Settings: p.Upstreams().Of(name, true)}
		if name == "silent" {
			s.Settings.Timeouts.Handshake = time.Second
		}
		servers = append(servers, s)
	}
	pool.Set(servers)
	return pool, boxes, p.Decide(policies.Facts{Tenant: "t", Tool: "mcp_x", Upstream: "x"}).Grant, seconds
}

var someone = upstream.Caller{Tenant: "t", Principal: "ann", Session: "s"}

// A server runs in its box, answers, and is gone with all that it started.
func TestUpstreamInABox(t *testing.T) {
	pool, boxes, grant, seconds := boxedUpstreams(t, "x: {}")
	for _, name := range []string{"plain", "clinging"} {
		err := pool.Do(t.Context(), grant, someone, name, func(ctx context.Context, c *plainPeer) error {
			_, err := c.ask(ctx, "tools/call")
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n := len(boxes.Boxes()); n != 2 {
		t.Errorf("%d boxes", n)
	}
	if n := testenv.Sleeping(t, seconds); n < 3 { // its shell as well
		t.Errorf("%d programs of the clinging server run; the test would prove nothing", n)
	}
	begun := time.Now()
	pool.Close()
	t.Logf("closed in %v", time.Since(begun))
	if n := len(boxes.Boxes()); n != 0 {
		t.Errorf("%d boxes are left", n)
	}
	if n := testenv.Sleeping(t, seconds); n != 0 {
		t.Errorf("%d programs are left", n)
	}
}

// A server has a box without a network, a workspace or anything of belljar's environment.
func TestUpstreamBoxIsClosed(t *testing.T) {
	t.Setenv("BELLJAR_CANARY", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	for of, want := range map[string]string{
		"x: {}": "",
		"looks: {profile: {fs: {workspace: ro}}}": "/workspace", // it would see one
	} {
		pool, _, grant, _ := boxedUpstreams(t, of)
		err := pool.Do(t.Context(), grant, someone, "looks", func(ctx context.Context, c *plainPeer) error {
			got, err := c.ask(ctx, "tools/call")
			if err != nil {
				return err
			}
			if seen, _ := got["seen"].(string); strings.TrimSpace(seen) != want {
				t.Errorf("%s: it sees %q, want %q", of, seen, want)
			}
			env, _ := got["env"].(string)
			if !strings.Contains(env, "TOKEN") || strings.Contains(env, "BELLJAR") || strings.Contains(env, "AWS") {
				t.Errorf("%s: its environment has %s", of, env)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What goes wrong with a server is said with its reason, and its last lines without its
// secrets.
func TestUpstreamInABoxFails(t *testing.T) {
	pool, _, grant, _ := boxedUpstreams(t, "x: {}")
	for name, want := range map[string][]string{
		"dying":   {"the server exited with status 3", "I give up", "it failed, and is started again"},
		"silent":  {"the handshake took longer than 1s", "I never answer"},
		"nothing": {"no-such-program"},
	} {
		err := pool.Do(t.Context(), grant, someone, name, func(ctx context.Context, c *plainPeer) error {
			if _, err := c.ask(ctx, "tools/call"); err != nil {
				<-c.Done()
				return c.Err()
			}
			return nil
		})
		var u *upstream.Unavailable
		if !errors.As(err, &u) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing in\n%v", name, part, err)
			}
		}
	}
	if err := pool.Do(t.Context(), grant, someone, "plain", func(context.Context, *plainPeer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var stderr []string
	if !testenv.Until(time.Minute, func() bool { // it may be read later than the answer
		for _, s := range pool.Status() {
			if s.Server == "plain" {
				stderr = s.Stderr
			}
		}
		return slices.Equal(stderr, []string{"the token is [secret]"})
	}) {
		t.Errorf("stderr is %q", stderr)
	}
}
