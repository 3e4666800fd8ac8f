package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// todoInput is the arguments of TaskManager.
type todoInput struct {
	Action string `json:"action" jsonschema:"create, add, complete, list, pending or switch"`
	Query  string `json:"query,omitempty" jsonschema:"list, pending: only tasks that contain this; create: name if text is empty"`
	TaskID *int64 `json:"task_id,omitempty" jsonschema:"default the current one"`
	StepID *int64 `json:"step_id,omitempty" jsonschema:"complete: the step; without it the whole task"`
	Text   string `json:"text,omitempty" jsonschema:"create: the name; add: the step"`
	Status string `json:"status,omitempty" jsonschema:"complete: completed (default), cancelled, blocked, in_progress or pending"`
}

// Facts returns no facts: the policy gets the arguments anyway, and belljar keeps todos
// itself.
func (todoInput) Facts() policies.Facts { return policies.Facts{} }

// todoOutput is the structured result of TaskManager.
type todoOutput struct {
	Tasks   []todoTask `json:"tasks" jsonschema:"the listed tasks, or the changed task as it is now"`
	Current int64      `json:"current_task_id,omitempty"`
	StepID  int64      `json:"step_id,omitempty" jsonschema:"the step that was added or changed"`
	Before  *todoTask  `json:"before,omitempty" jsonschema:"the task before complete"`
	Open    int        `json:"open" jsonschema:"tasks of this workspace that are open"`
	Done    int        `json:"done" jsonschema:"tasks of this workspace that are completed or cancelled"`
	LeftOut int        `json:"left_out,omitempty" jsonschema:"number of further tasks that were found"`
}

type todoTask struct {
	ID      int64      `json:"id"`
	Name    string     `json:"name"`
	Status  string     `json:"status" jsonschema:"pending, in_progress, completed, blocked or cancelled"`
	Current bool       `json:"current"`
	Steps   []todoStep `json:"steps"`
}

type todoStep struct {
	ID     int64  `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"`
	Done   bool   `json:"done"`
}

// shownTodos bounds the number of todos in a list.
const shownTodos = 50

// todos implements the tool TaskManager.
type todos struct {
	backends Backends
	server   *mcp.Server // notifies clients that watch the list
}

func addTodos(s *mcp.Server, t *todos) {
	t.server = s
	mcp.AddTool(s, mcp.Tool{
		Name:        "TaskManager",
		Brief:       "keeps a list of things to do",
		Title:       "Keep a list of tasks",
		Description: "Keeps tasks with steps for this workspace, across sessions and restarts. create makes a task, which becomes the current one, add adds a step, complete ends a step or the task, list and pending show them, switch makes another task current.",
		Output:      todoOutput{},
	}, t.manage)
	s.AddResource(t.resource())
}

// todoList is the URI of the list of todos.
const todoList = "todo://list"

// resource returns the resource with the list of todos, which belongs to the tenant.
func (t *todos) resource() mcp.Resource {
	return mcp.Resource{
		Template: "todo://{list}", Name: "tasks", Title: "Tasks", MIME: "text/plain",
		Description: "The tasks of this workspace with their steps, in TaskManager's form. A client that subscribes is notified when one changes.",
		Read: func(ctx context.Context, s *mcp.Session, uri string) ([]byte, string, error) {
			if uri != todoList || t.backends.Todos == nil {
				return nil, "", fmt.Errorf("%.80s: %w: the list of tasks is %s", uri, mcp.ErrNotFound, todoList)
			}
			all, err := t.backends.Todos.List(ctx, owner(s))
			if err != nil {
				return nil, "", err
			}
			return []byte(listed(all, false, "").Content[0].Text + "\n"), "text/plain", nil
		},
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			if t.backends.Todos == nil {
				return nil, nil
			}
			return []mcp.Entry{{URI: todoList, Name: "tasks"}}, nil
		},
	}
}

