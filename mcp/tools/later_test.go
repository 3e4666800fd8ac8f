package tools

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/mcp"
)

// lineClient is a client of the revision 2026-07-28 that supports tasks, over pipes.
type lineClient struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
	sent  int
}

func (b *bench) lines() *lineClient {
	b.t.Helper()
	in, typed := io.Pipe()
	said, out := io.Pipe()
	over := make(chan error, 1)
	go func() { over <- b.server.ServeStdio(b.t.Context(), in, out) }()
	b.t.Cleanup(func() {
		typed.Close()
		go io.Copy(io.Discard, said)
		if err := <-over; err != nil {
			b.t.Errorf("ServeStdio: %v", err)
		}
		said.Close()
	})
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, 1<<20)
	return &lineClient{t: b.t, in: typed, lines: lines}
}

// message is a message of a server.
type message struct {
	Method string
	Params wireTask
	Result wireTask
	Error  *struct{ Code int }
	raw    string
}

// wireTask has the fields of a task and of the results that a tool can return.
type wireTask struct {
	ResultType, TaskID, Status, StatusMessage string
	Result                                    struct{ StructuredContent json.RawMessage }
	StructuredContent                         json.RawMessage
	Meta                                      struct {
		Related struct{ TaskID string } `json:"io.modelcontextprotocol/related-task"`
	} `json:"_meta"`
}

func (c *lineClient) next() (m message) {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the server ended: %v", c.lines.Err())
	}
	m.raw = c.lines.Text()
	if err := json.Unmarshal(c.lines.Bytes(), &m); err != nil {
		c.t.Fatalf("%s: %v", m.raw, err)
	}
	return m
}

