package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
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
	// bashTimeout is a command's timeout if the call does not set one.
	bashTimeout = 30 * time.Second
	// outputShown is how many bytes of an output a result shows if the call does not set a
	// size. Common clients show that much of a command.
	outputShown = 30_000
	// outputMost is the largest max_output_bytes: a result contains the text twice, and
	// JSON may need six bytes for one, within a response of 10 MiB.
	outputMost = 256 << 10
	// stdinMost is the largest input of a command that a box accepts, in bytes.
	stdinMost = 1 << 20
	// beat is the interval of progress reports, and beatBytes is how much new output one
	// report shows.
	beat      = 250 * time.Millisecond
	beatBytes = 4 << 10
	// lead is how long before the grant's limit a command is moved to the
	// background, so that the limit does not end it first.
	lead = 250 * time.Millisecond
)

// bashInput is the arguments of Bash.
type bashInput struct {
	Command        string            `json:"command" jsonschema:"bash script to run"`
	Timeout        *int64            `json:"timeout,omitempty" jsonschema:"milliseconds (default 30000)"`
	Description    string            `json:"description,omitempty" jsonschema:"its purpose"`
	Cwd            string            `json:"cwd,omitempty" jsonschema:"directory to start in"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"variables to add"`
	Stdin          string            `json:"stdin,omitempty" jsonschema:"text for standard input"`
	MaxOutputBytes *int64            `json:"max_output_bytes,omitempty" jsonschema:"output to show (default 30000, at most 262144)"`
	Changes        bool              `json:"changes,omitempty" jsonschema:"list changed files, in an overlay workspace"`
	OnTimeout      string            `json:"on_timeout,omitempty" jsonschema:"kill (default) or background: continue as a background task"`
}

// Facts returns the script and the directory where it starts.
func (in bashInput) Facts() policies.Facts { return commandFacts(in.Command, in.Cwd, in.Env, in.Stdin) }

// commandFacts returns the facts of any tool that runs a script.
func commandFacts(command, cwd string, env map[string]string, stdin string) policies.Facts {
	f := policies.Facts{Command: command, Env: slices.Sorted(maps.Keys(env)), Values: env, Stdin: stdin}
	switch {
	case path.IsAbs(cwd):
		f.Paths = []string{cwd}
	case cwd != "":
		// The working directory is not known here. The workspace is the most likely one,
		// and the sandbox holds in any case. The path is not cleaned, so that the policy
		// sees a ".." and can judge it.
		f.Paths = []string{sandbox.WorkspaceDir + "/" + cwd}
	}
	return f
}

// bashOutput is the structured result of Bash.
type bashOutput struct {
	commandEnd
	commandText
	Cwd      string            `json:"cwd,omitempty" jsonschema:"directory of the next command"`
	TaskID   int64             `json:"task_id,omitempty" jsonschema:"set if the command went to the background"`
	Notice   string            `json:"notice,omitempty"`
	Reverted []string          `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked  []string          `json:"blocked,omitempty" jsonschema:"network access that was refused while the command ran, and why"`
	Refusal  *policies.Refusal `json:"refusal,omitempty" jsonschema:"why the call was not run; if there are other members too, the first thing that the sandbox blocked"`
	Stopped  []string          `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`
	commandFiles
	Hint string `json:"hint,omitempty" jsonschema:"which limit of the sandbox the command seems to have met"`

	cut    bool // the result shows less than the output
	starts starts
}

// commandEnd describes how a command ended, or that it still runs.
type commandEnd struct {
	Status          string             `json:"status" jsonschema:"exited, timed_out, oom, killed, or running if it went to the background"`
	ExitCode        *int               `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	Signal          string             `json:"signal,omitempty" jsonschema:"the signal that ended the command, such as SIGKILL"`
	TimedOut        bool               `json:"timed_out"`
	OOM             bool               `json:"oom"`
	DurationMS      int64              `json:"duration_ms"`
	CPUMS           int64              `json:"cpu_ms"`
	PeakMemoryBytes int64              `json:"peak_memory_bytes"`
	Limits          limit.Enforcements `json:"limits" jsonschema:"how well this host enforces each limit: enforced, partly, watchdog or none"`
}

// commandText contains the output of a command.
type commandText struct {
	Stdout      string `json:"stdout"`
	Stderr      string `json:"stderr"`
	OutputBytes int64  `json:"output_bytes" jsonschema:"number of bytes that were written, shown or not"`
	OutputURI   string `json:"output_uri" jsonschema:"resource with the full output; takes ?offset=&length="`
}

