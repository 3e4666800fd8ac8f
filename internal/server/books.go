package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belljar.dev/internal/control"
	"belljar.dev/internal/job"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
)

// books contains what agents keep from one session to the next. The database is opened when
// the first of it is stored.
type books struct {
	kept  store.Config // configuration of the store, which is in memory without a state directory
	todos *todo.Book   // nil without tools; so are plans and jobs
	plans *plan.Book
	jobs  *job.Book
}

// open makes the books that tools write. ended receives each background job that has ended.
func (b *books) open(at Place, ended func(job.Job)) {
	plans, jobs := plan.Config{Config: b.kept}, job.Config{Config: b.kept, Ended: ended}
	if at.State != "" {
		// b.kept.Place is the name that a place keeps when it moves to another worker
		sum := sha256.Sum256([]byte(b.kept.Place))
		plans.Dir = filepath.Join(at.State, "plans", filepath.Base(at.Workspace)+"-"+hex.EncodeToString(sum[:4]))
		jobs.Dir = filepath.Join(at.State, "jobs")
	}
	b.todos, b.plans, b.jobs = todo.New(b.kept), plan.New(plans), job.New(jobs)
}

// sessions contains what a server needs when a session begins and when it ends.
type sessions struct {
	audit     *ledger // nil if no log is kept
	flow      *flow
	books     *books
	workspace string // workspace of the place; empty for the workspace of --workspace
	place     string // name of the place in a fleet; empty outside a fleet
	resumes   bool   // whether a session continues the plan mode of an earlier session of the tenant
	log       *slog.Logger
}

// began is called when a session opens.
func (s *sessions) began(ctx context.Context, session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("start", session, s.workspace, s.place)
	}
	s.flow.began(session)
	if !s.resumes || !s.books.kept.Store.Made() {
		return // the session continues no plan mode, or nothing was stored yet
	}
	if err := tools.Resume(ctx, s.books.plans, session); err != nil {
		s.log.Error("it is not known whether a session is in plan mode, so it can change nothing; PlanMode reset ends this state", "session", control.ShortID(session.ID()), "err", err)
	}
}

// ended is called when a session has closed.
func (s *sessions) ended(session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("end", session, s.workspace, s.place)
	}
	s.flow.ended(session)
}

// processName returns a name that no later process has: the number of the process, and the
// time of its start (proc_pid_stat(5), starttime). It returns an empty text if the process
// is gone.
func processName(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The second field is in parentheses, and may contain any characters.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return ""
	}
	return strconv.Itoa(pid) + ":" + fields[startTime]
}

// self returns the name of this process.
func self() string { return processName(os.Getpid()) }

// alive reports whether the process of a name still runs.
func alive(name string) bool {
	number, _, _ := strings.Cut(name, ":")
	pid, err := strconv.Atoi(number)
	return err == nil && pid > 0 && processName(pid) == name
}
