package tools

import (
	"context"
	"io"
	"log/slog"

	"belljar.dev/browser"
	"belljar.dev/browser/act"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/callback"
	"belljar.dev/internal/job"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/skills"
	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/policies"
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
	Browsers  *Browsers    // that agents use; without it the tools for them are not there
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
	// Toolkit adds the tools of the toolkit, see ToolkitNames.
	Toolkit bool
	Jobs    *job.Book // of what goes on in the background; without it nothing can
}

// Browsers is what the browsers that agents use are opened with.
type Browsers struct {
	// Open opens the browser of one session.
	Open func(ctx context.Context, g policies.Grant, o act.Options) (Chrome, error)
	// Secret is the value of a secret of the policy.
	Secret func(ctx context.Context, name string) (string, error)
	Acts   []policies.ActKind // that the policy may let through
	// Reel begins to record what a call of Browser does, or returns nil for a call that is not
	// recorded; nil records none.
	Reel func(call mcp.Call) Reel
}

// Reel records what a call of Browser does, step by step.
type Reel interface {
	// Step records a step: what the policy decided about, what became of it, and what the
	// browser shows then, or why that cannot be seen.
	Step(what, did string, shows *act.Look, why error)
	Close() error
}

// Kept reports whether anything was kept yet: to list what there is opens no
// database that is not there.
func (b Backends) Kept() bool { return b.Made == nil || b.Made() }

// owner returns the owner of what a session keeps.
func owner(s *mcp.Session) store.Owner { return store.Owner{Tenant: s.Tenant(), Session: s.ID()} }