// commandFiles describes how the workspace changed while a command ran.
type commandFiles struct {
	Changes        []sandbox.Changed `json:"changes,omitempty" jsonschema:"if the call asks for changes: files of the workspace that changed while the command ran, at most 200"`
	ChangesMore    int               `json:"changes_more,omitempty" jsonschema:"number of further changed files"`
	ChangesNote    string            `json:"changes_note,omitempty" jsonschema:"why the changes are not known"`
	Checkpoint     string            `json:"checkpoint,omitempty" jsonschema:"name of the workspace's state after this call, to which a person can roll workspace_set back"`
	CheckpointNote string            `json:"checkpoint_note,omitempty" jsonschema:"why no checkpoint of this call was made"`
	Set            string            `json:"workspace_set,omitempty" jsonschema:"set that contains what was written to the workspace, until a person applies it"`
}

// Usage returns for the audit log how the command ended.
func (out bashOutput) Usage() mcp.Usage {
	return out.starts.add(mcp.Usage{
		Exit: out.ExitCode, Signal: out.Signal, OOM: out.OOM, TimedOut: out.TimedOut, TaskID: out.TaskID,
		Output: out.OutputBytes, Truncated: out.cut, CPU: time.Duration(out.CPUMS) * time.Millisecond,
		PeakMemory: out.PeakMemoryBytes, Reverted: len(out.Reverted), Blocked: len(out.Blocked),
	})
}

// bashPlan is a checked bashInput.
type bashPlan struct {
	timeout    time.Duration // time until the command is ended or moved to the background
	limit      time.Duration // time until the box ends the command
	task       time.Duration // time until the command is ended as a background task
	background bool          // the command goes to the background after timeout
	show       int           // most bytes of output to show
	lines      int
}

// ran returns how long a command ran until a timer ended it. task reports that the command
// was a background task by then.
func (p bashPlan) ran(end ending, task bool) time.Duration {
	switch {
	case end.crowded:
		return p.timeout
	case task:
		return p.task
	}
	return p.limit
}

// check refuses invalid arguments, before anything runs.
func (in bashInput) check(g policies.Grant) (bashPlan, error) {
	var p bashPlan
	if err := checkCommand(in.Command, in.Env, in.Stdin); err != nil {
		return p, err
	}
	var err error
	if p.timeout, err = within("timeout", in.Timeout, bashTimeout, time.Millisecond, g.Limits().Wall, "use BackgroundBash for longer commands"); err != nil {
		return p, err
	}
	if p.show, err = bytesWithin("max_output_bytes", in.MaxOutputBytes, outputShown, outputMost); err != nil {
		return p, err
	}
	if p.lines = linesShown; in.MaxOutputBytes != nil {
		p.lines = p.show
	}
	p.limit, p.task = p.timeout, p.timeout
	switch in.OnTimeout {
	case "", "kill":
	case "background": // our own timer moves the command; the box's timer must not end it before that
		p.background, p.limit, p.task = true, g.Limits().Wall, g.Limits().Background
		p.timeout = min(p.timeout, max(p.limit-lead, p.limit/2))
	default:
		return p, fmt.Errorf("on_timeout: got %q, want kill or background", policies.Clip(in.OnTimeout, 40))
	}
	return p, nil
}

// checkCommand refuses a script, an environment or an input that cannot be passed to a
// shell.
func checkCommand(command string, env map[string]string, stdin string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return errors.New("command: got nothing to run, want a bash script")
	case strings.ContainsRune(command, 0):
		return errors.New("command: it contains a NUL character, which a script cannot contain; use printf '\\0' or stdin")
	case len(stdin) > stdinMost:
		return fmt.Errorf("stdin: got %d bytes, want at most %d; write the text to a file in the workspace and read that file", len(stdin), stdinMost)
	}
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %q is not a valid variable: want a name that is not empty and has no '=', and no NUL in name or value", clip(name, 80))
		}
	}
	return nil
}

