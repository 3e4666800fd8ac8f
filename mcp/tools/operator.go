package tools

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Operator shows the operator of a server what its agents run in the background, and
// ends it. Its methods are safe for concurrent use.
type Operator struct{ shells *shells }

// JobInfo is a background task that runs.
type JobInfo struct {
	ID          int64     `json:"task_id"` // of its tenant, in the server's workspace
	Tenant      string    `json:"tenant"`
	Session     string    `json:"session"`
	Box         string    `json:"box"`
	Tool        string    `json:"tool"`
	Command     string    `json:"command"`
	Description string    `json:"description,omitempty"`
	Started     time.Time `json:"started"`
}

// theOperator is the name that agents read for the person who ended a task.
const theOperator = "the operator of this server"

// Jobs are those that run in boxes of this server, the oldest first.
func (o *Operator) Jobs() []JobInfo {
	all := []JobInfo{}
	for _, r := range o.running() {
		all = append(all, r.info())
	}
	return all
}

// End kills the tasks that which chooses, with all they have started, and returns
// them when their ends are on the disk. grace is the time between SIGTERM and SIGKILL.
func (o *Operator) End(which func(JobInfo) bool, grace time.Duration) []JobInfo {
	ended := []JobInfo{}
	var ending sync.WaitGroup // together: each may take the whole grace
	for _, r := range o.running() {
		if !which(r.info()) {
			continue
		}
		ended = append(ended, r.info())
		ending.Go(func() {
			r.byOperator.Store(true)
			r.cmd.Kill(grace)
			<-r.over
		})
	}
	ending.Wait()
	return ended
}

// running are the jobs that have not ended.
func (o *Operator) running() (all []*running) {
	for _, sh := range o.shells.every() {
		sh.mu.Lock()
		for _, r := range sh.jobs {
			if !r.ended() {
				all = append(all, r)
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *running) int {
		return cmp.Or(a.kept.Started.Compare(b.kept.Started), strings.Compare(a.kept.Handle, b.kept.Handle))
	})
	return all
}

// every are the shells of all sessions.
func (s *shells) every() (all []*shell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.open {
		all = append(all, of...)
	}
	return all
}

func (r *running) info() JobInfo {
	j := r.kept
	return JobInfo{
		ID: j.ID, Tenant: j.Owner.Tenant, Session: j.Owner.Session, Box: r.box, Tool: j.Tool,
		Command: j.Command, Description: j.Description, Started: j.Started,
	}
}
