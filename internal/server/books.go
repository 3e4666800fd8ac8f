package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belljar.dev/internal/control"
	"belljar.dev/internal/job"
	"belljar.dev/internal/plan"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
)

// openPlans is the book of plans of the workspace. Nothing is opened before the
// first of them.
func (s *Server) openPlans() *plan.Book {
	cfg := plan.Config{Config: s.kept}
	if s.State != "" {
		sum := sha256.Sum256([]byte(s.Workspace))
		cfg.Dir = filepath.Join(s.State, "plans", filepath.Base(s.Workspace)+"-"+hex.EncodeToString(sum[:4]))
	}
	return plan.New(cfg)
}

// openJobs is the book of what goes on in the background in the workspace.
// Nothing is opened before the first of it.
func (s *Server) openJobs() *job.Book {
	cfg := job.Config{Config: s.kept, Ended: s.flow.jobEnded}
	if s.State != "" {
		cfg.Dir = filepath.Join(s.State, "jobs")
	}
	return job.New(cfg)
}

// began is called when a session opens.
func (s *Server) began(ctx context.Context, session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("start", session)
	}
	s.flow.began(session)
	if s.cfg.Service == nil || s.plans == nil || !s.kept.Store.Made() {
		return // it does not go on with an earlier session, or nothing was planned yet
	}
	if err := tools.Resume(ctx, s.plans, session); err != nil {
		s.Log.Error("what a session plans is not known, so it can change nothing; PlanMode reset ends that", "session", control.ShortID(session.ID()), "err", err)
	}
}

// ended is called when a session has closed.
func (s *Server) ended(session *mcp.Session) {
	if s.audit != nil {
		s.audit.session("end", session)
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

// alive reports whether a process still runs.
func alive(name string) bool {
	number, _, _ := strings.Cut(name, ":")
	pid, err := strconv.Atoi(number)
	return err == nil && pid > 0 && processName(pid) == name
}
