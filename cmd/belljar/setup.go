package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"belljar.dev/internal/buildinfo"
	"belljar.dev/internal/config"
	"belljar.dev/internal/hostexec"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/store"
	"belljar.dev/internal/work/job"
	"belljar.dev/internal/work/plan"
	"belljar.dev/internal/work/todo"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
	"belljar.dev/sandbox"
	"belljar.dev/search"
)

// setup is the flags that serve, call and run share.
type setup struct {
	workspace string
	policy    string
	state     string
	mode      workspaceMode
	command   string // that keeps an audit log; empty for one that keeps none
	calls     bool   // a checkpoint after each call
	tenant    string // whose calls those over stdio and of `call` and `run` are
	http      bool   // clients come over HTTP
	hostEnv   []string
	logs      logging // of a server; other commands log warnings

	structured bool // results for every client, beside the texts
	trust      bool // clients answer questions without a person
}

// localTenant is whose calls those of a person at this machine are.
const localTenant = policies.LocalTenant

func (s *setup) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.workspace, "workspace", ".", "`directory` the boxes see as /workspace")
	c.Flags().StringVar(&s.state, "state", "", "`directory` for what outlives the program (default: $XDG_STATE_HOME/belljar)")
	c.Flags().StringVar(&s.policy, "policy", "", "policy `file`, or a bundled one by its name, which \"belljar policy list\" prints (default: $XDG_CONFIG_HOME/belljar/policy.yaml, else the built-in default)")
	c.Flags().StringArrayVar(&s.hostEnv, "host-env", nil, "`name` of a variable that programs outside boxes (commands of secrets, trusted hooks) get too; again for more")
}

// works is what a command works with.
type works struct {
	workspace  string           // absolute, without symbolic links
	policyName string           // for people
	policy     *policies.Policy // as it was at the start
	tenant     string           // whose calls are those that come without a token
	http       bool             // clients come over HTTP
	structured bool             // results for every client, beside the texts
	trust      bool             // clients answer questions without a person
	hostEnv    []string         // further variables of programs outside boxes
	gate       *gate            // the policy that holds
	state      string           // directory for what outlives the program; empty where none can be found
	calls      bool             // a checkpoint after each call
	goesOn     bool             // a session may go on with what one before it planned
	sandbox    *sandbox.Supervisor
	search     *search.Fan
	reading    reading
	audit      *ledger      // nil where no log is kept
	store      *store.Store // the state that outlives the program; in memory without a state directory
	plans      *plan.Book
	jobs       *job.Book
	operator   *tools.Operator
	approver   *approver // nil where nobody is asked
	tracer     *tracer   // nil where no call is traced
	flow       flow
	log        *slog.Logger
}

// close ends the boxes and then the log of what they did.
func (w *works) close() {
	w.flow.close() // hooks run in boxes, and are audited
	if err := w.search.Close(); err != nil {
		w.log.Error("what was learned of search engines is lost", "err", err)
	}
	if err := w.reading.close(); err != nil {
		w.log.Error("what pages are read with did not end in order", "err", err)
	}
	w.sandbox.Close()
	if err := w.audit.close(); err != nil {
		w.log.Error("the end of the audit log was not written", "err", err)
	}
	if err := w.store.Close(); err != nil {
		w.log.Error("the state was not closed", "err", err)
	}
}

// open checks the workspace, reads the policy, opens the audit log and starts
// the supervisor. The caller closes the works.
func (s *setup) open(ctx context.Context, errs io.Writer) (*works, error) {
	w := &works{
		calls: s.calls, goesOn: s.command == serveName, tenant: cmp.Or(s.tenant, localTenant), http: s.http,
		structured: s.structured, trust: s.trust, hostEnv: s.hostEnv,
	}
	var err error
	if w.log, err = s.logs.logger(errs, s.http); err != nil {
		return nil, err
	}
	for _, name := range w.hostEnv {
		if err := hostexec.CheckPass(name); err != nil {
			return nil, usage("--host-env: %w", err)
		}
	}
	if w.workspace, err = config.FindWorkspace(s.workspace); err != nil {
		return nil, failure(err)
	}
	if w.policyName, w.policy, err = config.FindPolicy(s.policy, w.workspace); err != nil {
		return nil, failure(err)
	}
	w.gate = &gate{mode: s.mode}
	w.gate.now.Store(w.policy)
	if err := w.openTenants(ctx, s.http); err != nil {
		return nil, failure(err)
	}
	if err := w.openState(s.state); err != nil {
		return nil, failure(err)
	}
	w.store = store.New(w.state)
	if w.audit, err = w.openLedger(s.command); err != nil {
		return nil, failure(err)
	}
	w.openSkills()
	spool, err := w.spool()
	if err != nil {
		return nil, failure(err)
	}
	cfg := sandbox.Config{Workspace: w.workspace, State: w.state, Spool: spool, Shared: w.flow.shared, Checkpoints: s.calls, Secret: w.secret, Log: w.log}
	if w.audit != nil {
		cfg.Egress = w.audit.egress
	}
	w.sandbox, err = sandbox.New(cfg)
	if err != nil {
		_ = w.audit.close() // which has nothing to tell
		return nil, failure(fmt.Errorf("open the sandbox: %w; `belljar doctor` says what this host lacks and how to fix it", err))
	}
	if err := w.openReading(); err != nil {
		w.sandbox.Close()
		_ = w.audit.close() // as above
		return nil, failure(err)
	}
	if err := w.openSearch(); err != nil { // which reads with the browsers, too
		_ = w.reading.close()
		w.sandbox.Close()
		_ = w.audit.close() // as above
		return nil, failure(err)
	}
	return w, nil
}

