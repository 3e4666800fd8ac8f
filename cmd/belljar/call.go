package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"belljar.dev/internal/server"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

func callCommand() *cobra.Command {
	var (
		s = setup{Config: server.Config{
			Command: "call", Tools: &server.Tools{Toolkit: true}, Hooks: &server.Hooks{}, Callbacks: &server.Callbacks{}, Trace: true,
		}}
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "call TOOL [JSON | KEY=VALUE...]",
		Short: "call one tool, as a client would",
		Long: `call makes one call through the same checks as a client's, in a session of its
own, prints the text of the result and ends. Arguments are one JSON object, or
pairs such as command=ls timeout=5000. If the argument is a text, the value is
that text; otherwise a value that is a JSON number, boolean, array or object
counts as such. KEY:=VALUE takes any JSON.

The end of a session ends its tasks and its plan. So call waits for a task that
BackgroundBash or on_timeout=background leaves running, and prints the rest of its
output; and PlanMode enter, which would narrow only this call, is refused. The
list of TaskManager and what SetCallback schedules belong to the workspace and are kept;
a message that is due comes with the result of the next call there. Ctrl-C ends the
command and shows what it wrote until then.

  belljar call Bash command='ls -l'
  belljar call Bash '{"command": "sleep 5", "timeout": 1000}'

Exit status: 0 the tool did its work, whatever the status of the command it
ran; 1 it did not, and the text says why; 2 the command line is not valid.`,
		RunE: func(c *cobra.Command, args []string) error {
			arguments, err := parseArguments(args[0], args[1:])
			if err != nil {
				return usage("call %s: %w", args[0], err)
			}
			if err := pointless(args[0], arguments); err != nil {
				return err
			}
			return s.callOnce(c, args[0], arguments, func(ctx context.Context, srv *server.Server, session *mcp.Session, r *mcp.Result) error {
				if err := show(c, r, asJSON); err != nil {
					return err
				}
				return outlast(ctx, srv, session, r, func(r *mcp.Result) error { return show(c, r, asJSON) })
			})
		},
	}
	s.flags(c)
	s.mode.flag(c)
	s.callsFlag(c)
	s.tenantFlag(c)
	hookFlags(c, s.Hooks)
	c.Flags().BoolVar(&asJSON, "json", false, "print the structured result as JSON")
	c.Flags().SetInterspersed(true)
	return c
}

