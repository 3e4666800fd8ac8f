package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/mcp"
)

// jobRecord is a background job as a resource: its entry in ListBgTasks, and the end
// of its output.
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
		Read: func(ctx context.Context, session *mcp.Session, uri string) ([]byte, string, error) {
			id, err := strconv.ParseInt(strings.TrimPrefix(uri, jobScheme), 10, 64)
			if err != nil {
				return nil, "", fmt.Errorf("%w: %q names no background task by its number", mcp.ErrNotFound, clip(uri, uriShown))
			}
			t, unknown, err := s.find(ctx, session, id)
			if err != nil {
				return nil, "", err
			}
			if unknown != nil {
				return nil, "", fmt.Errorf("%w: %s", mcp.ErrNotFound, unknown.Content[0].Text)
			}
			entry := t.entry()
			from, done, err := s.output(t)
			if err != nil {
				return nil, "", err
			}
			defer done()
			text, _, _, err := from.Read(max(0, from.Size()-jobTail), jobTail)
			if err != nil {
				return nil, "", err
			}
			record, err := json.Marshal(jobRecord{entry, valid(text)})
			return record, "", err
		},
		List: func(ctx context.Context, session *mcp.Session) ([]mcp.Entry, error) {
			entries, err := s.entries(ctx, session)
			var all []mcp.Entry
			for _, e := range entries {
				all = append(all, mcp.Entry{
					URI: jobURI(e.TaskID), Name: fmt.Sprintf("task %d", e.TaskID), Title: e.Description,
					Description: e.Status + ": " + oneLine(e.Command), MIME: "application/json",
				})
			}
			return all, err
		},
		Complete: func(ctx context.Context, session *mcp.Session, _, typed string) ([]string, error) {
			ids, err := s.jobIDs(ctx, session)
			return mcp.Completed(ids, typed), err
		},
	}
}

func jobURI(id int64) string { return jobScheme + strconv.FormatInt(id, 10) }

// entries are the jobs that a session sees, oldest first.
func (s *shells) entries(ctx context.Context, session *mcp.Session) ([]listEntry, error) {
	tasks, _, err := s.jobs(ctx, session)
	all := make([]listEntry, 0, len(tasks))
	for _, t := range tasks {
		all = append(all, t.entry())
	}
	return all, err
}

// jobIDs returns the numbers of these jobs, the newest first.
func (s *shells) jobIDs(ctx context.Context, session *mcp.Session) ([]string, error) {
	all, err := s.entries(ctx, session)
	ids := make([]string, 0, len(all))
	for _, e := range slices.Backward(all) {
		ids = append(ids, strconv.FormatInt(e.TaskID, 10))
	}
	return ids, err
}
