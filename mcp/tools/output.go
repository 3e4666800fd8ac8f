package tools

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"belljar.dev/internal/job"
	"belljar.dev/internal/printable"
	"belljar.dev/mcp"
	"belljar.dev/sandbox"
)

// maxRange is the largest result of one read of output://, in bytes: JSON may need six
// bytes for one, within a response of 10 MiB.
const maxRange = 1 << 20

// span is the part of an output that a uri requests.
type span struct {
	id     string
	offset int64 // -1: from the first byte that is kept
	length int
}

// parseOutput parses output://ID?offset=&length=.
func parseOutput(from string) (span, error) {
	s := span{offset: -1, length: maxRange}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "output" || u.Host == "" || u.Path != "" && u.Path != "/" {
		return s, fmt.Errorf("%q is not an output: want output://ID?offset=BYTES&length=BYTES", clip(from, commandShown))
	}
	s.id = u.Host
	shown := clip(s.id, commandShown)
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return s, fmt.Errorf("query of output://%s: it cannot be read: want offset=BYTES&length=BYTES", shown)
	}
	for name, values := range query {
		n, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case name != "offset" && name != "length":
			return s, fmt.Errorf("query of output://%s: %q is not known, want offset and length", shown, clip(name, commandShown))
		case err != nil || n < 0 || len(values) > 1 || name == "length" && n == 0:
			return s, fmt.Errorf("query of output://%s: %s=%q is not a number of bytes", shown, name, clip(values[0], commandShown))
		case name == "offset":
			s.offset = n
		default:
			s.length = int(min(n, maxRange))
		}
	}
	return s, nil
}

// outputResource returns the resource family of the outputs of commands, for their
// sessions.
func (s *shells) outputResource() mcp.Resource {
	return mcp.Resource{
		Template:    "output://{id}{?offset,length}",
		Name:        "output",
		Title:       "Outputs of commands",
		Description: "What a command of this session wrote, from a byte offset on, at most 1 MiB at a time.",
		MIME:        "text/plain",
		List: func(ctx context.Context, session *mcp.Session) ([]mcp.Entry, error) {
			entries, err := s.entries(ctx, session)
			var all []mcp.Entry
			for _, e := range entries {
				all = append(all, mcp.Entry{
					URI: e.OutputURI, Name: fmt.Sprintf("output of task %d", e.TaskID), Title: e.Description,
					Description: oneLine(e.Command), MIME: "text/plain", Size: e.OutputBytes,
				})
			}
			return all, err
		},
		Complete: func(ctx context.Context, session *mcp.Session, variable, typed string) ([]string, error) {
			if variable != "id" {
				return nil, nil
			}
			entries, err := s.entries(ctx, session)
			ids := make([]string, 0, len(entries))
			for _, e := range entries {
				ids = append(ids, strings.TrimPrefix(e.OutputURI, "output://"))
			}
			return mcp.Completed(ids, typed), err
		},
		Read: func(ctx context.Context, session *mcp.Session, from string) ([]byte, string, error) {
			want, err := parseOutput(from)
			if err != nil {
				return nil, "", err
			}
			o, done, err := s.outputOf(ctx, session, want.id)
			if err != nil {
				return nil, "", err
			}
			defer done()
			text, err := want.read(o)
			if errors.Is(err, sandbox.ErrClosed) {
				return nil, "", fmt.Errorf("output://%s is no longer kept", want.id)
			}
			return text, "text/plain", err
		},
	}
}

// outputOf returns an output that a session may read: the output of a command in its box,
// or of a job. The caller calls done.
func (s *shells) outputOf(ctx context.Context, session *mcp.Session, id string) (from source, done func(), err error) {
	for _, sh := range s.all(session) {
		if box, ok := sh.current(); ok {
			if o, ok := box.Output(id); ok {
				return o, func() {}, nil
			}
		}
	}
	if s.backends.Jobs != nil {
		j, err := s.backends.Jobs.ByOutput(ctx, owner(session), id)
		if err == nil {
			return s.output(task{Job: j})
		}
		if !errors.Is(err, job.ErrUnknown) {
			return nil, nil, err
		}
	}
	// The error is the same for an output of another session, so that it does not reveal
	// whether the id exists.
	return nil, nil, fmt.Errorf("output://%s: %w: only the output of this session's background tasks and last 64 commands can be read", clip(id, commandShown), mcp.ErrNotFound)
}

// read returns the bytes of the span. They end between two characters, so that the next
// range begins with a whole character.
func (s span) read(o source) ([]byte, error) {
	text, next, lost, err := o.Read(max(s.offset, 0), s.length)
	if err != nil {
		return nil, err
	}
	if lost > 0 && s.offset >= 0 {
		return nil, fmt.Errorf("output://%s: bytes %d to %d are no longer kept; read from offset=%d", s.id, s.offset, s.offset+lost-1, s.offset+lost)
	}
	if next < o.Size() {
		text = printable.TrimEnd(text)
	}
	return text, nil
}
