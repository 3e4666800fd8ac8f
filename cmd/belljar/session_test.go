package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies/audit"
)

const tenantsPolicy = `version: 1
profiles: {p: {fs: {system: true, workspace: rw}, publish: [3000]}}
defaults: {decision: allow, profile: p}
tenants:
  a: {token: "${env:TOKEN_A}"}
`

// operated is a server of two tenants, with the commands of its operator.
type operated struct {
	*web
	policy, state string
}

func operate(t *testing.T) *operated {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	o := &operated{policy: filepath.Join(t.TempDir(), "policy.yaml"), state: t.TempDir()}
	put(t, o.policy, tenantsPolicy+"  b: {token: \"${env:TOKEN_B}\"}\n")
	o.web = serveWeb(t, []string{"TOKEN_A=" + digest("token-a"), "TOKEN_B=" + digest("token-b"), "XDG_STATE_HOME=" + t.TempDir()},
		"--workspace", t.TempDir(), "--policy", o.policy, "--state", o.state)
	return o
}

// says runs a command of the operator. The command must print want and succeed; if want
// begins with "! ", it must fail.
func (o *operated) says(want string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), os.Args[0])
	cmd.Args = append(append([]string{"belljar"}, args...), "--state", o.state)
	out, err := cmd.CombinedOutput()
	if fails := strings.HasPrefix(want, "! "); fails != (err != nil) || !strings.Contains(string(out), strings.TrimPrefix(want, "! ")) {
		o.t.Errorf("belljar %v: %s%v, want %q", args, out, err, want)
	}
	return string(out)
}

// completes checks the words that a shell offers for the last word of a command line of the
// operator.
func (o *operated) completes(want string, command []string, last ...string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), os.Args[0])
	cmd.Args = append(append([]string{"belljar", "__complete"}, command...), append([]string{"--state", o.state}, last...)...)
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), want+"\t") {
		o.t.Errorf("%v %q is completed with %s%v, want %s", command, last, out, err, want)
	}
}

func (o *operated) tool(session map[string]string, name, args string) string {
	_, text := o.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args))
	return text
}

// listed returns the list that a command prints with --json.
func listed[T any](o *operated, args ...string) (all []T) {
	o.t.Helper()
	if err := json.Unmarshal([]byte(o.says("[", append(args, "--json")...)), &all); err != nil {
		o.t.Fatal(err)
	}
	return all
}

// boxes returns the tenants that have a box.
func (o *operated) boxes() string {
	var tenants []string
	for _, b := range listed[control.Box](o, "ps") {
		tenants = append(tenants, b.Tenant)
	}
	return strings.Join(tenants, " ")
}

const sleeps = `{"command":"sleep 1000"}`

