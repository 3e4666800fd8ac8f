package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/testenv"
)

const askingPolicy = `version: 1
defaults: {decision: allow, profile: offline, ask: {timeout: TIMEOUT, return_after: 1s}}
profiles: {offline: {fs: {system: true, workspace: rw}}}
rules:
  - {id: publish, match: {tool: Bash, command: "echo publish **"}, decision: ask, reason: Publishing needs a person., remember: [once, session, 2h]}
  - {id: release, match: {tool: Bash, command: "echo release **"}, decision: ask, reason: A release needs a person., remember: [once]}
`

// asking is a server whose policy asks about calls, with its directories.
type asking struct {
	*process
	ws, state, policy string
	calls             int
}

func startAsking(t *testing.T, timeout string) *asking {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	a := &asking{ws: filepath.Join(dir, "ws"), state: filepath.Join(dir, "st"), policy: filepath.Join(dir, "policy.yaml")}
	if err := os.Mkdir(a.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	a.policyIs(t, timeout)
	a.start(t)
	return a
}

// policyIs writes the policy, with this timeout for its questions.
func (a *asking) policyIs(t *testing.T, timeout string) {
	t.Helper()
	if err := os.WriteFile(a.policy, []byte(strings.Replace(askingPolicy, "TIMEOUT", timeout, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *asking) start(t *testing.T, flags ...string) {
	t.Helper()
	a.process = serve(t, os.Args[0], append([]string{"belljar", "serve", "--workspace", a.ws, "--policy", a.policy, "--state", a.state}, flags...)...)
	a.send(t, hello)
	a.receive(t)
	a.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// result is the result of a call of a tool.
type result struct {
	Content           []struct{ Text string }
	IsError           bool
	StructuredContent struct {
		Refusal struct {
			Decision   string
			ApprovalID string `json:"approval_id"`
		}
		Approval struct{ State string }
		Stdout   string
	}
}

func (r result) text() string { return r.Content[0].Text }

func (a *asking) call(t *testing.T, tool string, args map[string]any) (r result) {
	t.Helper()
	a.calls++
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.calls, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		t.Fatal(err)
	}
	a.send(t, string(text))
	got := a.receive(t)
	if err := json.Unmarshal(got.Result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("%s %v: %s, %v", tool, args, got.Result, err)
	}
	return r
}

func (a *asking) bash(t *testing.T, command string) result {
	t.Helper()
	return a.call(t, "Bash", map[string]any{"command": command})
}

// waits makes a call that is asked about, and returns the id of its approval.
func (a *asking) waits(t *testing.T, command string) string {
	t.Helper()
	r := a.bash(t, command)
	if !strings.HasPrefix(r.text(), "WAITING for approval ap-") || r.StructuredContent.Refusal.ApprovalID == "" {
		t.Fatalf("%s: answered %+v, want it to wait", command, r)
	}
	id := r.StructuredContent.Refusal.ApprovalID
	if command := "`belljar approve yes " + id; !strings.Contains(r.text(), command) {
		t.Errorf("%s: answered %q, want the command %s", command, r.text(), command)
	}
	return id
}

// approve runs belljar approve.
func (a *asking) approve(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = append(append([]string{"belljar", "approve"}, args...), "--state", a.state)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (a *asking) approved(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := a.approve(t, args...); err != nil || !strings.Contains(out, want) {
		t.Errorf("approve %v: %s%v, want it to say %q", args, out, err, want)
	}
}

func (a *asking) notApproved(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := a.approve(t, args...); err == nil || !strings.Contains(out, want) {
		t.Errorf("approve %v: %s%v, want it refused with %q", args, out, err, want)
	}
}

func TestApproveByCommand(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "1m")
	id := a.waits(t, "echo publish one")
	a.approved(t, "runs:    echo publish one\n", "show", id)
	a.approved(t, id+"  pending  local   publish", "list")
	a.approved(t, "yes, for once", "yes", id)
	a.approved(t, "yes, for once", "yes", id)
	a.notApproved(t, "already has another answer", "no", id)
	if r := a.call(t, "ReadBgOutput", map[string]any{"id": id}); r.StructuredContent.Approval.State != "approved" || !strings.HasPrefix(r.text(), "APPROVED: ") {
		t.Errorf("read by its id: %+v", r)
	}
	if r := a.bash(t, "echo publish one"); r.StructuredContent.Stdout != "publish one\n" {
		t.Errorf("after a yes the call gets %+v", r)
	}
	if again := a.waits(t, "echo publish one"); again == id {
		t.Error("a yes for one call was used twice")
	}
	two := a.waits(t, "echo publish two")
	a.approved(t, "no. The agent is notified", "no", two, "--note", "not today")
	if r := a.bash(t, "echo publish two"); !r.IsError || !strings.Contains(r.text(), "Why: Their note: not today\n") {
		t.Errorf("after a no the call gets %+v", r)
	}
	three := a.waits(t, "echo publish three")
	a.approved(t, "yes, for session", "yes", three, "--for", "session")
	for range 2 {
		if r := a.bash(t, "echo  publish 'three'"); r.StructuredContent.Stdout != "publish three\n" {
			t.Errorf("after a yes for the session the call gets %+v", r)
		}
	}
	a.approved(t, "is revoked", "revoke", three)
	if r := a.bash(t, "echo publish three"); !strings.Contains(r.text(), "was revoked") {
		t.Errorf("after it was revoked the call gets %+v", r)
	}
	a.notApproved(t, `approval "ap-none" does not exist`, "yes", "ap-none")
	a.notApproved(t, "want once, session, or a time", "yes", id, "--for", "ever")
}

func TestApproveExpires(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "1s")
	r := a.bash(t, "echo publish one")
	id := r.StructuredContent.Refusal.ApprovalID
	got := a.call(t, "ReadBgOutput", map[string]any{"id": id, "wait_ms": 20000})
	if got.StructuredContent.Approval.State != "expired" || !strings.HasPrefix(got.text(), "DENIED: ") {
		t.Errorf("after its time the approval is read as %+v", got)
	}
	a.notApproved(t, "too late", "yes", id)
}

// TestApproveAcrossARestart checks that a server that is killed while calls wait forgets
// none of them.
func TestApproveAcrossARestart(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "1m")
	one, two := a.waits(t, "echo publish one"), a.waits(t, "echo publish two")
	a.approved(t, "yes", "yes", two)
	a.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, a.out)
	a.notApproved(t, "no server of this user runs here", "yes", one)
	a.start(t)
	a.approved(t, one+"  pending", "list")
	a.approved(t, "yes", "yes", one)
	for _, command := range []string{"echo publish one", "echo publish two"} {
		if r := a.bash(t, command); r.IsError || !strings.HasPrefix(r.StructuredContent.Stdout, "publish ") {
			t.Errorf("%s: after the restart the call gets %+v", command, r)
		}
	}
}

// attack tries, from inside a box, to answer an approval in every way that leads to a unix
// socket, and prints the result of each way.
const attack = `
import array, os, socket, sys
ident, sockets, linked = sys.argv[1], sys.argv[2], sys.argv[3]
body = b'{"yes":true}'
request = (b'POST /approvals/%s/answer HTTP/1.1\r\nHost: belljar\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % (ident.encode(), len(body))) + body
def say(name, f):
    try:
        print(name, repr(f()), flush=True)
    except Exception as e:
        print(name, 'failed', e, flush=True)
def to(address):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(address)
    s.sendall(request)
    return s.recv(4096)
say('path', lambda: to(sockets))
say('list', lambda: os.listdir(os.path.dirname(sockets)))
say('abstract path', lambda: to('\0' + sockets))
say('link', lambda: to('/workspace/link'))
say('hard link', lambda: to(linked))
for p in os.listdir('/proc'):
    if p.isdigit():
        say('root of ' + p, lambda: to('/proc/%s/root%s' % (p, sockets)))
for fd in range(1024):
    try:
        s = socket.socket(fileno=os.dup(fd))
    except OSError:
        continue
    s.settimeout(1)
    say('descriptor %d' % fd, lambda: (s.send(request), s.recv(4096)))
names = [l.split()[-1] for l in open('/proc/net/unix').read().splitlines()[1:] if '@' in l]
for n in names:
    say('abstract ' + n, lambda: to('\0' + n[1:]))
print('tried')
`

// TestAnAgentCannotApproveItself checks that an agent cannot answer its own question,
// whatever part of the server it reaches. The socket is even put into its workspace, as a
// person might do by mistake.
func TestAnAgentCannotApproveItself(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "5m")
	testenv.Need(t, testenv.Python)
	id := a.waits(t, "echo publish it")
	socket := filepath.Join(control.Dir(a.state), strconv.Itoa(a.cmd.Process.Pid)+".sock")
	err := os.Link(socket, filepath.Join(a.ws, "hard.sock"))
	if err == nil {
		err = os.Symlink(socket, filepath.Join(a.ws, "link"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(a.ws, "attack.py"), []byte(attack), 0o644)
	}
	var self []byte
	if err == nil {
		self, err = os.ReadFile(os.Args[0])
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(a.ws, "belljar"), self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(a.ws, "hard.sock"), 0o777); err != nil { // so that every user of the box can connect
		t.Fatal(err)
	}

	said := a.bash(t, fmt.Sprintf("python3 /workspace/attack.py %s %s /workspace/hard.sock", id, socket)).text()
	t.Log(said)
	if !strings.Contains(said, "\ntried\n") {
		t.Error("the attack did not come to its end")
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "200 OK") || strings.Contains(line, `"state":"approved"`) {
			t.Errorf("an answer from inside a box was taken: %s", line)
		}
	}
	own := a.bash(t, fmt.Sprintf("cd /workspace && ./belljar approve yes %s --state %s; mkdir -p /tmp/st/servers && ln -s /workspace/hard.sock /tmp/st/servers/1.sock && ./belljar approve yes %s --state /tmp/st; true", id, a.state, id)).text()
	t.Log(own)
	if strings.Contains(own, "yes, for") {
		t.Errorf("the command answered from inside a box: %s", own)
	}
	out, err := a.approve(t, "show", id, "--json")
	var still approval.Approval
	if err == nil {
		err = json.Unmarshal([]byte(out), &still)
	}
	if err != nil || still.State != approval.Pending || !still.Answered.Equal(time.Time{}) {
		t.Errorf("after the attack the approval is %s, %v", out, err)
	}
	a.approved(t, "yes, for once", "yes", id) // the owner still can
}
