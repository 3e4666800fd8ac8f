package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/conformance"
	"belljar.dev/mcp"
)

// tasksMeta is the _meta of a modern client that accepts handles as answers.
const tasksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func withTasks(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s,%s}}`, id, method, params, tasksMeta)
}

type task struct {
	ResultType string          `json:"resultType"`
	TaskID     string          `json:"taskId"`
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result"`
}

func (c *client) task(method, id string) (task, string) {
	c.t.Helper()
	c.send(withTasks("9", method, fmt.Sprintf(`"taskId":%q`, id)))
	a := c.next()
	var got task
	if a.Error == nil {
		if err := json.Unmarshal(a.Result, &got); err != nil {
			c.t.Fatalf("%s: %v in %s", method, err, a.raw)
		}
	}
	return got, a.raw
}

// until calls tasks/get until the task has the state.
func (c *client) until(id, state string) (task, string) {
	c.t.Helper()
	for range 10_000 {
		if got, raw := c.task("tasks/get", id); got.Status == state || got.Status == "" {
			return got, raw
		}
	}
	c.t.Fatalf("task %s does not become %s", id, state)
	return task{}, ""
}

func impatient(c *mcp.Config) {
	c.Patience = time.Millisecond
	c.Limits.Burst, c.Limits.Rate = 1e6, 1e6
}

func deferHang(t *testing.T, c *client, ty *toy) task {
	t.Helper()
	c.send(withTasks("1", "tools/call", `"name":"hang","arguments":{}`))
	a := c.next()
	<-ty.running
	var made task
	if err := json.Unmarshal(a.Result, &made); err != nil || made.ResultType != "task" || made.Status != "working" || made.TaskID == "" {
		t.Fatalf("a call that takes long: %s", a.raw)
	}
	return made
}

func TestDeferred(t *testing.T) {
	ty := newToy(t, impatient)
	c := ty.connect(t)
	made := deferHang(t, c, ty)
	if got, raw := c.task("tasks/get", made.TaskID); got.Status != "working" || got.ResultType != "complete" || got.Result != nil {
		t.Errorf("a task that works: %s", raw)
	}
	close(ty.free)
	got, raw := c.until(made.TaskID, "completed")
	// the task is stored shortly after its state changes
	for i := 0; i < 10_000 && strings.Contains(raw, `"ttlMs":null`); i++ {
		got, raw = c.task("tasks/get", made.TaskID)
	}
	if !strings.Contains(string(got.Result), `"text":"free"`) || !strings.Contains(raw, `"ttlMs":36`) {
		t.Errorf("a task that has ended: %s", raw)
	}
	if _, raw := c.task("tasks/cancel", made.TaskID); !strings.Contains(raw, `"resultType":"complete"`) {
		t.Errorf("a cancel that comes late: %s", raw)
	}
	if got, raw := c.task("tasks/get", made.TaskID); got.Status != "completed" {
		t.Errorf("after that: %s", raw)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if _, raw := c.task(method, "t-none"); !strings.Contains(raw, `"code":-32602,"message":"task \"t-none\": no task has this id`) {
			t.Errorf("%s of nothing: %s", method, raw)
		}
	}
	other := ty.connect(t)
	if _, raw := other.task("tasks/get", made.TaskID); !strings.Contains(raw, `"code":-32602`) {
		t.Errorf("a task of another session: %s", raw)
	}
}

func TestDeferredIsCancelled(t *testing.T) {
	ty := newToy(t, impatient)
	c := ty.connect(t)
	made := deferHang(t, c, ty)
	c.task("tasks/cancel", made.TaskID)
	if cause := <-ty.cancelled; cause == nil || !strings.Contains(cause.Error(), "cancelled the task") {
		t.Errorf("the call's cause: %v", cause)
	}
	c.until(made.TaskID, "cancelled")
	deferHang(t, c, ty)
	c.close()
	if cause := <-ty.cancelled; !errors.Is(cause, mcp.ErrShutdown) {
		t.Errorf("the cause at the session's end: %v", cause)
	}
}

// A client that cannot get a handle waits, and can still cancel the call.
func TestNoHandle(t *testing.T) {
	ty := newToy(t, impatient)
	keeps := full{newKeeper(), make(chan struct{}, 8)}
	ty.KeepTasks(keeps)
	c := ty.connect(t)
	hang := withTasks("1", "tools/call", `"name":"hang","arguments":{}`)
	c.send(hang)
	<-keeps.asked
	<-ty.running
	c.send(fmt.Sprintf(cancelOf, "1"))
	if cause := <-ty.cancelled; cause == nil || errors.Is(cause, mcp.ErrShutdown) {
		t.Errorf("the call's cause: %v", cause)
	}
	c.send(strings.Replace(hang, `"id":1`, `"id":2`, 1))
	<-keeps.asked
	<-ty.running
	close(ty.free)
	if a := c.next(); a.text() != "free" {
		t.Errorf("the call: %s", a.raw)
	}
}

