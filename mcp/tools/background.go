package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox/limit"
)

const (
	backgroundTimeout = 30 * time.Minute
	// startWait is how long BackgroundBash waits for a command that may fail immediately.
	// startWaitMost is the longest wait that a call can request.
	startWait     = 200 * time.Millisecond
	startWaitMost = 10 * time.Second
	// killGrace is the default time between SIGTERM and SIGKILL.
	killGrace     = 2 * time.Second
	killGraceMost = 10 * time.Second
)

// backgroundInput is the arguments of BackgroundBash.
type backgroundInput struct {
	Command     string            `json:"command" jsonschema:"bash script to run, without a trailing &"`
	Description string            `json:"description,omitempty" jsonschema:"its purpose"`
	Cwd         string            `json:"cwd,omitempty" jsonschema:"directory to start in"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"variables to add"`
	Stdin       string            `json:"stdin,omitempty" jsonschema:"text for standard input"`
	TimeoutMS   *int64            `json:"timeout_ms,omitempty" jsonschema:"milliseconds (default 1800000)"`
	DelayMS     *int64            `json:"delay_ms,omitempty" jsonschema:"milliseconds to watch for early failure (default 200, at most 10000)"`
}

// Facts returns the script and the directory where it starts.
func (in backgroundInput) Facts() policies.Facts {
	return commandFacts(in.Command, in.Cwd, in.Env, in.Stdin)
}

// backgroundOutput is the structured result of BackgroundBash.
type backgroundOutput struct {
	TaskID     int64              `json:"task_id" jsonschema:"for ReadBgOutput and KillBgTask"`
	Status     string             `json:"status" jsonschema:"running, exited, killed, timed_out, oom or lost"`
	ExitCode   *int               `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	DurationMS int64              `json:"duration_ms"`
	Output     string             `json:"output" jsonschema:"what was written so far"`
	OutputURI  string             `json:"output_uri" jsonschema:"resource with the full output; takes ?offset=&length="`
	Cwd        string             `json:"cwd" jsonschema:"directory the command started in"`
	Limits     limit.Enforcements `json:"limits" jsonschema:"how well this host enforces each limit: enforced, partly, watchdog or none"`
	Notice     string             `json:"notice,omitempty"`
	Reverted   []string           `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked    []string           `json:"blocked,omitempty" jsonschema:"network access that was refused while the task ran, and why"`
	Stopped    []string           `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`

	starts starts
}

// Usage returns for the audit log the job that runs, or how it has already ended.
func (out backgroundOutput) Usage() mcp.Usage {
	return out.starts.add(mcp.Usage{Exit: out.ExitCode, TaskID: out.TaskID, Output: int64(len(out.Output))})
}

// backgroundPlan is a checked backgroundInput.
type backgroundPlan struct{ timeout, delay time.Duration }

func (in backgroundInput) check(g policies.Grant) (backgroundPlan, error) {
	var p backgroundPlan
	if err := checkCommand(in.Command, in.Env, in.Stdin); err != nil {
		return p, err
	}
	if s := strings.TrimSpace(in.Command); strings.HasSuffix(s, "&") && !strings.HasSuffix(s, "&&") {
		return p, fmt.Errorf("command: it ends in &, so the task would end immediately and kill what it started; leave out the &, since the whole command runs in the background")
	}
	var err error
	if p.timeout, err = within("timeout_ms", in.TimeoutMS, backgroundTimeout, time.Millisecond, g.Limits().Background, ""); err != nil {
		return p, err
	}
	p.delay, err = within("delay_ms", in.DelayMS, startWait, 0, startWaitMost, "")
	return p, err
}

// background starts a background job in the session's box.
func (s *shells) background(ctx context.Context, call mcp.Call, in backgroundInput) (*mcp.Result, error) {
	plan, err := in.check(call.Grant)
	if err != nil {
		return mcp.Failed("%s. Nothing was run.", err), nil
	}
	starting := call.Phase(mcp.PhaseStart)
	sh, box, notice, err := s.enter(ctx, call.Session, call.Grant)
	starting()
	if err != nil {
		return s.blocked(ctx, call.Session.ID(), err)
	}
	facts := in.Facts()
	if r := s.moved(ctx, call, box, facts); r != nil {
		return r, nil
	}
	notice = sh.introduce(notice)
	cmd := sh.command(call, facts, in.Cwd, plan.timeout)
	cmd.Background = true
	started, err := box.Start(ctx, cmd)
	if err != nil {
		unrecorded(cmd)
		return sh.notStarted(ctx, in.Cwd, err)
	}
	r, err := sh.keep(ctx, call, started, in.Description)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(plan.delay)
	defer timer.Stop()
	select {
	case <-r.over:
	case <-timer.C:
	case <-ctx.Done():
		// The caller will never get the task_id, so nobody could end the job.
		started.Kill(0)
		return nil, context.Cause(ctx)
	}

	bg := task{r.kept, r}
	state := bg.look()
	part, err := s.read(bg, bg.Cursor, state.ended, reading{show: outputShown})
	if err != nil {
		return nil, err
	}
	out := backgroundOutput{
		TaskID:     bg.ID,
		Status:     string(state.status),
		ExitCode:   state.code,
		DurationMS: state.runtime.Milliseconds(),
		Output:     part.text,
		OutputURI:  outputURI(bg.Output),
		Cwd:        cmd.Dir,
		Limits:     box.Limits(),
		Notice:     notice,
		Reverted:   state.reverted,
		Blocked:    state.blocked,
		starts:     bg.starts(),
	}
	out.Stopped = out.starts.stopped
	var t text
	t.note(notice)
	t.body(part.text)
	state.tell(&t)
	out.starts.tell(&t)
	if state.ended {
		t.line("Task %d has already ended.", bg.ID)
	} else {
		t.line("Task %d runs in the background. ReadBgOutput shows what it writes, KillBgTask ends it.", bg.ID)
	}
	res := &mcp.Result{
		Content:    []mcp.Content{{Text: t.status(append(append(state.pairs(bg.ID), "cwd", out.Cwd), part.rest(out.OutputURI)...)...)}},
		Structured: out,
		Task:       bg.Handle,
	}
	return res, s.shown(ctx, bg, part, res)
}

