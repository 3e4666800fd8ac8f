package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// generations are the processes of a server that hands over, one after the other.
type generations struct {
	*web
	pid int // PID of the process that serves clients
}

func (g *generations) signal(sig os.Signal) {
	g.t.Helper()
	p, err := os.FindProcess(g.pid)
	if err == nil {
		err = p.Signal(sig)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// handOver makes the server hand over to a new process, and returns when the old one has
// stopped.
func (g *generations) handOver() {
	g.t.Helper()
	g.signal(syscall.SIGUSR2)
	line := g.wait("the successor accepts all new connections")
	_, text, _ := strings.Cut(line, "successor=")
	next, err := strconv.Atoi(text)
	if err != nil {
		g.t.Fatalf("%q: %v", line, err)
	}
	before := g.pid
	g.pid = next
	g.wait(fmt.Sprintf(`msg="the server has stopped" pid=%d`, before))
}

// stop ends the last process.
func (g *generations) stop() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
	g.wait(fmt.Sprintf(`msg="the server has stopped" pid=%d`, g.pid))
	g.end()
}

// TestHandOver checks a server that hands over under load, again and again: no call fails,
// and sessions continue. A call that runs during a hand-over is answered by the process
// that began it. BELLJAR_TEST_HANDOVERS=full makes a thousand calls a second through five
// hand-overs.
func TestHandOver(t *testing.T) {
	handovers, perSecond := 2, 100
	if os.Getenv("BELLJAR_TEST_HANDOVERS") == "full" {
		handovers, perSecond = 5, 1000
	}
	const clients = 16
	w, a, dir := servedWithAdmin(t)
	g := &generations{w, w.cmd.Process.Pid}
	gate := filepath.Join(dir, "ws", "gate")
	if err := syscall.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()

	long := w.session("one")
	var calls sync.WaitGroup
	calls.Go(func() {
		res, text := w.post(long, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"read -r <gate; echo through"}}}`)
		if res == nil || !strings.Contains(text, "through") {
			t.Errorf("the call that ran all the time: %v %s", res, text)
		}
	})
	a.until(`belljar_calls_running{tenant="a"}`, 1)

	var done, failed atomic.Int64
	over := make(chan struct{})
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	for range clients {
		session := w.session("one")
		client := &http.Client{Transport: &http.Transport{}}
		calls.Go(func() {
			defer client.CloseIdleConnections()
			for id := 1; ; id++ {
				select {
				case <-over:
					return
				case <-pace.C:
				}
				if text, err := taskList(client, w.url, session, id); err != nil || !strings.Contains(text, `"result"`) || strings.Contains(text, `"isError":true`) {
					failed.Add(1)
					t.Errorf("call %d of session %.8s: %v %s", id, session["Mcp-Session-Id"], err, text)
				}
				done.Add(1)
			}
		})
	}
	for n := range handovers {
		before := done.Load()
		if n == 0 { // the long call may end once its process has a successor
			g.signal(syscall.SIGUSR2)
			line := g.wait("the successor accepts all new connections")
			_, text, _ := strings.Cut(line, "successor=")
			first := g.pid
			if g.pid, err = strconv.Atoi(text); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if _, err := open.WriteString("\n"); err != nil {
				t.Fatal(err)
			}
			g.wait(fmt.Sprintf(`msg="the server has stopped" pid=%d`, first))
		} else {
			g.handOver()
		}
		for done.Load() < before+int64(perSecond)/2 && failed.Load() == 0 { // some calls are answered by the successor
			a.value("belljar_ready")
		}
		if got := a.value(`belljar_handovers_total{result="done"}`); got != float64(n+1) {
			t.Errorf("%v hand-overs are counted, want %d", got, n+1)
		}
	}
	close(over)
	calls.Wait()
	t.Logf("%d calls through %d hand-overs, %d failed", done.Load(), handovers, failed.Load())
	if _, text := w.post(long, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"true"}}}`); !strings.Contains(text, "the session has a new box") {
		t.Errorf("the first call of a session that needs its box: %s", text)
	}
	g.stop()
	if left, err := filepath.Glob(filepath.Join(dir, "*.sock")); err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v, %v", left, err)
	}
}

