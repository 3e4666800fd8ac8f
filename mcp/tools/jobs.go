package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"belljar.dev/mcp"
	"belljar.dev/sandbox"
)

// jobRecord is a background job as a resource: what ListBgTasks says of it, and
// the end of its output.
type jobRecord struct {
	listEntry
	Output string `json:"output"`
}

// jobTail is how much of the output a record shows, in bytes.
const jobTail = 8 << 10

const jobScheme = "job://"

// jobResource is the session's background jobs. Reading one does not count as
// reading its output.
func (s *shells) jobResource() mcp.Resource {
	return mcp.Resource{
		Template:    jobScheme + "{task_id}",
		Name:        "job",
		Title:       "Background tasks",
		Description: "How a background task of this session stands, and the end of its output. A client that subscribes hears when it writes or ends.",
		MIME:        "application/json",
		Read: func(_ context.Context, session *mcp.Session, uri string) ([]byte, string, error) {
			id, err := strconv.ParseInt(strings.TrimPrefix(uri, jobScheme), 10, 64)
			if err != nil {
				return nil, "", fmt.Errorf("%w: %q names no background task by its number", mcp.ErrNotFound, clip(uri, uriShown))
			}
			sh, job, unknown := s.find(session, id)
			if unknown != nil {
				return nil, "", fmt.Errorf("%w: %s", mcp.ErrNotFound, unknown.Content[0].Text)
			}
			text, _, _, err := job.Output().Read(max(0, job.Output().Size()-jobTail), jobTail)
			if err != nil {
				return nil, "", err
			}
			record, err := json.Marshal(jobRecord{sh.entry(job), valid(text)})
			return record, "", err
		},
		List: func(_ context.Context, session *mcp.Session) ([]mcp.Entry, error) {
			var all []mcp.Entry
			for _, e := range s.entries(session) {
				all = append(all, mcp.Entry{
					URI: jobURI(e.TaskID), Name: fmt.Sprintf("task %d", e.TaskID), Title: e.Description,
					Description: e.Status + ": " + oneLine(e.Command), MIME: "application/json",
				})
			}
			return all, nil
		},
		Complete: func(_ context.Context, session *mcp.Session, _, typed string) ([]string, error) {
			return mcp.Completed(s.jobIDs(session), typed), nil
		},
	}
}

func jobURI(id int64) string { return jobScheme + strconv.FormatInt(id, 10) }

// entries are the session's jobs, oldest first.
func (s *shells) entries(session *mcp.Session) []listEntry {
	sh, ok := s.known(session)
	if !ok {
		return nil
	}
	var all []listEntry
	for _, job := range sh.jobs() {
		all = append(all, sh.entry(job))
	}
	return all
}

// jobIDs are the numbers of the session's jobs, the newest first.
func (s *shells) jobIDs(session *mcp.Session) []string {
	all := s.entries(session)
	ids := make([]string, 0, len(all))
	for i := range all {
		ids = append(ids, strconv.FormatInt(all[len(all)-1-i].TaskID, 10))
	}
	return ids
}

// newsEvery is how often a client is told at most that a job has written.
const newsEvery = time.Second

// report tells clients that have subscribed to a job or its output when it
// writes and when it ends, until then or until the session ends.
func (sh *shell) report(session *mcp.Session, job *sandbox.Job) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.ended {
		return // whoever ends the shell may have waited already
	}
	sh.reports.Go(func() {
		told := int64(-1)
		for ended := false; !ended; {
			select {
			case <-session.Done():
				return
			case <-job.Done():
				ended = true
			case <-time.After(newsEvery):
			}
			if size := job.Output().Size(); size != told || ended {
				told = size
				session.Updated(jobURI(job.ID()))
				session.Updated(uri(job.Output()))
			}
		}
	})
}