// spool is the directory for what boxes store and print while they run: that of
// temporary files, unless an agent works there. It would see what other boxes
// store.
func (w *works) spool() (string, error) {
	dir := os.TempDir()
	err := w.boxes().Check(dir)
	if err == nil {
		return dir, nil
	}
	if dir = "/tmp"; w.boxes().Check(dir) != nil {
		return "", fmt.Errorf("TMPDIR: %w; name another directory", err)
	}
	w.log.Warn("temporary files go into /tmp and not into TMPDIR", "err", err)
	return dir, nil
}

// openState finds the directory for what outlives the program; name is what the
// command line says. No box may see it: what it holds is believed, and its
// sockets answer whoever reaches them, through a read-only mount as well. The
// user's own one is done without where it cannot be used.
func (w *works) openState(name string) error {
	state, err := config.FindState(name)
	if err == nil {
		err = config.Unseen(state, w.workspace, w.policy)
	}
	if err == nil {
		err = config.Writable(state)
	}
	switch {
	case err == nil:
		w.state = state
	case name != "":
		return err
	case state != "":
		w.log.Warn("nothing is kept beyond the end of this program; name another directory with --state", "err", err)
	}
	return nil
}

// secret is the value of a secret of the policy that holds.
func (w *works) secret(ctx context.Context, name string) (string, error) {
	s, ok := w.gate.now.Load().Secret(name)
	if !ok {
		return "", fmt.Errorf("secret %s: the policy has none of that name", name)
	}
	value, err := config.ReadSecret(ctx, name, s, w.hostProgram())
	if err == nil && w.audit != nil {
		w.audit.log.Hide(name, value)
	}
	return value, err
}

// server is an MCP server with all tools.
func (w *works) server() (*mcp.Server, error) {
	cfg := mcp.Config{
		Name:         "belljar",
		Version:      buildinfo.Version(),
		Instructions: "A shell in a sandbox. /workspace is the project; the network is closed, except for what the policy opens. A refusal says why and what to do instead.",
		Gate:         w.gate,
		Tenant:       w.tenant,
		Tenants:      w.gate,
		Redact:       audit.Clean,
		Suite:        suite(),
		Structured:   w.structured,
		TrustClients: w.trust,
		Log:          w.log,
	}
	if w.audit != nil {
		cfg.Audit = w.audit
	}
	cfg.OnSessionEnd = func(s *mcp.Session) {
		if w.audit != nil {
			w.audit.session("end", s)
		}
		w.flow.ended(s)
	}
	if w.flow.around != nil {
		cfg.Around = w.flow.around
	}
	cfg.OnSession = w.began
	if w.approver != nil {
		cfg.Approver = w.approver
	}
	if w.tracer != nil {
		cfg.Trace = w.tracer
	}
	s, err := mcp.New(cfg)
	if err != nil {
		return nil, failure(fmt.Errorf("start the server: %w", err))
	}
	backends := tools.Backends{
		Sandbox: w.sandbox, Search: w.search, Reader: w.reading.reader, Browser: w.reading.chrome, Checkpoints: w.calls, Log: w.log,
		Place: w.workspace, Todos: todo.New(w.store, nil), Made: w.store.Made, CheckCommands: approval.CheckCommands,
	}
	if w.plans, err = w.openPlans(); err != nil {
		return nil, failure(err)
	}
	backends.Plans = w.plans
	backends.Skills, backends.Callbacks, backends.Aside = w.flow.skills, w.flow.callbacks, w.flow.aside
	if backends.Jobs, err = w.openJobs(); err != nil {
		return nil, failure(err)
	}
	w.jobs = backends.Jobs
	if w.audit != nil {
		backends.Record = w.audit.record
	}
	if w.approver != nil {
		backends.Approvals = w.approver
		backends.Questions = asker{w.approver.questions, w.approver}
	}
	w.operator = tools.Add(s, backends)
	return s, nil
}
