package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belljar.dev/internal/control"
	"belljar.dev/internal/work/job"
	"belljar.dev/internal/work/plan"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
)

// openPlans is the book of plans of the workspace. Nothing is opened before the
// first of them.
func (w *works) openPlans() (*plan.Book, error) {
	cfg := plan.Config{Store: w.store, Place: w.workspace, Self: processName(os.Getpid()), Alive: alive}
	if w.state != "" {
		sum := sha256.Sum256([]byte(w.workspace))
		cfg.Dir = filepath.Join(w.state, "plans", filepath.Base(w.workspace)+"-"+hex.EncodeToString(sum[:4]))
	}
	return plan.New(cfg)
}

// openJobs is the book of what goes on in the background in the workspace.
// Nothing is opened before the first of it.
func (w *works) openJobs() (*job.Book, error) {
	cfg := job.Config{Store: w.store, Place: w.workspace, Self: processName(os.Getpid()), Alive: alive, Ended: w.flow.jobEnded, Log: w.log}
	if w.state != "" {
		cfg.Dir = filepath.Join(w.state, "jobs")
	}
	return job.New(cfg)
}

// began is called when a session opens.
func (w *works) began(ctx context.Context, s *mcp.Session) {
	if w.audit != nil {
		w.audit.session("start", s)
	}
	w.flow.began(s)
	if !w.goesOn || w.plans == nil || !w.store.Made() {
		return // it does not go on with an earlier session, or nothing was planned yet
	}
	if err := tools.Resume(ctx, w.plans, s); err != nil {
		w.log.Error("what a session plans is not known, so it can change nothing; PlanMode reset ends that", "session", control.ShortID(s.ID()), "err", err)
	}
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