// callOnce makes one call in a session of its own, and passes the result to use while the
// session lasts.
func (s *setup) callOnce(c *cobra.Command, tool string, arguments json.RawMessage, use func(context.Context, *server.Server, *mcp.Session, *mcp.Result) error) error {
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	srv, err := s.open(ctx, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer srv.Close()
	session, err := srv.MCP().Open(ctx)
	if err != nil {
		return failure(fmt.Errorf("call %s: %w", tool, err))
	}
	defer session.Close()
	result, err := srv.MCP().Call(ctx, session, tool, arguments)
	if err != nil {
		return failure(fmt.Errorf("call %s: %w", tool, err))
	}
	return use(ctx, srv, session, result)
}

// pointless refuses a call whose only effect is on a session that ends with it.
func pointless(tool string, arguments json.RawMessage) error {
	var in struct {
		Action any `json:"action"`
	}
	// For arguments of another form, the tool reports what is wrong.
	if err := json.Unmarshal(arguments, &in); tool == "PlanMode" && err == nil && in.Action == "enter" {
		return usage("call PlanMode: plan mode belongs to a session, and the session of this call ends with it, so nothing was done; " +
			"`belljar call --policy readonly` makes a call that changes nothing, and a client of `belljar serve` can plan")
	}
	return nil
}

// endKept is how long outlast waits until the end of a task is on the disk.
const endKept = 5 * time.Second

// outlast waits for a task that a call has left running in the background, since the
// session ends with this process. It shows the rest of the task's output by ReadBgOutput.
// The profile bounds how long the task runs; the end of ctx ends it.
func outlast(ctx context.Context, srv *server.Server, session *mcp.Session, of *mcp.Result, show func(*mcp.Result) error) error {
	id, runs := taskOf(of)
	if !runs {
		return nil
	}
	for _, box := range srv.Sandbox().Boxes() {
		for _, running := range box.Jobs() {
			select {
			case <-running.Done():
			case <-ctx.Done():
				running.Kill(0)
			}
		}
	}
	// Once the end of the task is on the disk, ReadBgOutput reports how the task ended.
	patience := time.NewTimer(endKept)
	defer patience.Stop()
	select {
	case <-srv.JobOver():
	case <-patience.C:
	}
	// The output of the task is shown after Ctrl-C as well. The tool may notice the end of
	// the task later than this process, and waits for it.
	for n := 0; runs && n < 3; n++ {
		rest, err := srv.MCP().Call(context.WithoutCancel(ctx), session, "ReadBgOutput", fmt.Appendf(nil, `{"task_id":%d,"wait_ms":1000}`, id))
		if err != nil {
			return failure(fmt.Errorf("read the output of task %d: %w", id, err))
		}
		if err := show(rest); err != nil {
			return err
		}
		_, runs = taskOf(rest)
	}
	if ctx.Err() != nil {
		return failure(fmt.Errorf("task %d was ended: %w", id, context.Cause(ctx)))
	}
	return nil
}

// taskOf returns the task that a result is about, and whether it still runs.
func taskOf(r *mcp.Result) (id int64, runs bool) {
	var task struct {
		ID     int64  `json:"task_id"`
		Status string `json:"status"`
	}
	text, err := json.Marshal(r.Structured)
	if err != nil || json.Unmarshal(text, &task) != nil {
		return 0, false // a result of another form has no task
	}
	return task.ID, task.ID != 0 && task.Status == sandbox.Running.String()
}

// parseArguments returns the arguments of a tool from the command line.
func parseArguments(tool string, args []string) (json.RawMessage, error) {
	if len(args) == 1 && strings.HasPrefix(strings.TrimSpace(args[0]), "{") {
		if !json.Valid([]byte(args[0])) {
			var v any
			return nil, fmt.Errorf("arguments: %w", json.Unmarshal([]byte(args[0]), &v))
		}
		return json.RawMessage(args[0]), nil
	}
	object := make(map[string]json.RawMessage, len(args))
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("argument %q: want KEY=VALUE, or one JSON object", a)
		}
		raw := json.RawMessage(value)
		if exact, isJSON := strings.CutSuffix(key, ":"); isJSON {
			if key = exact; !json.Valid(raw) {
				return nil, fmt.Errorf("argument %q: what follows := is not JSON", a)
			}
		} else if policies.TakesText(tool, key) || !json.Valid(raw) || strings.HasPrefix(value, `"`) || value == "null" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			raw = text
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("argument %q: %s is given twice", a, key)
		}
		object[key] = raw
	}
	return json.Marshal(object)
}

// show prints a result. If the result says that the tool has failed, it returns an error
// with exit status 1.
func show(c *cobra.Command, r *mcp.Result, asJSON bool) error {
	var b bytes.Buffer
	if asJSON && r.Structured != nil {
		if err := printJSON(&b, r.Structured); err != nil {
			return err
		}
	} else {
		for _, part := range r.Content {
			if part.MIME == "" {
				b.WriteString(strings.TrimRight(part.Text, "\n") + "\n")
			} else {
				fmt.Fprintf(&b, "(%s, %d bytes)\n", part.MIME, len(part.Data)+len(part.Raw))
			}
		}
	}
	if _, err := c.OutOrStdout().Write(b.Bytes()); err != nil {
		return failure(fmt.Errorf("print the result: %w", err))
	}
	if r.IsError {
		return &statusError{code: exitFailed}
	}
	return nil
}
