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

// books are what agents keep from one session to the next. Nothing is opened before the
// first of it.
type books struct {
	kept  store.Config // in memory without a state directory
	todos *todo.Book   // nil without tools, as are the next two
	plans *plan.Book
	jobs  *job.Book
}

// open makes the books that tools write. ended gets each background job that has ended.
func (b *books) open(at Place, ended func(job.Job)) {
	plans, jobs := plan.Config{Config: b.kept}, job.Config{Config: b.kept, Ended: ended}
	if at.State != "" {
		sum := sha256.Sum256([]byte(b.kept.Place)) // a place takes its name along to another worker
		plans.Dir = filepath.Join(at.State, "plans", filepath.Base(at.Workspace)+"-"+hex.EncodeToString(sum[:4]))
		jobs.Dir = filepath.Join(at.State, "jobs")
	}
	b.todos, b.plans, b.jobs = todo.New(b.kept), plan.New(plans), job.New(jobs)
}

// sessions is what a server does when a session begins and when it ends.
type sessions struct {
	audit     *ledger // nil where no log is kept
	flow      *flow
	books     *books
	workspace string // of the place; empty for that of --workspace
	place     string // its name in a fleet; empty elsewhere
	resumes   bool   // a session goes on with what an earlier one of the tenant planned
	log       *slog.Logger
}

// began is called when a session opens.
func (s *sessions) began(ctx context.Context, session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("start", session, s.workspace, s.place)
	}
	s.flow.began(session)
	if !s.resumes || !s.books.kept.Store.Made() {
		return // it does not go on with an earlier session, or nothing was planned yet
	}
	if err := tools.Resume(ctx, s.books.plans, session); err != nil {
		s.log.Error("what a session plans is not known, so it can change nothing; PlanMode reset ends that", "session", control.ShortID(session.ID()), "err", err)
	}
}

// ended is called when a session has closed.
func (s *sessions) ended(session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("end", session, s.workspace, s.place)
	}
	s.flow.ended(session)
}

// processName is a name of a process that no later one has: its number, and when
// it began (proc_pid_stat(5), starttime). It is empty for one that is gone.
func processName(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The second field is in parentheses and may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return ""
	}
	return strconv.Itoa(pid) + ":" + fields[startTime]
}

// self is the name of this process.
func self() string { return processName(os.Getpid()) }

// alive reports whether a process still runs.
func alive(name string) bool {
	number, _, _ := strings.Cut(name, ":")
	pid, err := strconv.Atoi(number)
	return err == nil && pid > 0 && processName(pid) == name
}