func (c *lineClient) send(method, params string) {
	c.t.Helper()
	c.sent++
	_, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,"_meta":{"belljar.dev/structured":true,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`+"\n", c.sent, method, params)
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *lineClient) ask(method, params string) message {
	c.t.Helper()
	c.send(method, params)
	return c.next()
}

func (c *lineClient) call(tool string, args map[string]any) message {
	c.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ask("tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool, raw))
}

// becomes requests a task until it has the given state.
func (c *lineClient) becomes(id, state string) message {
	c.t.Helper()
	for {
		m := c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if m.Result.Status == state {
			return m
		}
		if m.Result.Status != "working" {
			c.t.Fatalf("task %s is to become %s: %s", id, state, m.raw)
		}
	}
}

// lists waits until ListBgTasks lists a task, and returns its entry. A call becomes a
// task before its command runs, since a box may take longer to open than a client waits.
func (c *lineClient) lists(id int64) (e listEntry) {
	c.t.Helper()
	for range 100_000 {
		m := c.call("ListBgTasks", nil)
		var out listOutput
		if err := json.Unmarshal(m.Result.StructuredContent, &out); err != nil {
			c.t.Fatalf("%s: %v", m.raw, err)
		}
		for _, e := range out.Tasks {
			if e.TaskID == id {
				return e
			}
		}
	}
	c.t.Fatalf("task %d is not listed", id)
	return e
}

func impatient(c *mcp.Config) {
	c.Patience = 2 * time.Second // calls that must not become tasks end before this time
	c.Limits.Burst, c.Limits.Rate = 1e6, 1e6
}

// A Bash call that its client does not wait for is a background task and, at the same time,
// a task of the protocol.
func TestACallIsABackgroundTask(t *testing.T) {
	b := boxes(t, "", impatient)
	c := b.lines()
	made := c.call("Bash", map[string]any{"command": "mkfifo pipe; echo begun; read -r line < pipe; echo $line; exit 3", "timeout": 60_000, "description": "waits"}).Result
	if made.ResultType != "task" || made.Status != "working" || !strings.HasPrefix(made.TaskID, "1-") {
		t.Fatalf("a call that takes long: %+v", made)
	}
	if e := c.lists(1); e.Status != "running" || e.Description != "waits" || !strings.HasPrefix(e.Command, "mkfifo pipe") {
		t.Errorf("in the list: %+v", e)
	}
	if m := c.call("ReadBgOutput", map[string]any{"task_id": 1, "wait_ms": 1000}); !strings.Contains(m.raw, `"output":"begun\n"`) {
		t.Errorf("its output so far: %s", m.raw)
	}
	c.call("BackgroundBash", map[string]any{"command": "echo end > pipe"})
	got := c.becomes(made.TaskID, "completed")
	var out bashOutput
	if err := json.Unmarshal(got.Result.Result.StructuredContent, &out); err != nil || out.Stdout != "begun\nend\n" || out.TaskID != 1 || *out.ExitCode != 3 {
		t.Errorf("its result: %s, %v", got.raw, err)
	}
	if e := c.lists(1); e.Status != "exited" || *e.ExitCode != 3 || e.UnreadBytes != 4 {
		t.Errorf("in the list: %+v", e)
	}
	if m := c.call("ReadBgOutput", map[string]any{"task_id": 1}); !strings.Contains(m.raw, `"output":"end\n"`) {
		t.Errorf("the rest of its output: %s", m.raw)
	}
}

// A client can end a task by the protocol or by a tool. Both then report the end.
func TestTasksAreEndedFromBothSides(t *testing.T) {
	b := boxes(t, "", impatient)
	c := b.lines()
	sleep := map[string]any{"command": "sleep 1000", "timeout": 60_000}
	cancelled := c.call("Bash", sleep).Result.TaskID
	c.lists(1)
	c.ask("tasks/cancel", fmt.Sprintf(`"taskId":%q`, cancelled))
	c.becomes(cancelled, "cancelled")
	if e := c.lists(1); e.Status != "killed" {
		t.Errorf("a call that was cancelled: %+v", e)
	}
	killed := c.call("Bash", sleep).Result.TaskID
	c.lists(2)
	if m := c.call("KillBgTask", map[string]any{"task_id": 2, "grace_ms": 0}); !strings.Contains(m.raw, `"status":"killed"`) {
		t.Errorf("KillBgTask: %s", m.raw)
	}
	if m := c.becomes(killed, "completed"); !strings.Contains(m.raw, `"status":"killed"`) {
		t.Errorf("a call whose command was killed: %s", m.raw)
	}

	started := c.call("BackgroundBash", map[string]any{"command": "sleep 1000"}).Result.Meta.Related.TaskID
	if m := c.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, started)); !strings.HasPrefix(started, "3-") || m.Result.Status != "working" {
		t.Errorf("a background task as a task, %q: %s", started, m.raw)
	}
	if m := c.ask("subscriptions/listen", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, started)); m.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("listen: %s", m.raw)
	}
	if m := c.next(); m.Method != "notifications/tasks" || m.Params.Status != "working" {
		t.Errorf("at first: %s", m.raw)
	}
	c.send("tasks/cancel", fmt.Sprintf(`"taskId":%q`, started))
	for told, answered := false, false; !told || !answered; {
		m := c.next()
		told = told || m.Method == "notifications/tasks" && m.Params.Status == "cancelled" && m.Params.TaskID == started
		answered = answered || m.Result.ResultType == "complete"
	}
	if e := c.lists(3); e.Status != "killed" {
		t.Errorf("a background task that was cancelled: %+v", e)
	}

	// For another session these tasks do not exist.
	other := b.lines()
	for _, id := range []string{cancelled, killed, started} {
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			if m := other.ask(method, fmt.Sprintf(`"taskId":%q`, id)); m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s of another session's: %s", method, m.raw)
			}
		}
	}
	if m := other.call("ListBgTasks", nil); !strings.Contains(m.raw, "No background processes found.") {
		t.Errorf("another session lists: %s", m.raw)
	}
}

// A command that runs beyond its timeout continues as a background task. The result of the
// call says so, and the list of tasks contains it.
func TestOnTimeoutBackgroundOfATask(t *testing.T) {
	b := boxes(t, "", impatient)
	c := b.lines()
	made := c.call("Bash", map[string]any{"command": "echo begun; sleep 1000", "timeout": 2500, "on_timeout": "background"}).Result
	if m := c.becomes(made.TaskID, "completed"); !strings.Contains(m.raw, "it continues as background task 1") {
		t.Errorf("the call: %s", m.raw)
	}
	if e := c.lists(1); e.Status != "running" {
		t.Errorf("the task: %+v", e)
	}
	if m := c.call("KillBgTask", map[string]any{"task_id": 1, "grace_ms": 0}); !strings.Contains(m.raw, `"status":"killed"`) {
		t.Errorf("KillBgTask: %s", m.raw)
	}
}

// A task whose command runs in another process is not killed, and KillBgTask does not say
// that it was.
func TestATaskOfAnotherProcessIsNotKilled(t *testing.T) {
	b := boxes(t, "")
	kept, err := b.jobs.Open(t.Context(), owner(b.session), job.Job{Tool: "Bash", Command: "sleep 1000", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	r := b.call("KillBgTask", map[string]any{"task_id": kept.ID})
	if text := words(r); !r.IsError || !strings.Contains(text, "Nothing was killed") {
		t.Errorf("got %s", text)
	}
}

// A background task that cannot be recorded is not started.
func TestNoRecordNoTask(t *testing.T) {
	b := boxes(t, "")
	b.store.Close()
	r := b.call("BackgroundBash", map[string]any{"command": "sleep 1000"})
	if got := words(r); !r.IsError || !strings.Contains(got, "nothing is left running") || strings.Contains(got, "task_id") {
		t.Errorf("got %s", got)
	}
}

// A server without a book of jobs reports that it keeps no background tasks.
func TestNoBookNoTask(t *testing.T) {
	b := boxes(t, "")
	b.shells.backends.Jobs = nil
	if r := b.call("BackgroundBash", map[string]any{"command": "sleep 1000"}); !r.IsError || !strings.Contains(words(r), "does not keep background tasks") {
		t.Errorf("got %s", words(r))
	}
	if r := b.call("ListBgTasks", nil); r.IsError || !strings.Contains(words(r), "No background processes found.") {
		t.Errorf("the list: %s", words(r))
	}
}
