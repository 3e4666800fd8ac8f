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
	Sandbox *sandbox.Workspace // runs the shell tools; nil: they refuse every call
	// Checkpoints makes a checkpoint of an overlay workspace after each Bash call that
	// changed it; Sandbox must support checkpoints.
	Checkpoints bool
	Search      *search.Fan    // queries the engines of WebSearch; nil: WebSearch refuses every call
	Reader      *reader.Reader // reads the pages of ReadDocs; nil: ReadDocs refuses every call
	Browser     *browser.Pool  // draws the SVGs of ReadImage; nil: SVGs are refused
	// Record returns the writer that records the output of a call's command, or nil for a
	// call that is not recorded. A nil Record records no call.
	Record    func(call mcp.Call) io.WriteCloser
	Browsers  *Browsers    // opens browsers for agents; nil: the browser tools do not exist
	Log       *slog.Logger // gets the cause of a refusal for the operator; default: discard
	Approvals Approvals    // approvals whose state ReadBgOutput reports; nil if nobody is asked
	Todos     *todo.Book   // nil: TaskManager refuses every call
	Plans     *plan.Book   // nil: PlanMode refuses every call
	Made      func() bool  // reports whether anything has been kept; nil means yes
	Questions Questions    // nil: AskUserQuestion reports that nobody was asked
	// CheckCommands returns an error if patterns of commands cannot be approved with a
	// plan; nil accepts all patterns.
	CheckCommands func(patterns []string) error
	Skills        *skills.Catalog // skills of InvokeSkill and SearchSkills; nil: they refuse every call
	Callbacks     *callback.Book  // callbacks of SetCallback; nil: it refuses every call
	// Aside notes which skills were loaded, and knows the open sessions; nil for a server
	// that adds nothing to results.
	Aside *Aside
	// Toolkit adds the tools of the toolkit; see ToolkitNames.
	Toolkit bool
	Jobs    *job.Book // records of background tasks; nil: no command can run in the background
}

// Browsers opens the browsers that agents use.
type Browsers struct {
	// Open opens the browser of one session.
	Open func(ctx context.Context, g policies.Grant, o act.Options) (Chrome, error)
	// Secret returns the value of a secret of the policy.
	Secret func(ctx context.Context, name string) (string, error)
	Acts   []policies.ActKind // kinds of act that the policy may allow
	// Reel begins to record what a call of Browser does. It returns nil for a call that is
	// not recorded. A nil Reel records no call.
	Reel func(call mcp.Call) Reel
}

// Reel records what a call of Browser does, step by step.
type Reel interface {
	// Step records a step. what is the act that the policy decided about, and did is its
	// outcome. shows is what the browser shows after the step. It is nil if the browser gave
	// no picture; then why is the reason.
	Step(what, did string, shows *act.Look, why error)
	Close() error
}

// Kept reports whether anything has been kept. If not, a list is empty, and no database is
// created for it.
func (b Backends) Kept() bool { return b.Made == nil || b.Made() }

// home returns the directory where the first command of a box with grant g starts. A server
// without a sandbox opens no box.
func (b Backends) home(g policies.Grant) string {
	if b.Sandbox == nil {
		return sandbox.WorkspaceDir
	}
	return b.Sandbox.StartDir(g)
}

// owner returns the owner of the data that a session keeps.
func owner(s *mcp.Session) store.Owner { return store.Owner{Tenant: s.Tenant(), Session: s.ID()} }
