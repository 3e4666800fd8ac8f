package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"belljar.dev/internal/auth"
	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/internal/console"
	"belljar.dev/internal/control"
	"belljar.dev/internal/front"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
)

// openConsole opens the port of the console, if the configuration has a console.
func openConsole(ctx context.Context, s *Server) (err error) {
	if s.cfg.Service == nil || s.cfg.Service.Console == "" && !s.cfg.Service.Inherited.Console() {
		return nil
	}
	cfg := console.Config{Addr: s.cfg.Service.Console, Remote: s.cfg.Service.ConsoleRemote, Inherited: s.cfg.Service.Inherited, Log: s.Log}
	cfg.People = len(policies.People(s.Policy)) > 0 || policies.ProviderOf(s.Policy) != nil
	if !s.cfg.routes() { // a front opens no box
		if err := frontFiles(consoleFiles(s.cfg.Service), s.workspaces(), s.Policy); err != nil {
			return err
		}
	}
	if s.console, err = console.Open(ctx, cfg); err != nil {
		return err
	}
	s.opened.Do(s.console.Close)
	s.counts = newCallCounts(time.Now)
	return nil
}

// consoleFiles returns the files of the console that no box may reach.
func consoleFiles(s *Service) *front.Config {
	return &front.Config{Cert: s.ConsoleRemote.Cert, Key: s.ConsoleRemote.Key}
}

// runConsole serves the console until ctx ends.
func runConsole(ctx context.Context, s *Server, c *controller) {
	s.Log.Info("people can open the console with `belljar console`", "url", s.console.URL())
	views, provider := consoleViews(s, c), &consoleProvider{server: s}
	defer provider.Close()
	views.Provider = provider
	if err := s.console.Serve(ctx, views); err != nil {
		s.Log.Error("the console is no longer served", "err", err)
	}
}

// consoleViews returns the views that a console shows of a server.
func consoleViews(s *Server, c *controller) console.Views {
	views := console.Views{
		Server: &consoleServer{s, c, &knownPeople{server: s}, time.Now()},
		People: &consolePeople{c.ways},
		Runs:   &consoleRuns{&boxHandlers{c.sandbox}, c.operations, s.audit, s.Log},
		Counts: &consoleCounts{s.counts, c.quotas},
		Policy: &consolePolicy{c.policy, s.gate},
		Tools:  &consoleTools{s},

		Upstreams: &consoleUpstreams{&upstreamHandlers{s.places, s.audit, s.Log}, s.kept},
	}
	if s.audit != nil {
		views.AuditDir = s.audit.dir
	}
	if s.State != "" {
		views.SetsDir = filepath.Join(s.State, sandbox.WorkspacesDir)
	}
	return views
}

// ConsoleLink returns a link by which the user of this process can log in at the console
// once, within a minute. It returns an empty text without a console.
func (l *listeners) ConsoleLink() string {
	if l.console == nil {
		return ""
	}
	url, _ := l.console.Link(control.Self(), console.Operator)
	return url
}

// handleConsole adds the routes for `belljar console`.
func (c *controller) handleConsole(mux *http.ServeMux) {
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, _ *http.Request) {
		at := control.Console{Server: os.Getpid()}
		if c.console != nil {
			at.URL = c.console.URL()
		}
		control.Respond(w, http.StatusOK, at)
	})
	mux.HandleFunc("POST /console", func(w http.ResponseWriter, r *http.Request) {
		var want control.ConsoleRole
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil {
			control.Respond(w, http.StatusBadRequest, fmt.Sprintf("read request: %v", err))
			return
		}
		role, err := console.ParseRole(want.Role)
		switch {
		case err != nil:
			control.Respond(w, http.StatusBadRequest, err.Error())
		case c.console == nil:
			control.Respond(w, http.StatusNotFound, "this server has no console")
		default:
			url, until := c.console.Link(control.Caller(r), role, want.Tenants...)
			control.Respond(w, http.StatusOK, control.ConsoleLink{Server: os.Getpid(), URL: url, Role: role.String(), Tenants: want.Tenants, Until: until})
		}
	})
}

// consoleServer answers the console's requests about the server.
type consoleServer struct {
	server *Server
	asked  *controller
	people *knownPeople
	began  time.Time
}

// Known returns the people whom the policy lets in from other machines.
func (v *consoleServer) Known(ctx context.Context) []console.Known { return v.people.now(ctx) }

// About returns a description of the server.
func (v *consoleServer) About() console.About {
	return console.About{
		Version: buildinfo.Version(), PID: os.Getpid(), Workspace: v.server.Workspace, Policy: v.asked.policy.info().File, Since: v.began,
	}
}