// bash runs one command in the session's box.
func (s *shells) bash(ctx context.Context, call mcp.Call, in bashInput) (*mcp.Result, error) {
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
	notice = sh.introduce(notice)
	facts := in.Facts()
	if r := s.moved(ctx, call, box, facts); r != nil {
		return r, nil
	}
	cmd := sh.command(call, facts, in.Cwd, plan.limit)
	watch := watching(box, in.Changes)
	running := call.Phase(mcp.PhaseRun)
	started, err := box.Start(ctx, cmd)
	if err != nil {
		running()
		unrecorded(cmd)
		return sh.notStarted(ctx, in.Cwd, err)
	}
	it := &command{sh: sh, session: call.Session, cmd: started, description: in.Description, most: plan.task}
	s.tasks.runs(ctx, call, it)
	end := follow(ctx, call, started, movesTo(call, plan))
	running()
	if end.task, err = sh.settle(ctx, call, it, end, plan); err != nil {
		return nil, err
	}
	if sh.backends.Checkpoints {
		watch.keep(ctx, box, in)
	}
	return sh.answer(call, box, started, end, plan, notice, watch)
}

// command returns the command that a call runs in the shell's box.
func (sh *shell) command(call mcp.Call, f policies.Facts, cwd string, timeout time.Duration) sandbox.Cmd {
	cmd := sandbox.Cmd{Grant: call.Grant, Shell: f.Command, Dir: sh.begins(call, cwd), Env: f.Values, Stdin: []byte(f.Stdin), Timeout: timeout}
	if sh.backends.Record != nil {
		cmd.Record = sh.backends.Record(call)
	}
	return cmd
}

// settle returns the record of a command that has become a task, or nil. If the command has
// ended, the next command of the box starts in the directory where this one ended. settle
// fails if the call was cancelled, or if its task cannot be kept.
func (sh *shell) settle(ctx context.Context, call mcp.Call, it *command, end ending, plan bashPlan) (*job.Job, error) {
	task := sh.shells.tasks.jobOf(call, it)
	if task != nil && end.job == 0 {
		<-task.over // after this the task's record agrees with this result
	}
	var err error
	switch {
	case ctx.Err() != nil:
		if end.job != 0 { // it went to the background just before, and the caller gets no task_id to end it with
			it.cmd.Kill(0)
		}
		return nil, interrupted(ctx, it.cmd, plan)
	case end.job == 0:
		sh.move(end.result.Dir)
	case task == nil:
		task, err = sh.keep(ctx, call, it.cmd, it.description)
	}
	if task == nil || err != nil {
		return nil, err
	}
	return &task.kept, nil
}

// interrupted returns the error of a call that was cancelled. It contains the output of the
// command until then.
func interrupted(ctx context.Context, cmd *sandbox.Job, plan bashPlan) error {
	cause := context.Cause(ctx)
	o := cmd.Output()
	both, err := o.Cut(plan.show)
	if err != nil || both.Total == 0 {
		return cause // no output to show
	}
	var t text
	t.body(shorten(both, o))
	return &mcp.Interrupted{Cause: cause, Output: strings.TrimSuffix(t.b.String(), "\n")}
}

// unrecorded ends the recording of a command that did not start.
func unrecorded(cmd sandbox.Cmd) {
	if cmd.Record != nil {
		_ = cmd.Record.Close()
	}
}

// move determines when a command goes to the background.
type move struct {
	after time.Duration // time from the command's start; zero: never
	most  time.Duration // how long the command may run in total
	// timeout reports that the call set this time with its timeout. Otherwise the time is
	// how long the client waits; the command then stays in the foreground if the background
	// is full.
	timeout bool
	// lost is how long the command may run in total if nobody waits for it any more.
	lost time.Duration
}

// movesTo returns when a command goes to the background.
func movesTo(call mcp.Call, plan bashPlan) move {
	most, patience, timeout := call.Grant.Limits().Background, call.Patience, plan.timeout
	soon := patience > 0 && timeout > patience
	switch {
	case plan.background && soon:
		return move{after: patience, most: most, lost: most}
	case plan.background:
		return move{after: timeout, most: most, timeout: true, lost: most}
	case soon:
		return move{after: patience, most: min(timeout, most), lost: min(timeout, most)}
	}
	return move{lost: min(timeout, most)}
}

// ending describes how following a command ended.
type ending struct {
	result   sandbox.Result
	job      int64         // its number in the box if it went to the background; otherwise zero
	task     *job.Job      // its record; nil if it never was in the background
	after    time.Duration // how long it had run when it went to the background
	most     time.Duration // how long it may run in total, in the background
	timedOut bool
	crowded  bool // it could not go to the background, because that was full
}