// taskList calls a tool that needs no box.
func taskList(client *http.Client, url string, session map[string]string, id int) (string, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"TaskManager","arguments":{"action":"list"}}}`, id)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range session {
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", res.Status)
	}
	return string(text), err
}

// TestHandOverOfOverlays checks overlay workspaces: the box of such a workspace has layers
// of its own, which only one process may use. A call in the successor waits until the
// process before has released them.
func TestHandOverOfOverlays(t *testing.T) {
	t.Parallel()
	w, _, _ := servedWithAdmin(t, "--workspace-mode", "overlay")
	g := &generations{w, w.cmd.Process.Pid}
	session := w.session("one")
	bash := func(command string) string {
		_, text := w.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":%q}}}`, command))
		return text
	}
	stream := openStream(t, w, w.session("one")) // the stream keeps the process before from ending immediately
	defer stream.Close()
	if text := bash("echo kept >kept"); !strings.Contains(text, "exit=0") {
		t.Fatal(text)
	}
	g.signal(syscall.SIGUSR2)
	line := g.wait("the successor accepts all new connections")
	_, text, _ := strings.Cut(line, "successor=")
	var err error
	if g.pid, err = strconv.Atoi(text); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	http.DefaultClient.CloseIdleConnections() // the next call goes to the successor
	if text := bash("cat kept"); !strings.Contains(text, `kept\n`) {
		t.Errorf("in the successor: %s", text)
	}
	g.stop()
}

// TestHandOverFails checks that a server continues if its successor does not begin to
// serve.
func TestHandOverFails(t *testing.T) {
	w, a, dir := servedWithAdmin(t)
	session := w.session("one")
	put(t, filepath.Join(dir, "policy.yaml"), swapX) // no server starts with this policy
	for n := range 2 {
		if err := w.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		if line := w.wait("the server was not handed over"); !strings.Contains(line, "it ended before it was ready") {
			t.Errorf("it says %s", line)
		}
		if got := a.value(`belljar_handovers_total{result="failed"}`); got != float64(n+1) {
			t.Errorf("%v failures are counted, want %d", got, n+1)
		}
		http.DefaultClient.CloseIdleConnections()
		if res, text := w.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res == nil || res.StatusCode != http.StatusOK || res.Close {
			t.Errorf("the server afterwards: %v %s", res, text)
		}
	}
	w.end()
}

// TestHandOverOfAnswers checks that the port for answers to a webhook goes to the
// successor, and accepts answers to questions that were asked before.
func TestHandOverOfAnswers(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	hook, asked := receiver(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "key"), hookKey+"\n")
	put(t, filepath.Join(dir, "token"), digest("one")+"\n")
	rule := `{id: ask, match: {tool: Bash, command: "echo publish **"}, decision: ask, reason: Ask.}, {id: no,`
	policy := strings.NewReplacer("TOKEN", filepath.Join(dir, "token"), "{id: no,", rule, "profile: p}", "profile: p, ask: {timeout: 10m, return_after: 1s}}").Replace(adminPolicy)
	put(t, filepath.Join(dir, "policy.yaml"), policy)
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir()},
		"--workspace", filepath.Join(dir, "ws"), "--policy", filepath.Join(dir, "policy.yaml"), "--state", filepath.Join(dir, "state"),
		"--webhook", hook.URL+"/hook", "--webhook-private", "--webhook-secret", "file:"+filepath.Join(dir, "key"), "--webhook-answers", "127.0.0.1:0")
	g := &generations{w, w.cmd.Process.Pid}
	session := w.session("one")
	bash := func(what string) string {
		_, text := w.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo publish %s"}}}`, what))
		return text
	}
	next := func() webhookBody {
		t.Helper()
		select {
		case body := <-asked:
			return body
		case <-time.After(time.Minute):
			t.Fatal("the webhook gets no question")
		}
		return webhookBody{}
	}
	bash("one")
	first := next()
	for n := range 2 {
		http.DefaultClient.CloseIdleConnections()
		g.handOver()
		res, err := http.Post(first.Answer, "application/json", strings.NewReader(fmt.Sprintf(`{"token":%q,"yes":true,"by":"ann"}`, first.Token)))
		if err != nil {
			t.Fatalf("the answer after hand-over %d: %v", n+1, err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("the answer after hand-over %d gets %s", n+1, res.Status)
		}
	}
	if text := bash("one"); !strings.Contains(text, `publish one\n`) {
		t.Errorf("after the yes the call gets %s", text)
	}
	bash("two")
	port := func(url string) string { before, _, _ := strings.Cut(url, "/approvals/"); return before }
	if second := next(); port(second.Answer) != port(first.Answer) || second.Answer == first.Answer {
		t.Errorf("a question of the successor is answered at %s, want the port of %s", second.Answer, first.Answer)
	}
	g.stop()
}
