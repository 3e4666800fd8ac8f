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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// swapA is a policy that allows everything. swapX is a policy with a misspelled field.
const (
	swapA = "version: 1\nprofiles: {p: {fs: {system: true}}}\nrules:\n  - {id: a, match: {tool: \"*\"}, decision: allow}\n"
	swapX = "version: 1\nprofiles: {p: {fs: {sistem: true}}}\n"
)

// put replaces a file in one step, as editors do.
func put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// web is a belljar that serves HTTP as a process of its own.
type web struct {
	t     testing.TB
	cmd   *exec.Cmd
	url   string
	admin string      // address of the admin listener, if the server has one
	log   chan string // lines of its standard error
	end   func()      // ends the server once, and waits for its end
}

func serveWeb(t *testing.T, env []string, args ...string) *web {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background()) // a signal ends the server, after the test
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
	line := w.wait(" url=")
	_, rest, _ := strings.Cut(line, " url=")
	w.url, _, _ = strings.Cut(rest, " ")
	_, w.admin, _ = strings.Cut(line, " admin=")
	return w
}

// wait returns the next line of the log that contains a text.
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

// session makes the handshake with a token, and returns the headers for further requests.
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

// stream opens the stream of a session. The caller closes it.
func (w *web) stream(session map[string]string) io.ReadCloser {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for k, v := range session {
		req.Header.Set(k, v)
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatal(res, err)
	}
	return res.Body
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// A policy that is changed by SIGHUP and by saving the file, while 16 sessions of tenants
// with tokens make calls, judges each call.
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
		if i != 0 && i != 10 { // the changes 0 and 10 are only saved, without a signal
			if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			w.wait("is in force from now on")
		} else {
			w.wait("the previous policy stays in force")
		}
	}
	// The commands doctor and policy check report the policy that cannot be used.
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
	// A policy without tenants would accept every client, so the server does not use it.
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