// follow waits for a command and reports its new output as progress. If the context is
// cancelled, the command is killed.
func follow(ctx context.Context, call mcp.Call, cmd *sandbox.Job, move move) ending {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var due <-chan time.Time
	if move.after > 0 {
		timer := time.NewTimer(move.after)
		defer timer.Stop()
		due = timer.C
	}
	var told int64
	detached := call.Detached
	for {
		select {
		case <-cmd.Done():
			result := outcome(cmd)
			return ending{result: result, timedOut: result.Status == sandbox.TimedOut}
		case <-ctx.Done():
			return ending{result: cmd.Kill(0)}
		case <-detached:
			detached = nil
			if cmd.ID() != 0 || cmd.Promote(move.lost) == nil {
				return ending{job: cmd.ID(), after: time.Since(cmd.Started()), most: move.lost}
			} // otherwise it stays in the foreground, with the limits there
		case <-due:
			due = nil
			if end, over := move.now(cmd); over {
				return end
			}
		case <-ticker.C:
			told = tell(call, cmd.Output(), told)
		}
	}
}

// now moves a command to the background. If there is no room, it ends a command whose call
// has set the time; any other command stays in the foreground, and over is false.
func (m move) now(cmd *sandbox.Job) (end ending, over bool) {
	// A command whose client has a handle is in the background already.
	if cmd.ID() != 0 || cmd.Promote(m.most) == nil {
		return ending{job: cmd.ID(), after: m.after, most: m.most, timedOut: m.timeout}, true
	}
	select {
	case <-cmd.Done(): // it has just ended
	default:
		if m.timeout {
			return ending{result: cmd.TimeOut(), timedOut: true, crowded: true}, true
		}
	}
	return ending{}, false
}

// notStarted returns the result for a command that did not start.
func (sh *shell) notStarted(ctx context.Context, cwd string, err error) (*mcp.Result, error) {
	if cwd == "" {
		if dir, gone := sh.lost(err); gone {
			return mcp.Refused(policies.Block{
				Reason: fmt.Sprintf("the working directory %s, where the last command ended, cannot be used any more, and the command may not be meant for another directory", dir),
				Ran:    nothingRan, Instead: fmt.Sprintf("Instead: call again; the command then starts in %s.", sh.home(sh.granted())),
			}.Refusal()), nil
		}
	}
	return sh.shells.blocked(ctx, sh.id, err)
}

// tell reports the output from offset on as progress. If that is more than beatBytes, it
// reports the last part. It returns the offset for the next report.
func tell(call mcp.Call, o *sandbox.Output, offset int64) int64 {
	size := o.Size()
	if size == offset {
		return offset
	}
	news, next, _, err := o.Read(max(offset, size-beatBytes), beatBytes)
	if err != nil || len(news) == 0 {
		return size
	}
	message := valid(news)
	if missed := next - int64(len(news)) - offset; missed > 0 {
		message = fmt.Sprintf("[... %d bytes not shown ...]\n%s", missed, message)
	}
	// The number must grow from report to report, as the bytes of output do.
	call.Progress(float64(next), 0, message)
	return next
}

// answer returns the result of a command as text and as a structure.
func (sh *shell) answer(call mcp.Call, box *sandbox.Box, cmd *sandbox.Job, end ending, plan bashPlan, notice string, watch *watched) (*mcp.Result, error) {
	o := cmd.Output()
	both, err := o.Cut(plan.show)
	if err != nil {
		return nil, fmt.Errorf("read output of %q: %w", cmd.Command(), err)
	}
	both = fewLines(both, plan.lines)
	stdout, stderr, err := o.Split(plan.show)
	if err != nil {
		return nil, fmt.Errorf("read output of %q: %w", cmd.Command(), err)
	}
	out := bashOutput{
		commandEnd:   endOf(end, box),
		commandText:  commandText{Stdout: stream(stdout), Stderr: stream(stderr), OutputBytes: both.Total, OutputURI: uri(o)},
		Cwd:          sh.workdir(box.Grant(), ""),
		Notice:       notice,
		Reverted:     reverted(end.result.Reverted),
		Blocked:      refused(end.result),
		Refusal:      firstRefusal(end.result, call),
		commandFiles: commandFiles{Set: box.Set()},
		cut:          both.Dropped > 0,
		starts:       startsOf(cmd),
	}
	out.Stopped = out.starts.stopped
	handle := ""
	if end.task != nil {
		out.TaskID, handle = end.task.ID, end.task.Handle
	}
	if out.Refusal == nil && out.starts.first != nil {
		out.Refusal = out.starts.first
		out.Refusal.CallID = call.ID
	}
	var t text
	t.note(notice)
	t.body(shorten(both, o))
	if end.job != 0 {
		out.tellRunning(&t, cmd, end)
	} else {
		out.tellEnded(&t, box.Grant(), end, plan.ran(end, cmd.ID() != 0))
	}
	out.starts.tell(&t)
	watch.tell(&out, &t)
	return &mcp.Result{Content: []mcp.Content{{Text: t.status(out.pairs(end)...)}}, Structured: out, Task: handle}, nil
}