// TestOperatorEndsJobsAndSessions checks that an operator sees what runs, ends a task and a
// session, and that each agent is notified.
func TestOperatorEndsJobsAndSessions(t *testing.T) {
	o := operate(t)
	a, b := o.session("token-a"), o.session("token-b")
	long := testenv.Seconds()
	for _, session := range []map[string]string{a, b} {
		if text := o.tool(session, "BackgroundBash", `{"command":"sleep `+long+`"}`); !strings.Contains(text, "Task 1 runs") {
			t.Fatal(text)
		}
	}
	o.says("TENANT", "session", "list")
	sessions := listed[control.Session](o, "session", "list")
	if len(sessions) != 2 || sessions[0].Tenant != "a" || sessions[0].Jobs != 1 || sessions[0].Transport != "http" || sessions[0].Client == "" || strings.Contains(a["Mcp-Session-Id"], " ") || a["Mcp-Session-Id"] == sessions[0].ID {
		t.Fatalf("sessions: %+v", sessions)
	}
	if got := listed[control.Session](o, "session", "list", "--tenant", "b"); len(got) != 1 || got[0].Tenant != "b" {
		t.Errorf("sessions of b: %+v", got)
	}
	o.says("sleep "+long, "job", "list", "--tenant", "b")
	if jobs := listed[control.Job](o, "job", "list"); len(jobs) != 2 || jobs[0].Command != "sleep "+long || !strings.HasPrefix(jobs[1].Box, jobs[1].Session) {
		t.Errorf("jobs: %+v", jobs)
	}

	o.completes(sessions[0].ID, []string{"session", "end"}, "")
	o.completes("1", []string{"job", "end"}, "")
	o.completes(sessions[1].ID, []string{"job", "end", "1"}, "--session", sessions[1].ID[:len(sessions[1].ID)-1])

	o.says("! 2 tasks have the number 1; choose one with --session", "job", "end", "1")
	o.says("! no task 7 runs", "job", "end", "7")
	o.says("! want the number of a task", "job", "end", "one")
	o.says("! name what is to end", "job", "end")
	o.says("! --all allows no name", "session", "end", "--all", "--tenant", "a")
	o.says("! no session \"s-NONE\" is open", "session", "end", sessions[0].ID, "s-NONE")
	both := testenv.Sleeping(t, long)
	if both < 2 {
		t.Fatalf("%d processes of two tasks are found", both)
	}
	o.says("task 1 of session "+sessions[0].ID+", tenant a: ended", "job", "end", "1", "--session", sessions[0].ID)
	if text := o.tool(a, "ReadBgOutput", `{"task_id":1}`); !strings.Contains(text, "status=killed") || !strings.Contains(text, "the operator of this server ended this task, with all it had started") {
		t.Errorf("the agent reads %s", text)
	}
	if n := testenv.Sleeping(t, long); n != both/2 {
		t.Errorf("%d of %d processes run after one of two tasks was ended", n, both)
	}
	if jobs := listed[control.Job](o, "job", "list"); len(jobs) != 1 || jobs[0].Tenant != "b" {
		t.Errorf("jobs after the end of one: %+v", jobs)
	}

	// The session ends while a call runs.
	told := make(chan string)
	go func() { told <- o.tool(b, "Bash", `{"command":"touch /workspace/runs; sleep 1000"}`) }()
	for running := false; !running; {
		for _, s := range listed[control.Session](o, "session", "list", "--tenant", "b") {
			running = running || s.Calls == 1
		}
	}
	o.says("ended, with its box and its background tasks. The agent is notified.", "session", "end", sessions[1].ID, "--note", "the disk is needed")
	if text := <-told; !strings.Contains(text, "was ended: the operator of this server has ended this session, with its box and its background tasks: the disk is needed") {
		t.Errorf("the call that ran gets %s", text)
	}
	if res, text := o.post(b, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); res.StatusCode != http.StatusNotFound || !strings.Contains(text, "the disk is needed; send initialize to begin a new session") {
		t.Errorf("a later request gets %s %s", res.Status, text)
	}
	if got := o.boxes(); got != "a" {
		t.Errorf("boxes of %q are left", got)
	}
	o.says("No background task runs.", "job", "list")
	again := o.session("token-b")
	if text := o.tool(again, "ListBgTasks", "{}"); !strings.Contains(text, "lost") {
		t.Errorf("the next session of the tenant sees %s", text)
	}
	o.says("ended", "session", "end", "--all")
	o.says("No session is open.", "session", "list")
	o.recorded("ended", 3, "uid ")
	o.recorded("job-ended", 1, "uid ")
}

// TestPortsCloseTakesBackEachAddress checks that, after "ports close", the port is open at
// no address.
func TestPortsCloseTakesBackEachAddress(t *testing.T) {
	o := operate(t)
	if text := o.tool(o.session("token-a"), "Bash", `{"command":"true"}`); !strings.Contains(text, "exit=0") {
		t.Fatal(text)
	}
	first := strings.TrimSpace(o.says("127.0.0.1:", "ports", "open", "3000"))
	second := strings.TrimSpace(o.says("127.0.0.1:", "ports", "open", "3000"))
	o.says(first+" "+second, "ports")
	o.says(first+" "+second, "ports", "close", "3000", "--json")
	if boxes := listed[control.Box](o, "ports"); len(boxes) != 1 || len(boxes[0].Published) != 0 {
		t.Errorf("got %+v, want one box that publishes nothing", boxes)
	}
	o.says("! is not published", "ports", "close", "3000")
}

// With --json, a list without entries is printed as [].
func TestNothingIsAnEmptyList(t *testing.T) {
	o := operate(t)
	for _, list := range [][]string{{"approve", "list"}, {"ask", "list"}, {"session", "list"}, {"job", "list"}, {"ps"}, {"ports"}, {"browser", "ps"}, {"workspace", "list"}, {"image", "list"}} {
		if text := o.says("", append(list, "--json")...); strings.TrimSpace(text) != "[]" {
			t.Errorf("%v: got %s, want []", list, text)
		}
	}
	o.says("There are no sets.", "workspace", "list")
}

