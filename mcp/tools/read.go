package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

const (
	readWaitMost = time.Minute
	tailMost     = 10_000
	filterMost   = 1000     // most bytes of a filter's pattern
	lineMost     = 16 << 10 // bytes; a longer line is read in pieces of this size
	readPiece    = 64 << 10
)

// readInput is the arguments of ReadBgOutput.
type readInput struct {
	TaskID    *int64 `json:"task_id,omitempty" jsonschema:"as BackgroundBash returned it"`
	ID        string `json:"id,omitempty" jsonschema:"id of an approval, in place of task_id"`
	WaitMS    int64  `json:"wait_ms,omitempty" jsonschema:"milliseconds to wait for news (default 0, at most 60000)"`
	Filter    string `json:"filter,omitempty" jsonschema:"show only lines that match (RE2)"`
	TailLines int64  `json:"tail_lines,omitempty" jsonschema:"show only the last new lines"`
	Offset    *int64 `json:"offset,omitempty" jsonschema:"read again from this byte"`
}

// Facts returns no facts: the tool names only tasks of its own session.
func (readInput) Facts() policies.Facts { return policies.Facts{} }

// readOutput is the structured result of ReadBgOutput.
type readOutput struct {
	TaskID       int64    `json:"task_id"`
	Status       string   `json:"status" jsonschema:"running, exited, killed, timed_out, oom or lost"`
	ExitCode     *int     `json:"exit_code,omitempty" jsonschema:"absent while the command runs"`
	Signal       string   `json:"signal,omitempty"`
	TimedOut     bool     `json:"timed_out"`
	OOM          bool     `json:"oom"`
	DurationMS   int64    `json:"duration_ms"`
	Output       string   `json:"output"`
	NextOffset   int64    `json:"next_offset" jsonschema:"offset of the next read"`
	SkippedBytes int64    `json:"skipped_bytes" jsonschema:"bytes before next_offset that were not shown: no longer kept, filtered, or before the tail"`
	UnreadBytes  int64    `json:"unread_bytes" jsonschema:"bytes that wait for the next read"`
	Reverted     []string `json:"reverted,omitempty" jsonschema:"changes to protected paths of the workspace that were taken back"`
	Blocked      []string `json:"blocked,omitempty" jsonschema:"network access that was refused while the task ran, and why"`
	Stopped      []string `json:"stopped,omitempty" jsonschema:"programs that the policy did not let start, and why"`
	OutputURI    string   `json:"output_uri" jsonschema:"resource with the full output; takes ?offset=&length="`

	Approval *approvalOutput `json:"approval,omitempty" jsonschema:"state of an approval; then there are no other members"`

	starts starts
}

// Usage returns for the audit log what the job started since its last report.
func (out readOutput) Usage() mcp.Usage {
	return out.starts.add(mcp.Usage{
		Exit: out.ExitCode, Signal: out.Signal, OOM: out.OOM, TimedOut: out.TimedOut, TaskID: out.TaskID, Output: int64(len(out.Output)),
	})
}

// reading describes what to read of a job's output.
type reading struct {
	filter *regexp.Regexp // nil: every line
	tail   int            // number of last lines; 0: every line
	show   int            // most bytes of text to show
}

func (in readInput) check() (r reading, wait time.Duration, err error) {
	r.show = outputShown
	switch {
	case in.TaskID == nil && in.ID == "":
		return r, 0, errors.New("task_id: it is missing; give the task_id of a background task, or the id of an approval")
	case in.TaskID != nil && in.ID != "":
		return r, 0, errors.New("id: got task_id too; give one of them")
	case in.WaitMS < 0 || in.WaitMS > readWaitMost.Milliseconds():
		return r, 0, fmt.Errorf("wait_ms: got %d, want 0 to %d milliseconds", in.WaitMS, readWaitMost.Milliseconds())
	case in.TailLines < 0 || in.TailLines > tailMost:
		return r, 0, fmt.Errorf("tail_lines: got %d, want 1 to %d", in.TailLines, tailMost)
	case in.Offset != nil && *in.Offset < 0:
		return r, 0, fmt.Errorf("offset: got %d, want 0 or more bytes", *in.Offset)
	case len(in.Filter) > filterMost:
		return r, 0, fmt.Errorf("filter: got %d bytes, want at most %d", len(in.Filter), filterMost)
	case in.Filter != "":
		if r.filter, err = regexp.Compile(in.Filter); err != nil {
			return r, 0, fmt.Errorf("filter: %w; the syntax is RE2, which has no look-around and no back-references", err)
		}
	}
	r.tail = int(in.TailLines)
	return r, time.Duration(in.WaitMS) * time.Millisecond, nil
}