// endOf returns how a command ended in a box. For a command that still runs, tellRunning
// overwrites the status and the usage.
func endOf(end ending, box *sandbox.Box) commandEnd {
	r := end.result
	return commandEnd{
		Status:          r.Status.String(),
		Signal:          signalName(r.Signal),
		TimedOut:        end.timedOut,
		OOM:             r.Status == sandbox.OOM,
		DurationMS:      r.Wall.Milliseconds(),
		CPUMS:           r.Usage.CPU.Milliseconds(),
		PeakMemoryBytes: r.Usage.PeakMemory,
		Limits:          box.Limits(),
	}
}

// tellRunning adds the state of a command that went to the background.
func (out *bashOutput) tellRunning(t *text, cmd *sandbox.Job, end ending) {
	usage := cmd.Usage()
	out.Status = sandbox.Running.String()
	out.DurationMS = time.Since(cmd.Started()).Milliseconds()
	out.CPUMS, out.PeakMemoryBytes = usage.CPU.Milliseconds(), usage.PeakMemory
	t.line("[still running after %s; it continues as background task %d, for at most %s in all: ReadBgOutput shows the rest, KillBgTask ends it]", end.after.Round(time.Millisecond), out.TaskID, end.most)
}

// tellEnded adds how a command has ended. ran is how long it ran, if a timer ended it.
func (out *bashOutput) tellEnded(t *text, g policies.Grant, end ending, ran time.Duration) {
	code := end.result.Code
	out.ExitCode = &code
	out.Hint = hint(g, end.result, out.Stderr+out.Stdout)
	t.note(out.Hint)
	t.note(epitaph(end, g.Limits(), ran))
	state{reverted: out.Reverted, blocked: out.Blocked}.tell(t)
	if out.OutputBytes == 0 && end.result.Status == sandbox.Exited {
		t.line("(no output)")
	}
}

// pairs returns the names and values for the last line of the text, alternating.
func (out *bashOutput) pairs(end ending) []string {
	var pairs []string
	if end.job != 0 {
		pairs = []string{"status", out.Status, "task_id", strconv.FormatInt(out.TaskID, 10)}
	} else {
		pairs = []string{"exit", strconv.Itoa(end.result.Code)}
		if out.Status != sandbox.Exited.String() {
			pairs = append(pairs, "status", out.Status)
		}
		if out.Signal != "" {
			pairs = append(pairs, "signal", out.Signal)
		}
	}
	pairs = append(pairs, "duration_ms", strconv.FormatInt(out.DurationMS, 10), "cwd", out.Cwd)
	if out.Checkpoint != "" {
		pairs = append(pairs, "checkpoint", out.Checkpoint)
	}
	if out.Set != "" {
		pairs = append(pairs, "workspace_set", out.Set)
	}
	if out.cut {
		pairs = append(pairs, "output_bytes", strconv.FormatInt(out.OutputBytes, 10), "output", out.OutputURI)
	}
	return pairs
}

// epitaph returns what ended a command; empty if it ended by itself. ran is how long it ran,
// if a timer ended it.
func epitaph(end ending, limits policies.Limits, ran time.Duration) string {
	switch {
	case end.crowded:
		return fmt.Sprintf("still running after %s and stopped with all it had started: it could not go to the background, where %d tasks are running; end one with KillBgTask", ran, limits.Jobs)
	case end.timedOut:
		return fmt.Sprintf("still running after %s and stopped with all it had started; a larger timeout (at most %d) or BackgroundBash gives it more time", ran, limits.Wall.Milliseconds())
	case end.result.Status == sandbox.OOM:
		return fmt.Sprintf("stopped with all it had started: memory is limited to %d MiB; run less at the same time, or in smaller pieces", limits.Memory>>20)
	case end.result.Status == sandbox.Killed:
		return "stopped from outside, with all it had started"
	}
	return ""
}

// firstRefusal returns the first refusal of the network, or nil.
func firstRefusal(r sandbox.Result, call mcp.Call) *policies.Refusal {
	if len(r.Blocked) == 0 {
		return nil
	}
	first := r.Blocked[0].Block().Refusal()
	first.CallID = call.ID
	return &first
}
