package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// Two policies that answer the same call in two ways, by a rule of their own,
// and one with a fault. The second has a layer, whose file changes as well.
const (
	swapA = "version: 1\nprofiles: {p: {fs: {system: true}}}\nrules:\n  - {id: a, match: {tool: \"*\"}, decision: allow}\n"
	swapB = "version: 1\nprofiles: {p: {fs: {system: true}}}\ntenants: {local: {rules: [layer.yaml]}}\nrules:\n  - {id: a, match: {tool: \"*\"}, decision: allow}\n"
	swapL = "version: 1\nrules:\n  - {id: b, match: {tool: \"*\"}, decision: deny}\n"
	swapX = "version: 1\nprofiles: {p: {fs: {sistem: true}}}\n"
)

type nothing struct{}

func (nothing) Facts() policies.Facts { return policies.Facts{} }

// judged keeps what calls were judged by.
type judged struct {
	mu   sync.Mutex
	seen map[string]int // by policy, rule and verdict
}

func (j *judged) Decided(_ context.Context, d mcp.Decided) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen[d.Decision.Policy+" "+d.Decision.Rule+" "+d.Decision.Verdict.String()]++
	return nil
}

func (j *judged) Finished(mcp.Finished) {}

// put writes a file as editors do: at once.
func put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// A thousand policies take each other's place while 16 sessions call: each call
// is judged by exactly one of them, and one with faults judges none.
func TestSwapsUnderLoad(t *testing.T) {
	const swaps, sessions = 1000, 16
	dir := t.TempDir()
	file, layer := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "layer.yaml")
	put(t, layer, swapL)
	put(t, file, swapB)
	b, err := config.ReadPolicy(file, "")
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, swapA)
	a, err := config.ReadPolicy(file, "")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	g.now.Store(a)
	seen := &judged{seen: make(map[string]int)}
	server, err := mcp.New(mcp.Config{Gate: g, Tenants: g, Tenant: localTenant, Audit: seen, Limits: mcp.Limits{Rate: 1e9, Burst: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	mcp.AddTool(server, mcp.Tool{Name: "say", Description: "says hi"}, func(_ context.Context, c mcp.Call, _ nothing) (*mcp.Result, error) {
		if c.Grant.IsZero() {
			t.Error("a call runs without a grant")
		}
		return mcp.Text("hi"), nil
	})
	var log bytes.Buffer
	r := &reloader{gate: g, file: file, workspace: t.TempDir(), status: &policyStatus{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	r.changed = func(*policies.Policy) { server.Reloaded() }

	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range sessions {
		s, err := server.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer s.Close()
			for !stop.Load() {
				res, err := server.Call(t.Context(), s, "say", nil)
				switch {
				case err != nil:
					t.Error(err)
				case res.Content[0].Text != "hi" && !strings.HasPrefix(res.Content[0].Text, "DENIED by policy rule b ("):
					t.Errorf("a call is answered %q", res.Content[0].Text)
				}
				calls.Add(1)
				runtime.Gosched() // or who swaps gets no turn among so many
			}
		})
	}
	for i := range swaps {
		before := g.now.Load().Hash()
		want := before
		switch i % 4 {
		case 0:
			put(t, file, swapB)
			want = b.Hash()
		case 1:
			put(t, file, swapX)
		case 2:
			put(t, file, swapA)
			want = a.Hash()
		case 3: // the policy is well, and its layer is not
			put(t, layer, swapX)
			put(t, file, swapB)
		}
		r.reload(t.Context())
		if got := g.now.Load().Hash(); got != want {
			t.Fatalf("swap %d: the policy is %.8s, want %.8s:\n%s", i, got, want, log.String())
		}
		if refused := r.status.info().Refused; (refused != "") != (i%2 == 1) {
			t.Fatalf("swap %d: the status says %q", i, refused)
		}
		put(t, layer, swapL)
		log.Reset()
		// Some calls between any two swaps.
		for seen := calls.Load(); calls.Load() < seen+sessions; {
			if t.Failed() {
				break
			}
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
	known := map[string]bool{a.Hash() + " a allow": true, b.Hash() + " b deny": true}
	for what, n := range seen.seen {
		if !known[what] {
			t.Errorf("%d calls were judged by %s", n, what)
		}
		delete(known, what)
	}
	if len(known) > 0 {
		t.Errorf("no calls were judged by %v", known)
	}
	t.Logf("%d calls in %d swaps", calls.Load(), swaps)
}

// web is a belljar that serves HTTP as a process of its own.
type web struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
	log chan string // lines of its standard error
	end func()      // ends the server and waits for it, once
}

func serveWeb(t *testing.T, env []string, args ...string) *web {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) // it ends by a signal, after the test
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = append([]string{"belljar", "serve", "--http", "127.0.0.1:0"}, args...)
	cmd.Env = append(os.Environ(), env...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &web{t: t, cmd: cmd, log: make(chan string, 10_000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(w.log)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			w.log <- lines.Text()
		}
	})
	w.end = sync.OnceFunc(func() {
		defer stop()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		reading.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(w.end)
	_, rest, _ := strings.Cut(w.wait(" url="), " url=")
	w.url, _, _ = strings.Cut(rest, " ")
	return w
}

// wait is the next line of the log that holds a text.
func (w *web) wait(text string) string {
	w.t.Helper()
	for line := range w.log {
		if strings.Contains(line, text) {
			return line
		}
	}
	w.t.Fatalf("the server never said %q", text)
	return ""
}

func (w *web) post(headers map[string]string, body string) (*http.Response, string) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return nil, ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Error(err)
		return nil, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Error(err)
	}
	return res, string(text)
}

// session makes the handshake as the bearer of a token.
func (w *web) session(token string) map[string]string {
	headers := map[string]string{"Mcp-Protocol-Version": "2025-11-25"}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	res, text := w.post(headers, hello)
	if res == nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("initialize: %v %s", res, text)
	}
	headers["Mcp-Session-Id"] = res.Header.Get("Mcp-Session-Id")
	w.post(headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return headers
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// The server as it is: tenants come with tokens, and a policy that is changed
// under 16 sessions, by SIGHUP and by saving the file, judges each call.
func TestServerSwapsUnderLoad(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	const sessions, swaps = 16, 40
	dir, state := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	tokens := filepath.Join(dir, "token-b")
	if err := os.WriteFile(tokens, []byte(digest("secret-b")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(rule, verdict string) string {
		return fmt.Sprintf(`version: 1
profiles: {p: {fs: {system: true, workspace: ro}}}
totals: {boxes: 64}
tenants:
  a: {token: "${env:TOKEN_A}", limit: {calls: 100000/s, burst: 100000}}
  b: {token: "${file:%s}", limit: {calls: 100000/s, burst: 100000}}
rules:
  - {id: %s, match: {tool: "*"}, decision: %s}
`, tokens, rule, verdict)
	}
	yes, no := text("yes", "allow"), text("no", "deny")
	put(t, file, yes)
	w := serveWeb(t, []string{"TOKEN_A=" + digest("secret-a"), "XDG_STATE_HOME=" + t.TempDir()},
		"--workspace", t.TempDir(), "--policy", file, "--state", state)

	if res, text := w.post(nil, hello); res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") != `Bearer realm="belljar"` {
		t.Errorf("without a token: %s %v %s", res.Status, res.Header, text)
	}
	if res, _ := w.post(map[string]string{"Authorization": "Bearer " + digest("secret-a")}, hello); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the digest in place of the token: %s", res.Status)
	}
	var stop atomic.Bool
	var calls, denied atomic.Int64
	var wg sync.WaitGroup
	for i := range sessions {
		headers := w.session([]string{"secret-a", "secret-b"}[i%2])
		wg.Go(func() {
			for !stop.Load() {
				_, text := w.post(headers, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"true"}}}`)
				switch {
				case strings.Contains(text, "exit=0"):
				case strings.Contains(text, "DENIED by policy rule no "):
					denied.Add(1)
				default:
					t.Errorf("a call is answered %q", text)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range swaps {
		put(t, file, []string{no, swapX, yes, no[:len(no)-10]}[i%4])
		if i != 0 && i != 10 { // which are saved, and no signal is sent
			if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			w.wait("holds from now on")
		} else {
			w.wait("the one before holds on")
		}
	}
	// What is broken is told by the commands that a person asks.
	tell := exec.CommandContext(t.Context(), os.Args[0])
	tell.Args = []string{"belljar", "doctor", "--workspace", t.TempDir(), "--policy", file, "--state", state}
	out, err := tell.CombinedOutput()
	want := fmt.Sprintf("server %d keeps the policy that it read at ", w.cmd.Process.Pid)
	if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "cannot be used") {
		t.Errorf("doctor says %v:\n%s\nwant %s", err, out, want)
	}
	check := exec.CommandContext(t.Context(), os.Args[0])
	check.Args = []string{"belljar", "policy", "check", "--state", state, file}
	if out, err := check.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("policy check says %v:\n%s\nwant %s", err, out, want)
	}
	// A policy without tenants would let everybody in.
	put(t, file, swapA)
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.wait("it names no tenants any more")
	stop.Store(true)
	wg.Wait()
	if denied.Load() == 0 || denied.Load() == calls.Load() {
		t.Errorf("%d of %d calls were denied", denied.Load(), calls.Load())
	}
	t.Logf("%d calls in %d swaps, %d denied", calls.Load(), swaps, denied.Load())

	// The log names for each call the policy that judged it.
	holds := map[string]string{}
	for verdict, text := range map[string]string{"allow": yes, "deny": no} {
		p, err := policies.Parse(file, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		holds[p.Hash()] = verdict
	}
	records := 0
	logs, err := filepath.Glob(filepath.Join(state, "audit", "*.jsonl*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log: %v", err)
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var r struct {
				Policy  string `json:"policy_sha256"`
				Verdict string `json:"verdict"`
			}
			if json.Unmarshal(line, &r) != nil || r.Policy == "" || r.Verdict == "" {
				continue
			}
			records++
			if holds[r.Policy] != r.Verdict {
				t.Errorf("%s by the policy %.8s, which says %s", r.Verdict, r.Policy, holds[r.Policy])
			}
		}
	}
	if records == 0 {
		t.Error("no decision is in the log")
	}
}

func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "link.yaml")
	names := []string{file, link}
	var w watcher
	w.begin(names)
	looks := func(step string, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := w.look(names); got != want {
				t.Errorf("%s, look %d: got %t, want %t", step, i, got, want)
			}
		}
	}
	looks("nothing", false, false, false, false)
	further := filepath.Join(dir, "layer.yaml")
	began := time.Now().Add(time.Hour) // after what is written below
	put(t, further, "one")
	names = append(names, further)
	w.also(names, began)
	looks("a further file that was read", false, false, false)
	put(t, further, "two")
	looks("it changes", false, false, true)
	w.begin(names[:2])
	w.also(names, time.Now().Add(-time.Hour))
	looks("one that was written since", false, true)
	w.begin(names)
	put(t, file, "one")
	looks("a new file", false, false, true)
	w.begin(names)
	looks("it was read", false, false)
	put(t, file, "two") // of the same size
	looks("an exchange", false, false)
	put(t, file, "2wo")
	looks("another before it was read", false, false, true)
	w.begin(names)
	put(t, file, "three")
	looks("a change", false)
	put(t, file, "two")
	looks("and another", false, false, true)
	w.begin(names)
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	looks("a link", false, false, true)
	w.begin(names)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	looks("a file that goes", false, false, true)
}

func TestTenantTokens(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Setenv("TOKEN_A", digest("a"))
	t.Setenv("TOKEN_PLAIN", "a")
	good := write("good", strings.ToUpper(digest("b"))+"\n")
	read := func(tenants string) ([]tenantToken, error) {
		p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {p: {}}\n"+tenants))
		if err != nil {
			t.Fatal(err)
		}
		return tenantTokens(t.Context(), p, hostexec.WrittenIn())
	}
	all, err := read("tenants: {a: {token: \"${env:TOKEN_A}\"}, b: {token: \"${file:" + good + "}\"}, none: {}}")
	if err != nil || len(all) != 2 {
		t.Fatalf("got %v, %v", all, err)
	}
	g := &gate{}
	g.now.Store(policies.Default())
	if _, known := g.Bearer("a"); known {
		t.Error("a token is known before there are any")
	}
	g.tokens.Store(&all)
	for token, want := range map[string]string{"a": "a", "b": "b", "": "", "c": "", digest("a"): "", "none": ""} {
		if got, known := g.Bearer(token); got != want || known != (want != "") {
			t.Errorf("the token %q is %q's, %t; want %q's", token, got, known, want)
		}
	}
	for tenants, want := range map[string]string{
		"tenants: {a: {}}": "no tenant of the policy has a token",
		"tenants: {a: {token: \"${env:TOKEN_PLAIN}\"}}":                             "want the SHA-256 of the token in 64 hexadecimal digits",
		"tenants: {a: {token: \"${env:TOKEN_NOT_SET}\"}}":                           "belljar's environment has no variable TOKEN_NOT_SET",
		"tenants: {a: {token: \"${env:TOKEN_A}\"}, b: {token: \"${env:TOKEN_A}\"}}": "token of tenant b: tenant a has the same",
		"tenants: {a: {token: \"${file:" + filepath.Join(dir, "nosuch") + "}\"}}":   "no such file",
	} {
		if _, err := read(tenants); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), digest("a")) {
			t.Errorf("%s: got %v, want %s", tenants, err, want)
		}
	}
	if all, err := read(""); err != nil || len(all) > 0 {
		t.Errorf("without tenants: %v, %v", all, err)
	}
}
