// Package tools is what an agent can call: each tool shows the policy the
// facts of its arguments, and with the grant it gets back works in the rooms
// of belljar. The front end (package mcp) decodes, gates and answers; a tool
// is one method from arguments to a result.
//
// Add registers them. The shell tools (Bash, BackgroundBash, ReadBgOutput,
// ListBgTasks, KillBgTask) share the boxes of the session, one for each profile,
// opened at the first call that needs it and closed when the session ends.
package tools

import (
	"io"
	"log/slog"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/picture"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/callback"
	"belljar.dev/internal/job"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/skills"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/sandbox"
	"belljar.dev/search"
)

// Backends are the rooms in which the tools work. Each must live longer than
// the server the tools are added to.
type Backends struct {
	Sandbox *sandbox.Workspace // runs the shell tools; without it they refuse every call
	// Checkpoints makes a checkpoint of an overlay workspace after each Bash call
	// that changed it; Sandbox must be one that makes them.
	Checkpoints bool
	Search      *search.Fan    // asks the engines of WebSearch; without it that refuses every call
	Reader      *reader.Reader // reads the pages of ReadDocs; without it that refuses every call
	Browser     *browser.Pool  // draws the SVGs of ReadImage; without it they are refused
	// Record is what records the output of a call's command, or nil for a call
	// that is not recorded; nil records none.
	Record    func(call mcp.Call) io.WriteCloser
	Log       *slog.Logger // gets what an operator should know of a refusal; default: discard
	Approvals Approvals    // whose answers ReadBgOutput tells; nil where nobody is asked
	Todos     *todo.Book   // nil: TaskManager refuses every call
	Plans     *plan.Book   // nil: PlanMode refuses every call
	Made      func() bool  // whether anything is kept yet; nil says that it is
	Questions Questions    // nil: AskUserQuestion says that nobody was asked
	// CheckCommands says why patterns of commands cannot be approved with a plan;
	// nil takes all.
	CheckCommands func(patterns []string) error
	Skills        *skills.Catalog // of InvokeSkill and SearchSkills; without it they refuse every call
	Callbacks     *callback.Book  // of SetCallback; without it that refuses every call
	// Aside notes which skills were loaded, and knows the sessions that are open; nil
	// for a server that adds nothing to results.
	Aside *Aside
	Jobs  *job.Book // of what goes on in the background; without it nothing can
}

// Kept reports whether anything was kept yet: to list what there is opens no
// database that is not there.
func (b Backends) Kept() bool { return b.Made == nil || b.Made() }

// Add registers the tools and their resources, and returns what the operator of the
// server can do with what they run. Like mcp.AddTool it panics where two tools have one
// name.
func Add(s *mcp.Server, b Backends) *Operator {
	if b.Log == nil {
		b.Log = slog.New(slog.DiscardHandler)
	}
	sh := newShells(b)
	addShells(s, sh)
	addSearch(s, &searches{b})
	pictures := &images{shells: sh, maker: picture.New(imagesAtOnce)}
	if b.Browser != nil {
		pictures.drawer = b.Browser
	}
	addImages(s, pictures)
	addDocs(s, &docs{b, pictures})
	addTodos(s, &todos{backends: b})
	addPlans(s, &plans{backends: b, shells: sh, now: time.Now})
	addAsk(s, &asks{backends: b, wait: askWait})
	addSkills(s, &skillTools{s, b})
	addCallbacks(s, &callbacks{s, b})
	return &Operator{sh}
}

// addShells registers the tools that share a session's box.
func addShells(s *mcp.Server, sh *shells) {
	mcp.AddTool(s, mcp.Tool{
		Name:        "Bash",
		Title:       "Run a command",
		Description: "Runs a bash script in this session's sandbox and waits for it. The working directory is kept between calls, the environment is not. Long output loses its middle; the full text stays readable as the resource output://ID. The last line of the result is for programs: [belljar exit=0 ...].",
		Destructive: true,
		Output:      bashOutput{},
	}, sh.bash)
	mcp.AddTool(s, mcp.Tool{
		Name:        "BackgroundBash",
		Title:       "Start a background task",
		Description: "Starts a bash script in this session's sandbox and returns its task_id at once. ReadBgOutput shows what it writes, ListBgTasks all tasks, KillBgTask ends it.",
		Destructive: true,
		Output:      backgroundOutput{},
	}, sh.background)
	mcp.AddTool(s, mcp.Tool{
		Name:        "ReadBgOutput",
		Title:       "Read a background task's output",
		Description: "Shows what a background task wrote since the last read, and its status. With id it shows the state of an approval that a call waits for. wait_ms waits for something new.",
		ReadOnly:    true,
		Output:      readOutput{},
	}, sh.readOutput)
	mcp.AddTool(s, mcp.Tool{
		Name:        "ListBgTasks",
		Title:       "List background tasks",
		Description: "Lists the background tasks of this session with their status, runtime and unread output.",
		ReadOnly:    true,
		Idempotent:  true,
		Output:      listOutput{},
	}, sh.list)
	mcp.AddTool(s, mcp.Tool{
		Name:        "KillBgTask",
		Title:       "End a background task",
		Description: "Ends a background task and all it started: TERM first, KILL after grace_ms. Shows the output that was not read yet.",
		Destructive: true,
		Idempotent:  true,
		Output:      killOutput{},
	}, sh.kill)
	if sh.backends.Jobs != nil {
		s.KeepTasks(sh.tasks)
	}
	s.SurveyWith(sh)
	s.AddResource(sh.outputResource())
	s.AddResource(sh.jobResource())
	f := &files{sh}
	s.AddResource(f.root())
	s.AddResource(f.resource())
	addPrompts(s, sh)
}