// Agent reports whether a token belongs to a client.
func (v *consoleServer) Agent(ctx context.Context, token string) bool {
	_, err := v.server.login.Authenticate(ctx, token)
	return err == nil
}

// consoleRefused is the reason of refusals at the console, in the audit log.
const consoleRefused auth.Reason = "console"

// Noted records that a person has logged in, or was refused.
func (v *consoleServer) Noted(l console.Login) {
	if l.Role == 0 {
		v.server.login.refused(&auth.Refusal{Reason: consoleRefused, Whose: l.Person, Detail: l.Reason})
		return
	}
	v.server.Log.Info("a person logged in at the console", "person", l.Person, "role", l.Role.String())
	v.server.audit.append(audit.Login{Event: "console", Principal: l.Person, Reason: l.Role.String()})
}

// Decided records what a person decided about the changes of a set.
func (v *consoleServer) Decided(d console.Decision) {
	v.server.Log.Info("a person decided about the changes of a set", "set", d.Set, "what", d.Event, "workspace", d.Workspace, "paths", d.Paths, "by", d.By)
	v.server.audit.append(audit.Session{Event: d.Event, Tenant: d.Tenant, Session: d.Set, Workspace: d.Workspace, By: d.By})
}

// consolePeople answers the console's requests about questions to people.
type consolePeople struct {
	ways *ways
}

// Approvals lists approvals.
func (v *consolePeople) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	return v.ways.listApprovals(ctx, all)
}

// History lists approvals, also those that have ended.
func (v *consolePeople) History(ctx context.Context, f approval.Filter) ([]approval.Approval, error) {
	return v.ways.history(ctx, f)
}

// Approval returns one approval.
func (v *consolePeople) Approval(ctx context.Context, id string) (approval.Approval, error) {
	return v.ways.approval(ctx, id)
}

// Arguments returns a part of the arguments of the call that an approval is about.
func (v *consolePeople) Arguments(ctx context.Context, id string, from, most int) (approval.Part, error) {
	return v.ways.arguments(ctx, id, from, most)
}

// Approve answers an approval.
func (v *consolePeople) Approve(ctx context.Context, id string, said approval.Reply) (approval.Approval, error) {
	return v.ways.answer(ctx, id, said)
}

// Revoke revokes a yes.
func (v *consolePeople) Revoke(ctx context.Context, id, by string) (approval.Approval, error) {
	return v.ways.revoke(ctx, id, by, console.Via)
}

// Questions lists questions of agents.
func (v *consolePeople) Questions(ctx context.Context, all bool, tenants []string) ([]question.Asked, error) {
	return v.ways.listQuestions(ctx, all, tenants)
}

// Question returns one question of an agent.
func (v *consolePeople) Question(ctx context.Context, id string) (question.Asked, error) {
	return v.ways.question(ctx, id)
}

// Answer answers a question of an agent.
func (v *consolePeople) Answer(ctx context.Context, id string, said question.Reply) (question.Asked, error) {
	return v.ways.settle(ctx, id, said)
}

// Command returns a command line with the path of the state directory, which only people
// read.
func (v *consolePeople) Command(text string) string {
	return text + config.StateArgument(v.ways.state)
}

// consoleCounts answers the console's requests about numbers of calls.
type consoleCounts struct {
	*callCounts
	quotas *quotas
}

// Tenants returns the tenants of the policy and their usage.
func (v *consoleCounts) Tenants() []control.Tenant { return v.quotas.tenants() }

// consolePolicy answers the console's requests about the policy of the place of
// --workspace.
type consolePolicy struct {
	status *policyStatus
	gate   *gate
}

// maxPolicyText is the most bytes of the file of a policy that is shown.
const maxPolicyText = 1 << 20

// Status returns the name and state of the policy that is in force.
func (v *consolePolicy) Status() control.Policy { return v.status.info() }

// Now returns the policy that is in force.
func (v *consolePolicy) Now() *policies.Policy { return v.gate.now.Load() }

// Text returns the text of the file of the policy.
func (v *consolePolicy) Text() (string, error) {
	name := v.status.info().File
	switch {
	case name == config.BuiltinPolicy:
		return policies.BundledText(policies.DefaultName), nil
	case config.IsBundled(name):
		return policies.BundledText(name), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("read the policy: %w", err)
	}
	defer file.Close()
	text, err := config.ReadBounded(file, maxPolicyText)
	return string(text), err
}
