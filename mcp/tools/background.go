package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

const (
	backgroundTimeout = 30 * time.Minute
	// startWait is how long BackgroundBash waits for a command that fails at
	// once; startWaitMost is the longest wait that a call can ask for.
	startWait     = 200 * time.Millisecond
	startWaitMost = 10 * time.Second
	// killGrace is the time between TERM and KILL.
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

// Facts shows the policy the script and where it starts.
func (in backgroundInput) Facts() policies.Facts {
	return commandFacts(in.Command, in.Cwd, in.Env, in.Stdin)
}

// backgroundOutput is the structured result of BackgroundBash.
type backgroundOutput struct {
	TaskID     int64             `json:"task_id" jsonschema:"for ReadBgOutput and KillBgTask"`
	Status     string            `json:"status" jsonschema:"running, exited, killed, timed_out, oom or lost"`
	ExitCode   *int              `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	DurationMS int64             `json:"duration_ms"`
	Output     string            `json:"output" jsonschema:"what was written so far"`
	OutputURI  string            `json:"output_uri" jsonschema:"resource with the full output; takes ?offset=&length="`
	Cwd        string            `json:"cwd" jsonschema:"directory the command started in"`
	Limits     map[string]string `json:"limits" jsonschema:"how this host holds each limit: enforced, partly, watchdog or none"`
	Notice     string            `json:"notice,omitempty"`
	Reverted   []string          `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked    []string          `json:"blocked,omitempty" jsonschema:"what of the network was refused while the task ran, and why"`
	Stopped    []string          `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`

	starts starts
}

// Usage tells the audit log which job goes on, or how it has ended already.
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
		return p, fmt.Errorf("command: it ends in &, so the task would end at once and kill what runs; leave out the &, since the whole command runs in the background")
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
	if r := s.moved(ctx, call, box, in.Facts()); r != nil {
		return r, nil
	}
	notice = sh.introduce(notice)
	dir := sh.begins(call, in.Cwd)
	cmd := sandbox.Cmd{
		Grant:      call.Grant,
		Shell:      in.Command,
		Dir:        dir,
		Env:        in.Env,
		Stdin:      []byte(in.Stdin),
		Timeout:    plan.timeout,
		Background: true,
	}
	if s.backends.Record != nil {
		cmd.Record = s.backends.Record(call)
	}
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
		// The caller will never learn the task_id, so nobody could end it.
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
		DurationMS: milliseconds(state.runtime),
		Output:     part.text,
		OutputURI:  outputURI(bg.Output),
		Cwd:        dir,
		Limits:     held(box.Limits()),
		Notice:     notice,
		Reverted:   state.reverted,
		Blocked:    state.blocked,
		starts:     bg.starts(),
	}
	out.Stopped = out.starts.stopped
	var t text
	t.line("%s", bracket(notice))
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

// state is the state of a job at one moment.
type state struct {
	status  job.Status
	ended   bool
	code    *int // nil where it is not known
	signal  string
	runtime time.Duration
	usage   limit.Usage

	reverted []string // changes to protected paths that were taken back
	blocked  []string // what of the network was refused
	by       string   // the person who ended it; empty for its agent
}

// is reports whether the job ended with a status.
func (s state) is(status sandbox.Status) bool { return string(s.status) == status.String() }

// tell adds what the agent should know of the sandbox's own actions.
func (s state) tell(t *text) {
	s.tellLost(t)
	if s.by != "" {
		t.line("%s", bracket(s.by+" ended this task, with all it had started"))
	}
	for _, r := range s.reverted {
		t.line("%s", bracket("sandbox: "+r))
	}
	for _, b := range s.blocked {
		t.line("%s", bracket(b))
	}
}

// tellLost explains what a lost job means.
func (s state) tellLost(t *text) {
	if s.status == job.Lost {
		t.line("[lost: the task ended with its session, its box or its server]")
	}
}

// pairs returns the state as the pairs of a status line.
func (s state) pairs(id int64) []string {
	p := []string{"task_id", strconv.FormatInt(id, 10), "status", string(s.status)}
	if s.code != nil {
		p = append(p, "exit", strconv.Itoa(*s.code))
	}
	if s.signal != "" {
		p = append(p, "signal", s.signal)
	}
	return append(p, "duration_ms", strconv.FormatInt(milliseconds(s.runtime), 10))
}

// noInput is the arguments of ListBgTasks.
type noInput struct{}

// Facts are empty: the tool names nothing but its own session's tasks.
func (noInput) Facts() policies.Facts { return policies.Facts{} }

// listOutput is the structured result of ListBgTasks.
type listOutput struct {
	Tasks []listEntry `json:"tasks,omitzero" jsonschema:"oldest first"`
}

// listEntry is one background job.
type listEntry struct {
	TaskID          int64  `json:"task_id"`
	Status          string `json:"status" jsonschema:"running, exited, killed, timed_out, oom or lost"`
	ExitCode        *int   `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	Command         string `json:"command"`
	Description     string `json:"description,omitempty"`
	StartedAt       string `json:"started_at" jsonschema:"RFC 3339"`
	RuntimeMS       int64  `json:"runtime_ms"`
	CPUMS           int64  `json:"cpu_ms"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes"`
	OutputBytes     int64  `json:"output_bytes"`
	UnreadBytes     int64  `json:"unread_bytes"`
	OutputURI       string `json:"output_uri"`

	Reverted []string `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
}

// commandShown bounds a command in a list, in characters.
const commandShown = 200

// list lists all background jobs that the session sees.
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
	t.line("%s", bracket(strings.TrimSpace(forgotten(gone))))
	return &mcp.Result{
		Content:    []mcp.Content{{Text: t.status("tasks", strconv.Itoa(len(out.Tasks)))}},
		Structured: out,
	}, nil
}

// entry returns a job in the form for lists.
func (t task) entry() listEntry {
	now, size := t.look(), t.size()
	return listEntry{
		TaskID:          t.ID,
		Status:          string(now.status),
		ExitCode:        now.code,
		Command:         clip(t.Command, commandShown),
		Description:     t.Description,
		StartedAt:       t.Started.UTC().Format(time.RFC3339),
		RuntimeMS:       milliseconds(now.runtime),
		CPUMS:           milliseconds(now.usage.CPU),
		PeakMemoryBytes: now.usage.PeakMemory,
		OutputBytes:     size,
		UnreadBytes:     size - min(t.Cursor, size),
		OutputURI:       outputURI(t.Output),
		Reverted:        now.reverted,
	}
}

// clip is the first n characters of s.
func clip(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// oneLine is s with its line breaks made visible.
func oneLine(s string) string {
	return strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(strings.TrimSpace(s))
}

// killInput is the arguments of KillBgTask.
type killInput struct {
	TaskID  int64  `json:"task_id" jsonschema:"as BackgroundBash returned it"`
	GraceMS *int64 `json:"grace_ms,omitempty" jsonschema:"milliseconds between TERM and KILL (default 2000, at most 10000)"`
}

// Facts are empty: the tool names nothing but its own session's tasks.
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
	Output     string   `json:"output" jsonschema:"what was not read yet"`
	OutputURI  string   `json:"output_uri"`
	Reverted   []string `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked    []string `json:"blocked,omitempty" jsonschema:"what of the network was refused while the task ran, and why"`
	Stopped    []string `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`

	starts starts
}

// Usage tells the audit log which job has ended, and how.
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
		DurationMS: milliseconds(now.runtime),
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
