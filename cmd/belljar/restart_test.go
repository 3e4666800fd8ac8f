package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// taskParams and taskResult are the parameters and the result of tasks/get, which the SDK
// does not know.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

type taskResult struct {
	sdk.ResultBase
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage"`
	Result        *sdk.CallToolResult `json:"result"`
}

// task returns the state of a task.
func (c client) task(t *testing.T, handle string) *taskResult {
	t.Helper()
	r, err := sdk.CallCustomMethod[*taskParams, *taskResult](t.Context(), c.ClientSession, "tasks/get", &taskParams{TaskID: handle})
	if err != nil {
		t.Fatalf("tasks/get %s: %v", handle, err)
	}
	return r
}

// output is a part of a background task's output, and the state of the task.
type output struct {
	TaskID     int    `json:"task_id"`
	Status     string `json:"status"`
	Output     string `json:"output"`
	NextOffset int    `json:"next_offset"`
	Unread     int    `json:"unread_bytes"`
}

// reads calls ReadBgOutput.
func (c client) reads(t *testing.T, args map[string]any) (out output) {
	t.Helper()
	decode(t, c.call(t, "ReadBgOutput", args), &out)
	return out
}

// readTo reads the output of a task up to an offset, if BackgroundBash has not returned it
// already.
func (c client) readTo(t *testing.T, id, offset int) {
	t.Helper()
	for range 10_000 {
		if c.reads(t, map[string]any{"task_id": id}).NextOffset >= offset {
			return
		}
	}
	t.Fatalf("task %d does not write %d bytes", id, offset)
}

func decode(t *testing.T, r *sdk.CallToolResult, out any) {
	t.Helper()
	text, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil || r.IsError {
		t.Fatalf("%q: %v", textsOf(r), err)
	}
}

// begins calls BackgroundBash, and returns the task's number and, for clients that know
// tasks, its handle.
func (c client) begins(t *testing.T, command string) (id int, handle string) {
	t.Helper()
	r := c.call(t, "BackgroundBash", map[string]any{"command": command})
	var out output
	decode(t, r, &out)
	if related, ok := r.Meta["io.modelcontextprotocol/related-task"].(map[string]any); ok {
		handle, _ = related["taskId"].(string)
	}
	return out.TaskID, handle
}

// has waits until a file below a directory contains a text.
func has(t *testing.T, dir, text string) {
	t.Helper()
	for range 100_000 {
		files, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, f := range files {
			if all, err := os.ReadFile(filepath.Join(dir, f.Name())); err == nil && bytes.Contains(all, []byte(text)) {
				return
			}
		}
	}
	t.Fatalf("no file of %s has %q", dir, text)
}

const restartPolicy = `version: 1
defaults: {decision: allow, profile: p, ask: {timeout: 10m, return_after: 1s}}
profiles: {p: {fs: {system: true, workspace: rw}}}
rules:
  - {id: publish, match: {tool: Bash, command: "echo publish **"}, decision: ask, reason: Publishing needs a person.}
`

// TestRestart ends a server during all kinds of work, in order and by a kill. The next
// server must have everything: todos, a plan that is being made, a callback, an approval
// and a question that wait, and background tasks. The tasks that were running are lost, but
// what they had written is kept.
func TestRestart(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		for name, end := range map[string]func(*serving){"term": (*serving).stop, "kill": (*serving).kill} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // the call that waits for an answer delays the end of a server by half a minute
				restart(t, w, end)
			})
		}
	})
}