// readOutput shows the output that a background job wrote since the session's last read.
func (s *shells) readOutput(ctx context.Context, call mcp.Call, in readInput) (*mcp.Result, error) {
	r, wait, err := in.check()
	if err != nil {
		return mcp.Failed("%s.", err), nil
	}
	if in.ID != "" {
		return s.readApproval(ctx, call, in.ID, wait)
	}
	t, unknown, err := s.find(ctx, call.Session, *in.TaskID)
	if unknown != nil || err != nil {
		return unknown, err
	}
	patience, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var now state
	var p part
	var skipped, lost int64
	at := t.Cursor
	if in.Offset != nil {
		at = *in.Offset
	}
	for {
		now = t.look()
		if p, err = s.read(t, at, now.ended, r); err != nil {
			return nil, err
		}
		at, skipped, lost = p.next, skipped+p.skipped, lost+p.lost
		if p.text != "" || now.ended || patience.Err() != nil || t.live == nil {
			break
		}
		// No new output came, or no new line matched.
		if out := t.live.cmd.Output(); out.Wait(patience, p.seen) == nil && out.Size() == p.seen {
			// The output has ended, and the job is about to end.
			select {
			case <-t.live.over:
			case <-patience.Done():
			}
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	res := readResult(t, now, p, skipped, lost)
	if in.Offset == nil {
		err = s.shown(ctx, t, p, res)
	}
	return res, err
}

// readResult returns a part of a job's output as text and as a structure.
func readResult(bg task, now state, p part, skipped, lost int64) *mcp.Result {
	out := readOutput{
		TaskID:       bg.ID,
		Status:       string(now.status),
		ExitCode:     now.code,
		Signal:       now.signal,
		TimedOut:     now.is(sandbox.TimedOut),
		OOM:          now.is(sandbox.OOM),
		DurationMS:   now.runtime.Milliseconds(),
		Output:       p.text,
		NextOffset:   p.next,
		SkippedBytes: skipped,
		UnreadBytes:  p.unread,
		Reverted:     now.reverted,
		Blocked:      now.blocked,
		OutputURI:    outputURI(bg.Output),
		starts:       bg.starts(),
	}
	out.Stopped = out.starts.stopped
	var t text
	if lost > 0 {
		t.line("[%d bytes before this are no longer kept]", lost)
	}
	t.body(p.text)
	if p.text == "" {
		t.line("(no new output)")
	}
	now.tell(&t)
	out.starts.tell(&t)
	pairs := append(now.pairs(bg.ID), "next_offset", strconv.FormatInt(p.next, 10), "unread_bytes", strconv.FormatInt(p.unread, 10))
	if skipped > 0 {
		pairs = append(pairs, "skipped_bytes", strconv.FormatInt(skipped, 10))
	}
	return &mcp.Result{
		Content:    []mcp.Content{{Text: t.status(pairs...)}},
		Structured: out,
	}
}

// part is a part of an output.
type part struct {
	text    string
	next    int64 // offset of the first byte that was not read
	seen    int64 // end of the output when it was read, including an unfinished line
	lost    int64 // number of bytes before the text that are no longer kept
	skipped int64 // number of bytes before next that are not in text, including lost bytes
	unread  int64
}

// rest returns pairs for a status line: how many bytes of an output a part does not show,
// and where to read them. It returns nil if the part shows all.
func (p part) rest(uri string) []string {
	if p.unread == 0 {
		return nil
	}
	return []string{"unread_bytes", strconv.FormatInt(p.unread, 10), "output", uri}
}

// read reads a part of a job's output. If the reading selects lines, an unfinished last
// line of a running job is left for the next read, when it may be complete.
func (s *shells) read(t task, at int64, ended bool, r reading) (part, error) {
	from, done, err := s.output(t)
	if err != nil {
		return part{}, err
	}
	defer done()
	p, err := takePart(from, at, ended, r)
	if err != nil {
		return part{}, fmt.Errorf("read output of task %d: %w", t.ID, err)
	}
	return p, nil
}

// shown moves the job's cursor to the end of the part that a result shows. If the result is lost,
// the cursor goes back: later output may then be shown twice, but no output is missed.
func (s *shells) shown(ctx context.Context, t task, p part, in *mcp.Result) error {
	if p.next == t.Cursor {
		return nil
	}
	if err := s.backends.Jobs.Move(ctx, t.Job, p.next); err != nil {
		return fmt.Errorf("read output of task %d: %w", t.ID, err)
	}
	in.Receipts = append(in.Receipts, func(ctx context.Context, received bool) {
		if received {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, keepWait)
		defer cancel()
		if err := s.backends.Jobs.Back(ctx, t.Job, t.Cursor); err != nil {
			s.backends.Log.Error("output of a background task counts as read, but its agent may not have received it", "task", t.ID, "err", err)
		}
	})
	return nil
}

// source is an output that is still written, or a kept output.
type source interface {
	Size() int64
	Read(offset int64, limit int) (text []byte, next, skipped int64, err error)
}

// takePart reads from an offset to the present end of the output.
func takePart(o source, from int64, ended bool, r reading) (part, error) {
	size := o.Size()
	from = min(from, size)
	if r.filter == nil && r.tail == 0 {
		text, next, lost, err := o.Read(from, r.show)
		if err != nil {
			return part{}, err
		}
		if next < size || !ended {
			whole := printable.TrimEnd(text)
			next -= int64(len(text) - len(whole))
			text = whole
		}
		return part{text: valid(text), next: next, seen: size, lost: lost, skipped: lost, unread: max(0, size-next)}, nil
	}

	l := lines{r: r}
	at, rest := from, []byte(nil)
	p := part{next: from, seen: size}
	for at < size && !l.full {
		text, next, lost, err := o.Read(at, int(min(readPiece, size-at)))
		if err != nil {
			return part{}, err
		}
		if lost > 0 {
			// An unfinished line ends where bytes are missing.
			p.next += int64(len(rest)) + lost
			l.add(rest)
			rest = nil
			p.lost += lost
		}
		if len(text) == 0 {
			break
		}
		at, rest = next, append(rest, text...)
		for !l.full {
			n := bytes.IndexByte(rest, '\n') + 1
			if n == 0 && len(rest) >= lineMost {
				n = lineMost
			}
			if n == 0 && ended && at >= size {
				n = len(rest)
			}
			if n == 0 {
				break
			}
			if l.add(rest[:n]) {
				p.next += int64(n)
				rest = rest[n:]
			}
		}
	}
	shown := l.join()
	p.text = valid(shown)
	p.skipped = p.next - from - int64(len(shown))
	p.unread = max(0, size-p.next)
	return p, nil
}

// lines collects the lines that a reading selects.
type lines struct {
	r    reading
	kept [][]byte
	size int
	full bool // there was no room for a line, which must be read next time
}

// add adds a line if the reading selects it. It reports whether the line need not be read
// again.
func (l *lines) add(line []byte) bool {
	if l.r.filter != nil && !l.r.filter.Match(trimBreak(line)) {
		return true
	}
	for l.r.tail > 0 && len(l.kept) > 0 && (len(l.kept) >= l.r.tail || l.size+len(line) > l.r.show) {
		l.size -= len(l.kept[0])
		l.kept = l.kept[1:]
	}
	if l.size+len(line) > l.r.show && len(l.kept) > 0 {
		l.full = true
		return false
	}
	l.kept = append(l.kept, append([]byte(nil), line...))
	l.size += len(line)
	return true
}

func (l *lines) join() []byte {
	text := make([]byte, 0, l.size)
	for _, line := range l.kept {
		text = append(text, line...)
	}
	return text
}

// trimBreak returns a line without its line end, so that $ in a pattern matches there.
func trimBreak(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