// manage runs one call.
func (t *todos) manage(ctx context.Context, call mcp.Call, in todoInput) (*mcp.Result, error) {
	if t.backends.Todos == nil {
		return mcp.Failed("TaskManager is not set up on this server. Nothing was changed."), nil
	}
	o := owner(call.Session)
	res, err := t.act(ctx, o, in)
	switch {
	case err == nil:
		if !res.IsError && in.Action != "list" && in.Action != "pending" {
			t.server.Updated(o.Tenant, todoList)
		}
		return res, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case todo.Told(err):
		return mcp.Failed("%s. Nothing was changed.", err), nil
	}
	t.backends.Log.Error("todos", "session", o.Session, "err", err)
	return mcp.Failed("The task list cannot be read or written; the log of the server says why. Action list shows what was changed, if anything."), nil
}

// act runs the action of a call.
func (t *todos) act(ctx context.Context, o store.Owner, in todoInput) (*mcp.Result, error) {
	book := t.backends.Todos
	id, step := int64(0), int64(0)
	for _, arg := range []struct {
		name string
		got  *int64
		to   *int64
	}{{"task_id", in.TaskID, &id}, {"step_id", in.StepID, &step}} {
		if arg.got == nil {
			continue
		}
		if *arg.to = *arg.got; *arg.got < 1 {
			return mcp.Failed("%s: got %d, and ids begin with 1; list shows them. Nothing was changed.", arg.name, *arg.got), nil
		}
	}
	switch in.Action {
	case "create":
		name := in.Text
		if strings.TrimSpace(name) == "" {
			name = in.Query
		}
		made, err := book.Create(ctx, o, name)
		if err != nil {
			return nil, err
		}
		return t.one(ctx, o, made, nil, 0, fmt.Sprintf("Created task %d: %s. It is the current task.", made.ID, made.Name))
	case "add":
		of, added, err := book.Add(ctx, o, id, in.Text)
		if err != nil {
			return nil, err
		}
		return t.one(ctx, o, of, nil, added.ID, fmt.Sprintf("Added step %d to task %d: %s.", added.ID, of.ID, added.Text))
	case "complete":
		return t.complete(ctx, o, id, step, in.Status)
	case "list", "pending":
		all, err := book.List(ctx, o)
		if err != nil {
			return nil, err
		}
		return listed(all, in.Action == "pending", in.Query), nil
	case "switch":
		if id == 0 {
			return mcp.Failed("task_id: it is missing; switch needs the id of a task, and list shows the ids. Nothing was changed."), nil
		}
		now, err := book.Switch(ctx, o, id)
		if err != nil {
			return nil, err
		}
		return t.one(ctx, o, now, nil, 0, fmt.Sprintf("Switched to task %d: %s. %s.", now.ID, now.Name, progressed(now)))
	}
	return mcp.Failed("action: got %q, want create, add, complete, list, pending or switch. Nothing was changed.", policies.Clip(in.Action, 40)), nil
}

// complete sets the status of a step or a todo.
func (t *todos) complete(ctx context.Context, o store.Owner, id, step int64, status string) (*mcp.Result, error) {
	s := todo.Status(status)
	if s == "" {
		s = todo.Completed
	}
	if !slices.Contains(todo.Statuses, s) {
		return mcp.Failed("status: got %q, want completed, cancelled, blocked, in_progress or pending. Nothing was changed.", policies.Clip(status, 40)), nil
	}
	did := map[todo.Status]string{
		todo.Completed: "Completed", todo.Cancelled: "Cancelled", todo.Blocked: "Blocked", todo.InProgress: "Started", todo.Pending: "Reopened",
	}[s]
	if step != 0 {
		before, after, err := t.backends.Todos.SetStep(ctx, o, id, step, s)
		if err != nil {
			return nil, err
		}
		text := ""
		for _, one := range after.Steps {
			if one.ID == step {
				text = one.Text
			}
		}
		said := fmt.Sprintf("%s step %d of task %d: %s. %s.", did, step, after.ID, text, progressed(after))
		if after.Status.Open() && after.Left() == 0 {
			said += fmt.Sprintf(" complete with task_id %d ends the task.", after.ID)
		}
		return t.one(ctx, o, after, &before, step, said)
	}
	before, after, err := t.backends.Todos.SetTodo(ctx, o, id, s)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("%s task %d: %s.", did, after.ID, after.Name)
	if left := after.Left(); !s.Open() && left > 0 {
		said += fmt.Sprintf(" %d of its %d steps were still open.", left, len(after.Steps))
	}
	return t.one(ctx, o, after, &before, 0, said)
}