// noInput is the arguments of ListBgTasks.
type noInput struct{}

// Facts returns no facts: the tool names only tasks of its own session.
func (noInput) Facts() policies.Facts { return policies.Facts{} }

// listOutput is the structured result of ListBgTasks.
type listOutput struct {
	Tasks []listEntry `json:"tasks,omitzero" jsonschema:"oldest first"`
}

// list returns all background jobs that the session sees.
func (s *shells) list(ctx context.Context, call mcp.Call, _ noInput) (*mcp.Result, error) {
	all, gone, err := s.jobs(ctx, call.Session)
	if err != nil {
		return nil, err
	}
	out := listOutput{Tasks: []listEntry{}}
	var t text
	for _, bg := range all {
		e := bg.entry()
		out.Tasks = append(out.Tasks, e)
		exit := ""
		if e.ExitCode != nil {
			exit = fmt.Sprintf(", exit code %d", *e.ExitCode)
		}
		about := ""
		if e.Description != "" {
			about = " (" + policies.Clip(e.Description, commandShown) + ")"
		}
		t.line("- [task %d]%s %s, %s%s, %d bytes unread: %s", e.TaskID, about, e.Status,
			(time.Duration(e.RuntimeMS) * time.Millisecond).Round(100*time.Millisecond), exit, e.UnreadBytes, oneLine(e.Command))
		state{reverted: e.Reverted}.tell(&t)
	}
	if len(out.Tasks) == 0 {
		t.line("No background processes found.")
	}
	t.note(strings.TrimSpace(forgotten(gone)))
	return &mcp.Result{
		Content:    []mcp.Content{{Text: t.status("tasks", strconv.Itoa(len(out.Tasks)))}},
		Structured: out,
	}, nil
}

// killInput is the arguments of KillBgTask.
type killInput struct {
	TaskID  int64  `json:"task_id" jsonschema:"as BackgroundBash returned it"`
	GraceMS *int64 `json:"grace_ms,omitempty" jsonschema:"milliseconds between TERM and KILL (default 2000, at most 10000)"`
}

// Facts returns no facts: the tool names only tasks of its own session.
func (killInput) Facts() policies.Facts { return policies.Facts{} }

// killOutput is the structured result of KillBgTask.
type killOutput struct {
	TaskID     int64    `json:"task_id"`
	Status     string   `json:"status" jsonschema:"exited, killed, timed_out, oom or lost"`
	Already    bool     `json:"already_finished" jsonschema:"the task had ended before"`
	ExitCode   int      `json:"exit_code"`
	Signal     string   `json:"signal,omitempty"`
	DurationMS int64    `json:"duration_ms"`
	Command    string   `json:"command"`
	Output     string   `json:"output" jsonschema:"output that was not read yet"`
	OutputURI  string   `json:"output_uri"`
	Reverted   []string `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked    []string `json:"blocked,omitempty" jsonschema:"network access that was refused while the task ran, and why"`
	Stopped    []string `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`

	starts starts
}

// Usage returns for the audit log the job that has ended, and how it ended.
func (out killOutput) Usage() mcp.Usage {
	return out.starts.add(mcp.Usage{Exit: &out.ExitCode, Signal: out.Signal, TaskID: out.TaskID, Output: int64(len(out.Output))})
}

// kill ends a background job.
func (s *shells) kill(ctx context.Context, call mcp.Call, in killInput) (*mcp.Result, error) {
	grace, err := within("grace_ms", in.GraceMS, killGrace, 0, killGraceMost, "")
	if err != nil {
		return mcp.Failed("%s. Nothing was killed.", err), nil
	}
	bg, unknown, err := s.find(ctx, call.Session, in.TaskID)
	if unknown != nil || err != nil {
		return unknown, err
	}
	already := bg.look().ended
	if bg.live == nil && !already {
		return mcp.Failed("task_id: task %d runs in another process of belljar, and only that process can end it. Nothing was killed. Ask the person you work for to end it.", bg.ID), nil
	}
	if bg.live != nil {
		bg.live.cmd.Kill(grace)
		<-bg.live.over
	}
	now := bg.look()
	part, err := s.read(bg, bg.Cursor, true, reading{show: outputShown})
	if err != nil {
		return nil, err
	}
	out := killOutput{
		TaskID:     bg.ID,
		Status:     string(now.status),
		Already:    already,
		Signal:     now.signal,
		DurationMS: now.runtime.Milliseconds(),
		Command:    clip(bg.Command, commandShown),
		Output:     part.text,
		OutputURI:  outputURI(bg.Output),
		Reverted:   now.reverted,
		Blocked:    now.blocked,
		starts:     bg.starts(),
	}
	out.Stopped = out.starts.stopped
	if now.code != nil {
		out.ExitCode = *now.code
	}
	var t text
	t.body(part.text)
	now.tell(&t)
	out.starts.tell(&t)
	if already {
		t.line("Task %d had already finished.", bg.ID)
	} else {
		t.line("Task %d was killed, with all it had started.", bg.ID)
	}
	res := &mcp.Result{
		Content:    []mcp.Content{{Text: t.status(append(now.pairs(bg.ID), part.rest(out.OutputURI)...)...)}},
		Structured: out,
	}
	return res, s.shown(ctx, bg, part, res)
}
