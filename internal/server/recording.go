package server

import (
	"io"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// recordings are those of the calls that run.
type recordings struct {
	mu    sync.Mutex
	all   map[string]*Recording  // by call; guarded by mu
	reels map[string]*audit.Reel // of calls of browsers; guarded by mu
}

// Recording is that of the output of a call, or of the background job that it leaves. A
// nil one records nothing.
type Recording struct {
	*audit.Cast
	ledger *ledger
	about  audit.JobCast
	began  time.Time

	mu       sync.Mutex
	detached bool // the call is over, and its record says nothing of this
	closed   bool
}

// record is what records the output of a call, where its level is full.
func (l *ledger) record(call mcp.Call) io.WriteCloser {
	about := audit.JobCast{CallID: call.ID, Tenant: call.Session.Tenant(), Session: control.ShortID(call.Session.ID()), Tool: call.Tool}
	if r := l.cast(about, call.Audit, audit.Screen{}); r != nil {
		return r
	}
	return nil
}

// records reports whether a call is recorded. kept is how much of it a rule wants.
func (l *ledger) records(kept policies.Kept) bool {
	level := l.log.Level()
	if kept.Said {
		level = kept.Level
	}
	return level >= policies.AuditFull
}

// cast begins a recording, or is nil where none is wanted or can be made.
func (l *ledger) cast(about audit.JobCast, kept policies.Kept, s audit.Screen) *Recording {
	if l == nil || !l.records(kept) {
		return nil
	}
	c, err := l.log.Cast(about.CallID, s)
	if err != nil {
		l.out.Warn("a call is not recorded", "call", about.CallID, "err", err)
		return nil
	}
	r := &Recording{Cast: c, ledger: l, about: about, began: time.Now()}
	l.recordings.mu.Lock()
	defer l.recordings.mu.Unlock()
	if l.recordings.all == nil {
		l.recordings.all = make(map[string]*Recording)
	}
	l.recordings.all[about.CallID] = r
	return r
}

// Close ends the recording. That of a background job gets a record of its own.
func (r *Recording) Close() error {
	err := r.Cast.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached && !r.closed {
		r.tell()
	}
	r.closed = true
	return err
}

// tell writes down what became of a recording whose call is over. r.mu is held.
func (r *Recording) tell() {
	r.about.Recorded, _ = r.Cast.Recorded()
	r.about.DurMS = time.Since(r.began).Milliseconds()
	r.ledger.append(r.about)
}

// shown is a writer that also records what it is written.
type shown struct {
	io.Writer
	r *Recording
}

func (s shown) Write(p []byte) (int, error) {
	_, _ = s.r.Write(p) // the failure of a recording is not the command's
	return s.Writer.Write(p)
}

// Record records the output of a command of `belljar run`; it returns nil where none is
// wanted or can be made. The caller ends it.
func (s *Server) Record(id string, d policies.Decision, screen audit.Screen) *Recording {
	return s.audit.cast(audit.JobCast{CallID: id, Tenant: policies.LocalTenant, Session: "run", Tool: "Bash"}, d.Audit, screen)
}

// Through is w with what is written to it recorded, if it is.
func (r *Recording) Through(w io.Writer) io.Writer {
	if r == nil {
		return w
	}
	return shown{w, r}
}

// End is Close of a recording that there may be.
func (r *Recording) End() {
	if r != nil {
		_ = r.Close()
	}
}

// Resized records the terminal's new size.
func (r *Recording) Resized(width, height int) {
	if r != nil {
		r.Resize(width, height)
	}
}