// progressed returns as text how many steps of a todo are done.
func progressed(t todo.Todo) string {
	if len(t.Steps) == 0 {
		return "It has no steps"
	}
	return fmt.Sprintf("%d of %d steps done", len(t.Steps)-t.Left(), len(t.Steps))
}

// one returns the result for a single todo.
func (t *todos) one(ctx context.Context, o store.Owner, now todo.Todo, before *todo.Todo, step int64, said string) (*mcp.Result, error) {
	out := todoOutput{Tasks: []todoTask{taskOf(now)}, StepID: step}
	if before != nil {
		was := taskOf(*before)
		out.Before = &was
	}
	var err error
	if out.Open, out.Done, out.Current, err = t.backends.Todos.Count(ctx, o); err != nil {
		return nil, err
	}
	if before != nil && before.Current && step == 0 { // the todo was current, and may no longer be, so the text names the one that is
		said += currentText(out.Current)
	}
	return &mcp.Result{Content: []mcp.Content{{Text: said}}, Structured: out}, nil
}

func taskOf(t todo.Todo) todoTask {
	out := todoTask{ID: t.ID, Name: t.Name, Status: string(t.Status), Current: t.Current, Steps: []todoStep{}}
	for _, s := range t.Steps {
		out.Steps = append(out.Steps, todoStep{ID: s.ID, Text: s.Text, Status: string(s.Status), Done: s.Status == todo.Completed})
	}
	return out
}

// marks contains the mark of each status in a list.
var marks = map[todo.Status]string{
	todo.Pending: "[ ]", todo.InProgress: "[>]", todo.Completed: "[x]", todo.Blocked: "[!]", todo.Cancelled: "[-]",
}

// listed returns the result with a list of todos, the newest last.
func listed(all []todo.Todo, openOnly bool, query string) *mcp.Result {
	out := todoOutput{Tasks: []todoTask{}}
	var found []todo.Todo
	for _, one := range all {
		if one.Status.Open() {
			out.Open++
		} else {
			out.Done++
		}
		if one.Current {
			out.Current = one.ID
		}
		if openOnly {
			if !one.Status.Open() {
				continue
			}
			one.Steps = slices.DeleteFunc(slices.Clone(one.Steps), func(s todo.Step) bool { return !s.Status.Open() })
		}
		if holds(one, query) {
			found = append(found, one)
		}
	}
	var t text
	switch {
	case len(all) == 0:
		t.line("No tasks. create makes one.")
	case len(found) == 0 && query != "":
		t.line("None of the %d tasks contains %q.", len(all), policies.Clip(query, 80))
	case len(found) == 0:
		t.line("Nothing is pending: %d tasks are done.", out.Done)
	default:
		t.line("Tasks: %d open, %d done.%s", out.Open, out.Done, currentText(out.Current))
	}
	if n := len(found) - shownTodos; n > 0 {
		found, out.LeftOut = found[n:], n
		t.line("(%d older tasks are left out; a query finds them)", n)
	}
	for _, one := range found {
		out.Tasks = append(out.Tasks, taskOf(one))
		at := " "
		if one.Current {
			at = "*"
		}
		t.line("%s %s task %d: %s%s", at, marks[one.Status], one.ID, one.Name, unusual(one.Status))
		for _, s := range one.Steps {
			t.line("      %s step %d: %s%s", marks[s.Status], s.ID, s.Text, unusual(s.Status))
		}
	}
	return &mcp.Result{Content: []mcp.Content{{Text: strings.TrimSuffix(t.b.String(), "\n")}}, Structured: out}
}

func currentText(id int64) string {
	if id == 0 {
		return " No task is current; switch chooses one."
	}
	return fmt.Sprintf(" Current: %d.", id)
}

// unusual returns the name of a status whose mark may not be understood.
func unusual(s todo.Status) string {
	if s == todo.Blocked || s == todo.Cancelled || s == todo.InProgress {
		return " (" + string(s) + ")"
	}
	return ""
}

// holds reports whether a todo or one of its steps contains a text, ignoring case.
func holds(t todo.Todo, query string) bool {
	query = strings.ToLower(strings.TrimSpace(query))
	return strings.Contains(strings.ToLower(t.Name), query) ||
		slices.ContainsFunc(t.Steps, func(s todo.Step) bool { return strings.Contains(strings.ToLower(s.Text), query) })
}
