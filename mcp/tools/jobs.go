package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar.dev/mcp"
)

// jobRecord is a background job in the form of a resource: its entry in ListBgTasks, and
// the end of its output.
type jobRecord struct {
	listEntry
	Output string `json:"output"`
}

// listEntry is one background job.
type listEntry struct {
	TaskID          int64  `json:"task_id"`
	Status          string `json:"status" jsonschema:"running, exited, killed, timed_out, oom or lost"`
	ExitCode        *int   `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	Command         string `json:"command"`
	Description     string `json:"description,omitempty"`
	StartedAt       string `json:"started_at" jsonschema:"RFC 3339"`
	RuntimeMS       int64  `json:"runtime_ms"`
	CPUMS           int64  `json:"cpu_ms"`
	PeakMemoryBytes int64  `json:"peak_memory_bytes"`
	OutputBytes     int64  `json:"output_bytes"`
	UnreadBytes     int64  `json:"unread_bytes"`
	OutputURI       string `json:"output_uri"`

	Reverted []string `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
}

// commandShown bounds the length of a command in a list, in characters.
const commandShown = 200

// entry returns a job in the form for lists.
func (t task) entry() listEntry {
	now, size := t.look(), t.size()
	return listEntry{
		TaskID:          t.ID,
		Status:          string(now.status),
		ExitCode:        now.code,
		Command:         clip(t.Command, commandShown),
		Description:     t.Description,
		StartedAt:       t.Started.UTC().Format(time.RFC3339),
		RuntimeMS:       now.runtime.Milliseconds(),
		CPUMS:           now.usage.CPU.Milliseconds(),
		PeakMemoryBytes: now.usage.PeakMemory,
		OutputBytes:     size,
		UnreadBytes:     size - min(t.Cursor, size),
		OutputURI:       outputURI(t.Output),
		Reverted:        now.reverted,
	}
}

// jobTail is how many bytes of the output a record shows.
const jobTail = 8 << 10

const jobScheme = "job://"

// jobResource returns the resource family of the session's background jobs. Reading a job's
// resource does not count as reading its output.
func (s *shells) jobResource() mcp.Resource {
	return mcp.Resource{
		Template:    jobScheme + "{task_id}",
		Name:        "job",
		Title:       "Background tasks",
		Description: "The state of a background task of this session, and the end of its output. A client that subscribes is notified when the task writes or ends.",
		MIME:        "application/json",
		Read: func(ctx context.Context, session *mcp.Session, uri string) ([]byte, string, error) {
			id, err := strconv.ParseInt(strings.TrimPrefix(uri, jobScheme), 10, 64)
			if err != nil {
				return nil, "", fmt.Errorf("%w: %q does not end with the number of a background task", mcp.ErrNotFound, clip(uri, uriShown))
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

// entries returns the jobs that a session sees, oldest first.
func (s *shells) entries(ctx context.Context, session *mcp.Session) ([]listEntry, error) {
	tasks, _, err := s.jobs(ctx, session)
	all := make([]listEntry, 0, len(tasks))
	for _, t := range tasks {
		all = append(all, t.entry())
	}
	return all, err
}

// jobIDs returns the numbers of the jobs that a session sees, the newest first.
func (s *shells) jobIDs(ctx context.Context, session *mcp.Session) ([]string, error) {
	all, err := s.entries(ctx, session)
	ids := make([]string, 0, len(all))
	for _, e := range slices.Backward(all) {
		ids = append(ids, strconv.FormatInt(e.TaskID, 10))
	}
	return ids, err
}