func restart(t *testing.T, w wire, end func(*serving)) {
	p := newPlace(t)
	p.policy = p.file(t, "policy.yaml", restartPolicy)
	first := p.start(t, w)
	declared := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{Experimental: map[string]any{"belljar.dev/structured": map[string]any{}}, Extensions: map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}}
	c := first.connect(t, w, declared)

	c.call(t, "TaskManager", map[string]any{"action": "create", "text": "Ship it"})
	c.call(t, "TaskManager", map[string]any{"action": "add", "text": "Write the notes"})
	c.call(t, "SetCallback", map[string]any{"action": "set", "message": "look at the build", "delay_seconds": 3600})
	done, doneHandle := c.begins(t, "echo one; echo two; exit 3")
	c.readTo(t, done, 8)
	ran, ranHandle := c.begins(t, "mkfifo pipe; echo begun; read -r line < pipe; echo $line; sleep 1000")
	c.readTo(t, ran, 6)
	c.call(t, "Bash", map[string]any{"command": "echo went on > pipe"})
	has(t, filepath.Join(p.state, "jobs"), "went on")
	publish := map[string]any{"command": "echo publish the release"}
	if got := c.all(t, "Bash", publish); !strings.Contains(got, "ap-") {
		t.Fatalf("a call that needs a person: %s", got)
	}
	ask := map[string]any{"questions_json": `{"questions":[{"question":"Which database?","options":["SQLite","Postgres"]}]}`}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		// this call ends with the server
		_, _ = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "AskUserQuestion", Arguments: ask})
	}()
	question := (&chat{place: p}).asked(t, 1)[0]
	c.call(t, "PlanMode", map[string]any{"action": "enter", "goal": "A better release"})

	end(first)
	<-asked
	c = p.start(t, w).connect(t, w, declared)

	for tool, want := range map[string]string{"ListBgTasks": fmt.Sprintf("[task %d] exited", done), "PlanMode": "Plan mode: ACTIVE\nGoal: A better release", "SetCallback": "look at the build", "TaskManager": "Write the notes"} {
		action := map[string]string{"PlanMode": "status", "SetCallback": "list", "TaskManager": "list"}[tool]
		args := map[string]any{}
		if action != "" {
			args["action"] = action
		}
		if got := c.all(t, tool, args); !strings.Contains(got, want) {
			t.Errorf("%s %s: got %q, want %q", tool, action, got, want)
		}
	}
	if out, err := p.run(t, "approve", "list"); err != nil || !strings.Contains(out, "publish the release") {
		t.Errorf("approvals: %s, %v", out, err)
	}
	if got := (&chat{place: p}).asked(t, 1); got[0] != question {
		t.Errorf("questions: got %v, want %s", got, question)
	}
	if out, err := p.run(t, "ask", "answer", question, "2"); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	if got := c.all(t, "AskUserQuestion", ask); !strings.Contains(got, "Postgres") {
		t.Errorf("the question again: got %q, want its answer", got)
	}
	c.jobsAfter(t, w, done, doneHandle, ran, ranHandle)
}

// jobsAfter checks the background tasks from before the restart: all ways to ask about them
// return the same.
func (c client) jobsAfter(t *testing.T, w wire, done int, doneHandle string, ran int, ranHandle string) {
	t.Helper()
	var list struct{ Tasks []output }
	decode(t, c.call(t, "ListBgTasks", nil), &list)
	if len(list.Tasks) != 2 || list.Tasks[0].TaskID != done || list.Tasks[0].Status != "exited" || list.Tasks[1].TaskID != ran || list.Tasks[1].Status != "lost" || list.Tasks[1].Unread != len("went on\n") {
		t.Errorf("the list: got %+v, want task %d exited and task %d lost", list.Tasks, done, ran)
	}
	if got, want := c.reads(t, map[string]any{"task_id": ran}), (output{ran, "lost", "went on\n", 14, 0}); got != want {
		t.Errorf("what ran: got %+v, want %+v", got, want)
	}
	if got, want := c.reads(t, map[string]any{"task_id": done, "offset": 0}), (output{done, "exited", "one\ntwo\n", 8, 0}); got != want {
		t.Errorf("what had ended: got %+v, want %+v", got, want)
	}
	if got := c.reads(t, map[string]any{"task_id": done}); got.Output != "" || got.NextOffset != 8 {
		t.Errorf("it was read before: got %+v", got)
	}
	if got := c.all(t, "KillBgTask", map[string]any{"task_id": ran}); !strings.Contains(got, "had already finished") {
		t.Errorf("a kill of what is lost: %s", got)
	}
	r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: fmt.Sprint("job://", ran)})
	if err != nil || !strings.Contains(r.Contents[0].Text, `"status":"lost"`) || !strings.Contains(r.Contents[0].Text, `"output":"begun\nwent on\n"`) {
		t.Errorf("as a resource: %+v, %v", r, err)
	}
	if w.era != "2026-07-28" {
		return
	}
	if got := c.task(t, doneHandle); got.Status != "completed" || got.Result == nil || !strings.Contains(textsOf(got.Result)[0], "status=exited exit=3") {
		t.Errorf("tasks/get of what had ended: %+v", got)
	}
	if got := c.task(t, ranHandle); got.Status != "failed" || !strings.Contains(got.StatusMessage, fmt.Sprintf("task %d is lost", ran)) {
		t.Errorf("tasks/get of what ran: %+v", got)
	}
}