// A client that does not declare the extension waits, and never gets a task.
func TestNotDeferred(t *testing.T) {
	ty := newToy(t, impatient)
	c := ty.connect(t)
	c.send(modern("1", "tools/call", `"name":"hang","arguments":{},`))
	<-ty.running
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		c.send(modern("2", method, `"taskId":"t-none",`))
		if raw := c.next().raw; !strings.Contains(raw, `"code":-32021`) || !strings.Contains(raw, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
			t.Errorf("%s without the extension: %s", method, raw)
		}
	}
	close(ty.free)
	if a := c.next(); a.text() != "free" {
		t.Errorf("the call: %s", a.raw)
	}
	legacy := ty.connect(t)
	legacy.greet(revLegacy)
	legacy.send(req("3", "tasks/get"))
	if a := legacy.next(); a.short() != "3: -32601" {
		t.Errorf("in the legacy era: %s", a.raw)
	}
}

// A panic makes the task fail; an error result is the result of the task.
func TestDeferredFails(t *testing.T) {
	ty := newToy(t, func(c *mcp.Config) { c.Suite = new(conformance.Suite) })
	c := ty.connect(t)
	for name, want := range map[string]string{
		"protocol_error_job": `"status":"failed"`, "slow_compute": `"status":"completed"`,
	} {
		c.send(withTasks("1", "tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, name)))
		var made task
		a := c.next()
		if err := json.Unmarshal(a.Result, &made); err != nil {
			t.Fatalf("%s: %s", name, a.raw)
		}
		if made.ResultType != "task" {
			t.Fatalf("%s: no handle: %s", name, a.raw)
		}
		_, raw := c.until(made.TaskID, strings.Trim(strings.TrimPrefix(want, `"status":`), `"`))
		if !strings.Contains(raw, want) {
			t.Errorf("%s: got %s, want %s", name, raw, want)
		}
	}
}

// The questions of a task are in the answer to tasks/get, and the client answers them with
// tasks/update.
func TestDeferredAsks(t *testing.T) {
	ty := newToy(t, func(c *mcp.Config) {
		c.Suite = new(conformance.Suite)
		c.Limits.Burst, c.Limits.Rate = 1e6, 1e6
	})
	c := ty.connect(t)
	c.send(withTasks("1", "tools/call", `"name":"confirm_delete","arguments":{}`))
	var made task
	if a := c.next(); json.Unmarshal(a.Result, &made) != nil || made.TaskID == "" {
		t.Fatalf("confirm_delete: %s", a.raw)
	}
	_, raw := c.until(made.TaskID, "input_required")
	if !strings.Contains(raw, `"inputRequests":{"q1":{"method":"elicitation/create"`) {
		t.Fatalf("the question: %s", raw)
	}
	for _, answers := range []string{`{"q9":{"action":"accept"}}`, `{"q1":{"action":"accept","content":{"confirm":true}},"q2":17}`} {
		c.send(withTasks("2", "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":%s`, made.TaskID, answers)))
		if a := c.next(); a.short() != "2: ok" {
			t.Errorf("update with %s: %s", answers, a.raw)
		}
	}
	if got, raw := c.until(made.TaskID, "completed"); !strings.Contains(string(got.Result), "confirmed: true") {
		t.Errorf("after the answer: %s", raw)
	}
}

func TestPatience(t *testing.T) {
	ty := newToy(t, impatient)
	seen := make(chan time.Duration, 4)
	mcp.AddTool(ty.Server, mcp.Tool{Name: "patience", Description: "tells it"},
		func(_ context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
			seen <- call.Patience
			return mcp.Text("told"), nil
		})
	c := ty.connect(t)
	c.send(modern("1", "tools/call", `"name":"patience","arguments":{},`), withTasks("2", "tools/call", `"name":"patience","arguments":{}`))
	got := []time.Duration{<-seen, <-seen}
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := ty.Call(t.Context(), session, "patience", nil); err != nil {
		t.Fatal(err)
	}
	if got[0]+got[1] != time.Millisecond || <-seen != 0 {
		t.Errorf("patience over the wire: got %v, want 1ms and 0 in any order, and 0 in process", got)
	}
}