// TestCompletionOfWhatRuns checks that a shell completes the sessions and tasks that exist.
// Texts of agents in them add no line and no control character of a terminal.
func TestCompletionOfWhatRuns(t *testing.T) {
	o := operate(t)
	a, b := o.session("token-a"), o.session("token-b")
	for _, session := range []map[string]string{a, b} {
		o.tool(session, "BackgroundBash", sleeps)
	}
	o.tool(b, "BackgroundBash", `{"command":"sleep 1000 # \u001b[2J\n3\tfake"}`)
	c := map[string]string{"Authorization": b["Authorization"]}
	if res, text := o.post(c, strings.Replace(hello, `"test"`, `"\u001b[2J\ns-X\tfake"`, 1)); res.StatusCode != http.StatusOK {
		t.Fatal(text)
	}
	all := listed[control.Session](o, "session", "list")
	if len(all) != 3 {
		t.Fatalf("sessions: %+v", all)
	}
	ofA := all[0].ID + "\ta test\n"
	ofB := all[1].ID + "\tb test\n" + all[2].ID + "\tb \\x1b[2J\\ns-X\\tfake\n"
	for typed, want := range map[string]string{
		"session end":                    ofA + ofB,
		"session end --tenant b":         ofB,
		"audit show --session":           ofA + ofB,
		"job list --tenant b --session":  ofB,
		"job end":                        "1\tsleep 1000\n1\tsleep 1000\n2\tsleep 1000 # \\x1b[2J\\n3\\tfake\n",
		"job end --tenant a":             "1\tsleep 1000\n",
		"job end --session " + all[0].ID: "1\tsleep 1000\n",
	} {
		words := strings.Fields(typed)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Args = slices.Concat([]string{"belljar", "__complete"}, words[:2], []string{"--state", o.state}, words[2:], []string{""})
		got, err := cmd.Output()
		if err != nil || string(got) != want+":4\n" {
			t.Errorf("%s: got %q, %v, want %q", typed, got, err, want)
		}
	}
}

// recorded ends the server, so that all records are written, and checks that the audit log
// has want records of an event that name by as what caused it.
func (o *operated) recorded(event string, want int, by string) {
	o.t.Helper()
	o.end()
	found := 0
	err := audit.Read(o.t.Context(), config.AuditDir(o.state), audit.Filter{Kind: audit.KindSession}, func(e audit.Entry) error {
		if e.Event == event && strings.Contains(string(e.Raw), `"by":"`) && strings.Contains(string(e.Raw), by) {
			found++
		}
		return nil
	})
	if err != nil || found != want {
		o.t.Errorf("the audit log has %d records of %s by %q, %v; want %d", found, event, by, err, want)
	}
}

// TestTenantThatIsTakenOutEnds checks that, when the policy no longer names a tenant, the
// tenant's sessions and tasks end, and those of the other tenants continue.
func TestTenantThatIsTakenOutEnds(t *testing.T) {
	o := operate(t)
	a, b := o.session("token-a"), o.session("token-b")
	for _, session := range []map[string]string{a, b} {
		if text := o.tool(session, "BackgroundBash", sleeps); !strings.Contains(text, "Task 1 runs") {
			t.Fatal(text)
		}
	}
	told := make(chan string)
	go func() { told <- o.tool(b, "Bash", `{"command":"sleep 1000"}`) }()
	for running := false; !running; {
		for _, s := range listed[control.Session](o, "session", "list", "--tenant", "b") {
			running = running || s.Calls == 1
		}
	}
	ofA, ofB := o.stream(a), o.stream(b)
	defer ofA.Close()
	defer ofB.Close()
	put(t, o.policy, tenantsPolicy)
	o.wait(`msg="a session was ended, with its box and its background tasks" session=` + control.ShortID(b["Mcp-Session-Id"]) + " tenant=b")
	if _, err := io.Copy(io.Discard, ofB); err != nil {
		t.Errorf("the stream of the tenant ends with %v", err)
	}
	aEnds := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, ofA)
		aEnds <- err
	}()
	if text := <-told; !strings.Contains(text, "the policy does not name its tenant any more") {
		t.Errorf("the call that ran gets %s", text)
	}
	if got := o.boxes(); got != "a" {
		t.Errorf("boxes of %q are left", got)
	}
	if jobs := listed[control.Job](o, "job", "list"); len(jobs) != 1 || jobs[0].Tenant != "a" {
		t.Errorf("jobs: %+v", jobs)
	}
	if res, _ := o.post(b, hello); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("its token opens: %s", res.Status)
	}
	if text := o.tool(a, "ReadBgOutput", `{"task_id":1}`); !strings.Contains(text, "status=running") {
		t.Errorf("the task of the other tenant: %s", text)
	}
	select {
	case err := <-aEnds:
		t.Errorf("the stream of the other tenant ends too: %v", err)
	default:
	}
	o.recorded("ended", 1, "the policy")
}

// TestOperatorEndsStdio checks that a server over stdio exits when an operator ends its
// session. The answer to the call that runs says so.
func TestOperatorEndsStdio(t *testing.T) {
	a := startAsking(t, "1m")
	o := &operated{web: &web{t: t}, state: a.state}
	a.send(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"sleep 1000"}}}`)
	var sessions []control.Session
	for len(sessions) != 1 || sessions[0].Calls == 0 {
		sessions = listed[control.Session](o, "session", "list")
	}
	if sessions[0].Transport != "stdio" || sessions[0].Tenant != "local" {
		t.Errorf("the session: %+v", sessions[0])
	}
	o.says("ended", "session", "end", sessions[0].ID)
	if got := a.receive(t); !strings.Contains(string(got.Result), "the operator of this server has ended this session") {
		t.Errorf("the call that ran gets %s", got.Result)
	}
	if line, err := a.out.ReadString('\n'); err == nil {
		t.Errorf("after its end the session says %q", line)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
