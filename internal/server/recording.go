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

// recordings contains the recordings of the calls that run.
type recordings struct {
	mu    sync.Mutex
	all   map[string]*Recording  // recordings by call; guarded by mu
	reels map[string]*audit.Reel // recordings of browser calls, by call; guarded by mu
}

// Recording is the recording of the output of a call, or of the background job that the
// call started. A nil Recording records nothing.
type Recording struct {
	*audit.Cast
	ledger *ledger
	about  audit.JobCast
	began  time.Time

	mu       sync.Mutex
	detached bool // whether the call has ended, and its record does not contain the result of this recording
	closed   bool
}

// record returns a recording of the output of a call if the audit level of the call is
// full, and nil otherwise.
func (l *ledger) record(call mcp.Call) io.WriteCloser {
	about := audit.JobCast{CallID: call.ID, Tenant: call.Session.Tenant(), Session: control.ShortID(call.Session.ID()), Tool: call.Tool}
	if r := l.cast(about, call.Audit, audit.Screen{}); r != nil {
		return r
	}
	return nil
}

// records reports whether a call is recorded. kept is the level that a rule sets for the
// call.
func (l *ledger) records(kept policies.Kept) bool {
	level := l.log.Level()
	if kept.Said {
		level = kept.Level
	}
	return level >= policies.AuditFull
}

// cast begins a recording. It returns nil if no recording is wanted, or none can be made.
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

// Close ends the recording. The recording of a background job gets its own record.
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

// tell records the result of a recording whose call has ended. The caller holds r.mu.
func (r *Recording) tell() {
	r.about.Recorded, _ = r.Cast.Recorded()
	r.about.DurMS = time.Since(r.began).Milliseconds()
	r.ledger.append(r.about)
}

// shown is a writer that also records what is written to it.
type shown struct {
	io.Writer
	r *Recording
}

func (s shown) Write(p []byte) (int, error) {
	_, _ = s.r.Write(p) // if the recording fails, the command continues
	return s.Writer.Write(p)
}

// Record records the output of a command of `belljar run`. It returns nil if no recording
// is wanted, or none can be made. The caller ends the recording.
func (s *Server) Record(id string, d policies.Decision, screen audit.Screen) *Recording {
	return s.audit.cast(audit.JobCast{CallID: id, Tenant: policies.LocalTenant, Session: "run", Tool: "Bash"}, d.Audit, screen)
}

// Through returns a writer to w that also records. If r is nil, it returns w.
func (r *Recording) Through(w io.Writer) io.Writer {
	if r == nil {
		return w
	}
	return shown{w, r}
}

// End closes the recording. r may be nil.
func (r *Recording) End() {
	if r != nil {
		_ = r.Close()
	}
}

// Resized records the new size of the terminal. r may be nil.
func (r *Recording) Resized(width, height int) {
	if r != nil {
		r.Resize(width, height)
	}
}
