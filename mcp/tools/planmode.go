package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"belljar.dev/internal/plan"
	"belljar.dev/internal/store"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// planInput is the arguments of PlanMode.
type planInput struct {
	Action   string   `json:"action" jsonschema:"enter, exit, status, json or reset"`
	Goal     string   `json:"goal,omitempty" jsonschema:"enter: what is planned"`
	PlanFile string   `json:"plan_file,omitempty" jsonschema:"name of the plan, such as release.md"`
	Plan     string   `json:"plan,omitempty" jsonschema:"exit: the plan, in markdown"`
	Commands []string `json:"commands,omitempty" jsonschema:"exit: patterns of commands to approve too, such as git push *"`
}

// Facts returns no facts: the policy gets the arguments anyway, and belljar keeps plans
// itself.
func (planInput) Facts() policies.Facts { return policies.Facts{} }

// planOutput is the structured result of PlanMode.
type planOutput struct {
	Active    bool   `json:"active"`
	Goal      string `json:"goal"`
	PlanFile  string `json:"plan_file" jsonschema:"name of the plan; empty if none was given"`
	StartedAt string `json:"started_at" jsonschema:"RFC 3339; empty if plan mode is not active"`
	Plan      string `json:"plan,omitempty" jsonschema:"the plan that was saved last, or under plan_file"`
	Approval  string `json:"approval,omitempty" jsonschema:"approved, declined or pending; empty if nobody was asked"`
	ID        string `json:"approval_id,omitempty"`
	Feedback  string `json:"feedback,omitempty" jsonschema:"note of the person"`
}

// planLayer is the name of the layer below the policy of a session that plans.
const planLayer = "plan mode"

// plans implements the tool PlanMode.
type plans struct {
	backends Backends
	server   *mcp.Server // notifies clients about plans
	shells   *shells
	now      func() time.Time
}

func addPlans(s *mcp.Server, p *plans) {
	p.server = s
	mcp.AddTool(s, mcp.Tool{
		Name:        "PlanMode",
		Brief:       "lets the agent plan before it acts",
		Title:       "Plan before doing",
		Description: "enter starts plan mode: commands then run without write access to the workspace and without network. exit asks a person to approve the plan, saves it and ends plan mode. reset ends plan mode without a plan. status and json show the state.",
		Output:      planOutput{},
	}, p.mode)
	s.AddResource(p.resource())
}

// planRoot is the prefix of a plan's URI.
const planRoot = "plan:///"

// planURI returns the URI of the plan with a name.
func planURI(file string) string { return planRoot + (&url.URL{Path: file}).EscapedPath() }

// resource returns the resource family of the plans, which belong to the tenant.
func (t *plans) resource() mcp.Resource {
	return mcp.Resource{
		Template: planRoot + "{+name}", Name: "plan", Title: "Plan", MIME: "text/markdown",
		Description: "A plan of this workspace that PlanMode has saved.",
		Read: func(ctx context.Context, s *mcp.Session, uri string) ([]byte, string, error) {
			name, err := url.PathUnescape(strings.TrimPrefix(uri, planRoot))
			if err != nil || t.backends.Plans == nil {
				return nil, "", fmt.Errorf("%.80s: %w", uri, mcp.ErrNotFound)
			}
			p, err := t.backends.Plans.Read(ctx, s.Tenant(), name)
			if errors.Is(err, plan.ErrUnknown) || errors.Is(err, plan.ErrFile) {
				return nil, "", fmt.Errorf("%.80s: %w", uri, mcp.ErrNotFound)
			}
			return []byte(p.Text), "text/markdown", err
		},
		List: func(ctx context.Context, s *mcp.Session) ([]mcp.Entry, error) {
			if t.backends.Plans == nil || !t.backends.Kept() {
				return nil, nil
			}
			all, err := t.backends.Plans.List(ctx, s.Tenant())
			entries := make([]mcp.Entry, 0, len(all))
			for _, p := range all {
				entries = append(entries, mcp.Entry{URI: planURI(p.File), Name: p.File, Description: p.Goal})
			}
			return entries, err
		},
	}
}

