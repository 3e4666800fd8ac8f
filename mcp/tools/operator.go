package tools

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Operator shows the operator of a server the background tasks of its agents, and ends
// tasks. Its methods are safe for concurrent use.
type Operator struct{ shells *shells }

// JobInfo describes a background task that runs or has ended.
type JobInfo struct {
	ID          int64     `json:"task_id"` // unique for its tenant, in the server's workspace
	Tenant      string    `json:"tenant"`
	Session     string    `json:"session"`
	Box         string    `json:"box"`
	Tool        string    `json:"tool"`
	Command     string    `json:"command"`
	Description string    `json:"description,omitempty"`
	Started     time.Time `json:"started"`
	Status      string    `json:"status,omitempty"`    // how the task ended; empty while it runs
	Code        *int      `json:"exit_code,omitempty"` // exit code of a task that has ended
}

// theOperator is the name that agents read for the person who ended a task.
const theOperator = "the operator of this server"

// Jobs returns the running tasks in boxes of this server, the oldest first.
func (o *Operator) Jobs() []JobInfo {
	all := []JobInfo{}
	for _, r := range o.running() {
		all = append(all, r.info())
	}
	return all
}

// Recent returns the running tasks, and the ended tasks whose boxes still exist, the oldest
// first.
func (o *Operator) Recent() []JobInfo {
	all := []JobInfo{}
	for _, r := range o.recent() {
		all = append(all, r.info())
	}
	return all
}

// OutputPart is a part of the output of a background task.
type OutputPart struct {
	Text    []byte
	Next    int64 // offset after Text
	Total   int64 // number of bytes that the task has written
	Skipped int64 // number of requested bytes before Text that are no longer kept
	Over    bool  // the task has ended
}

// Output reads output, from the offset from on, of the first task for which the function
// which returns true; most is the largest number of bytes. found is false if there is no
// such task.
func (o *Operator) Output(which func(JobInfo) bool, from int64, most int) (part OutputPart, found bool, err error) {
	for _, r := range o.recent() {
		if !which(r.info()) {
			continue
		}
		out := r.cmd.Output()
		part.Over = r.ended() // checked before the size is read: an ended task writes no more
		part.Total, part.Next = out.Size(), from
		for len(part.Text) < most {
			text, next, skipped, err := out.Read(part.Next, most-len(part.Text))
			if err != nil {
				return part, true, fmt.Errorf("read the output of task %d: %w", r.kept.ID, err)
			}
			if part.Skipped += skipped; skipped > 0 {
				part.Text = nil // the text before and after the missing bytes must not be joined
			}
			part.Text, part.Next = append(part.Text, text...), next
			if len(text) == 0 {
				break
			}
		}
		return part, true, nil
	}
	return part, false, nil
}

// End kills the tasks for which the function which returns true, with all processes that
// they have started. It returns these tasks when their ends are on the disk. grace is the
// time between SIGTERM and SIGKILL.
func (o *Operator) End(which func(JobInfo) bool, grace time.Duration) []JobInfo {
	ended := []JobInfo{}
	var ending sync.WaitGroup // the tasks end at the same time, since each may use the whole grace
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

// running returns the jobs that have not ended.
func (o *Operator) running() []*running {
	return slices.DeleteFunc(o.recent(), (*running).ended)
}

// recent returns the jobs of all boxes, the oldest first.
func (o *Operator) recent() (all []*running) {
	for _, sh := range o.shells.every() {
		sh.mu.Lock()
		all = slices.AppendSeq(all, maps.Values(sh.jobs))
		sh.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *running) int {
		return cmp.Or(a.kept.Started.Compare(b.kept.Started), strings.Compare(a.kept.Handle, b.kept.Handle))
	})
	return all
}

// every returns the shells of all sessions.
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
	i := JobInfo{
		ID: j.ID, Tenant: j.Owner.Tenant, Session: j.Owner.Session, Box: r.box, Tool: j.Tool,
		Command: j.Command, Description: j.Description, Started: j.Started,
	}
	if r.ended() {
		i.Status, i.Code = string(r.last.Status), r.last.End.Code
	}
	return i
}