// mode runs one call.
func (t *plans) mode(ctx context.Context, call mcp.Call, in planInput) (*mcp.Result, error) {
	if t.backends.Plans == nil {
		return mcp.Failed("PlanMode is not set up on this server. Nothing was changed."), nil
	}
	o := owner(call.Session)
	var res *mcp.Result
	var err error
	switch in.Action {
	case "enter":
		res, err = t.enter(ctx, call, o, in)
	case "exit":
		res, err = t.exit(ctx, call, o, in)
	case "status", "json":
		res, err = t.status(ctx, o, in.Action == "json")
	case "reset":
		res, err = t.reset(ctx, call, o)
	default:
		res = mcp.Failed("action: got %q, want enter, exit, status, json or reset. Nothing was changed.", policies.Clip(in.Action, 40))
	}
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case plan.Told(err):
		return mcp.Failed("%s. Nothing was changed.", err), nil
	}
	t.backends.Log.Error("plan mode", "session", o.Session, "err", err)
	return mcp.Failed("The state of plan mode cannot be read or written; the log of the server says why. Action status shows the state."), nil
}

// enter begins plan mode: from now on the session's calls are narrowed.
func (t *plans) enter(ctx context.Context, call mcp.Call, o store.Owner, in planInput) (*mcp.Result, error) {
	m, err := t.backends.Plans.Enter(ctx, o, in.Goal, in.PlanFile)
	if err != nil {
		return nil, err
	}
	narrow(call.Session)
	return planResult("Plan mode activated. Write your plan as markdown.", outOf(m)), nil
}

// narrow stops the calls of a session from changing anything on the host.
func narrow(session *mcp.Session) { session.Narrow(policies.ReadOnly(planLayer)) }

// planned returns the refusal for a call that needs the network in plan mode; nil outside
// plan mode.
func planned(call mcp.Call, ran string) *mcp.Result {
	if call.Session.Narrowed() != planLayer {
		return nil
	}
	return mcp.Refused(policies.Block{
		Reason: "plan mode is active, in which nothing leaves the sandbox", Ran: ran,
		Instead: "Instead: continue to plan without this call, or end plan mode with PlanMode.",
	}.Refusal())
}

// Resume narrows a new session if it continues the plan of a session whose process has
// ended. It must be called when the session opens.
func Resume(ctx context.Context, book *plan.Book, session *mcp.Session) error {
	_, err := book.Adopt(ctx, owner(session))
	switch {
	case errors.Is(err, plan.ErrInactive):
		return nil
	case err != nil:
		narrow(session) // the session may be planning: assume so, since that is stricter
		return fmt.Errorf("resume plan mode: %w", err)
	}
	narrow(session)
	return nil
}

func outOf(m plan.Mode) planOutput {
	return planOutput{Active: true, Goal: m.Goal, PlanFile: m.File, StartedAt: m.Started.UTC().Format(time.RFC3339)}
}

func planResult(text string, out planOutput) *mcp.Result {
	return &mcp.Result{Content: []mcp.Content{{Text: text}}, Structured: out}
}

// status reports the state of plan mode.
func (t *plans) status(ctx context.Context, o store.Owner, asJSON bool) (*mcp.Result, error) {
	var out planOutput
	m, err := t.backends.Plans.Mode(ctx, o)
	said := "Plan mode: INACTIVE"
	switch {
	case err == nil:
		out = outOf(m)
		said = fmt.Sprintf("Plan mode: ACTIVE\nGoal: %s\nDuration: %s", m.Goal, spell(t.now().Sub(m.Started)))
	case !errors.Is(err, plan.ErrInactive):
		return nil, err
	}
	if out.Plan, err = t.last(ctx, o, &out); err != nil {
		return nil, err
	}
	switch {
	case asJSON:
		text, err := json.Marshal(struct {
			Active    bool   `json:"active"`
			Goal      string `json:"goal"`
			PlanFile  string `json:"plan_file"`
			StartedAt string `json:"started_at"`
			Plan      string `json:"plan,omitempty"`
		}{out.Active, out.Goal, out.PlanFile, out.StartedAt, out.Plan})
		if err != nil {
			return nil, err
		}
		said = string(text)
	case out.Plan != "":
		said += fmt.Sprintf("\nPlan saved as %s:\n%s", out.PlanFile, out.Plan)
	}
	return planResult(said, out), nil
}

// last returns the text of the newest plan or, in plan mode, of the current plan. Outside
// plan mode it sets the plan's name in out as well.
func (t *plans) last(ctx context.Context, o store.Owner, out *planOutput) (string, error) {
	file := out.PlanFile
	if file == "" && !out.Active {
		all, err := t.backends.Plans.List(ctx, o.Tenant)
		if err != nil || len(all) == 0 {
			return "", err
		}
		file = all[0].File
		out.PlanFile = file
	}
	if file == "" {
		return "", nil
	}
	p, err := t.backends.Plans.Read(ctx, o.Tenant, file)
	if errors.Is(err, plan.ErrUnknown) {
		return "", nil
	}
	return p.Text, err
}

// spell returns a duration in the form "4m 32s".
func spell(d time.Duration) string {
	s := int64(max(0, d).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh %dm %ds", s/3600, s/60%60, s%60)
}

// exit asks for approval of the plan, saves it and ends plan mode.
func (t *plans) exit(ctx context.Context, call mcp.Call, o store.Owner, in planInput) (*mcp.Result, error) {
	m, err := t.backends.Plans.Mode(ctx, o)
	if err != nil {
		return nil, err
	}
	if t.backends.CheckCommands != nil {
		if err := t.backends.CheckCommands(in.Commands); err != nil {
			return mcp.Failed("commands: %s. Plan mode is still active.", err), nil
		}
	}
	var draft plan.Plan
	if in.Plan != "" || in.PlanFile != "" {
		if draft, err = t.draft(ctx, o, m, in); err != nil {
			return nil, err
		}
	}
	args := map[string]any{"leaves": "plan mode, in which nothing of the workspace can be changed", "goal": m.Goal, "plan": draft.Text}
	agreed, stop, err := t.agreed(ctx, call, mcp.Wish{Args: args, Reason: "The agent has a plan and wants to carry it out.", Commands: in.Commands}, m)
	if err != nil || stop != nil {
		return stop, err
	}
	var said text
	if agreed.Asked {
		said.line("Plan approved.")
	}
	if draft.File != "" {
		// The plan is saved before plan mode ends: a crash between the two steps leaves one
		// plan too many, and loses none.
		if draft, err = t.save(ctx, o, m, draft); err != nil {
			return nil, err
		}
		said.line("Plan saved to %s", draft.File)
	}
	if err := t.leave(ctx, call, o); err != nil {
		return nil, err
	}
	said.line("Exiting plan mode. Returning to execution.")
	if agreed.Approval.Note != "" {
		said.line("Their note: %s", agreed.Approval.Note)
	}
	out := planOutput{Goal: m.Goal, PlanFile: draft.File, Plan: draft.Text, Feedback: agreed.Approval.Note, ID: agreed.Approval.ID}
	if agreed.Asked {
		out.Approval = mcp.ApprovalApproved
	}
	return planResult(strings.TrimSuffix(said.b.String(), "\n"), out), nil
}

// draft returns the plan for an exit: the text of the call, or, if the call has none, the
// text that was saved under the name before.
func (t *plans) draft(ctx context.Context, o store.Owner, m plan.Mode, in planInput) (plan.Plan, error) {
	d, err := t.backends.Plans.Draft(m, in.PlanFile, in.Plan)
	if err != nil || in.Plan != "" {
		return d, err
	}
	before, err := t.backends.Plans.Read(ctx, o.Tenant, d.File)
	if errors.Is(err, plan.ErrUnknown) {
		return d, fmt.Errorf("%w; give the plan's text in the argument plan", err)
	}
	d.Text = before.Text
	return d, err
}

// save saves a plan and notifies clients.
func (t *plans) save(ctx context.Context, o store.Owner, m plan.Mode, d plan.Plan) (plan.Plan, error) {
	_, before := t.backends.Plans.Read(ctx, o.Tenant, d.File)
	saved, err := t.backends.Plans.Save(ctx, o, m, d.File, d.Text)
	if err != nil {
		return saved, err
	}
	t.server.Updated(o.Tenant, planURI(saved.File))
	if errors.Is(before, plan.ErrUnknown) {
		t.server.ResourcesChanged()
	}
	return saved, nil
}

// agreed asks a person whether plan mode may end. If the person does not agree, it returns
// the result for the agent.
func (t *plans) agreed(ctx context.Context, call mcp.Call, w mcp.Wish, m plan.Mode) (mcp.Confirmed, *mcp.Result, error) {
	w.Rule = "plan-mode"
	got, err := call.Confirm(ctx, w)
	if err != nil || !got.Asked || got.Yes {
		return got, nil, err
	}
	out := outOf(m)
	out.Approval, out.ID, out.Feedback = got.Approval.State, got.Approval.ID, got.Approval.Note
	var said text
	switch got.Approval.State {
	case mcp.ApprovalPending:
		said.line("WAITING for approval %s of the plan. Plan mode is still active. It expires in %s.", got.Approval.ID, policies.Spoken(got.Approval.Left))
		said.line("%s", policies.ByCommand(got.Approval.Command))
		said.line("Repeat the same call to wait longer; ReadBgOutput {\"id\":%q} shows the answer.", got.Approval.ID)
	case mcp.ApprovalDeclined, mcp.ApprovalRevoked:
		said.line("Plan rejected. User feedback: %s", feedback(got.Approval.Note))
		said.line("Plan mode is still active. Change the plan and exit again.")
	default:
		said.line("Nobody decided about the plan in time. Plan mode is still active; repeat the same call to ask again.")
	}
	return got, planResult(strings.TrimSuffix(said.b.String(), "\n"), out), nil
}

func feedback(note string) string {
	if note == "" {
		return "none"
	}
	return note
}

// leave ends plan mode, and closes the boxes that were opened for it.
func (t *plans) leave(ctx context.Context, call mcp.Call, o store.Owner) error {
	if err := t.backends.Plans.Leave(ctx, o); err != nil {
		return err
	}
	call.Session.Narrow(nil)
	t.shells.closePlanning(ctx, call.Session)
	return nil
}

// reset ends plan mode without a plan. A person is asked, as in exit: otherwise the agent
// could avoid the question with reset.
func (t *plans) reset(ctx context.Context, call mcp.Call, o store.Owner) (*mcp.Result, error) {
	m, err := t.backends.Plans.Mode(ctx, o)
	if errors.Is(err, plan.ErrInactive) {
		return planResult("Plan mode reset. No plan saved.", planOutput{}), nil
	}
	if err != nil {
		return nil, err
	}
	w := mcp.Wish{Args: map[string]any{"leaves": "plan mode, without a plan", "goal": m.Goal}, Reason: "The agent wants to continue without a plan."}
	agreed, stop, err := t.agreed(ctx, call, w, m)
	if err != nil || stop != nil {
		return stop, err
	}
	if err := t.leave(ctx, call, o); err != nil {
		return nil, err
	}
	out := planOutput{Goal: m.Goal, Feedback: agreed.Approval.Note, ID: agreed.Approval.ID}
	if agreed.Asked {
		out.Approval = mcp.ApprovalApproved
	}
	return planResult("Plan mode reset. No plan saved.", out), nil
}
