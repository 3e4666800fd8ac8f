package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"syscall"

	"belljar.dev/job"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// shells holds the shell of each session.
type shells struct {
	backends Backends

	mu       sync.Mutex
	open     map[string]*shell   // guarded by mu: by session id
	sessions map[string]struct{} // guarded by mu: ids of those that may have jobs
	started  map[string]*command // guarded by mu: of calls whose clients do not wait, by Call.Later
	tasks    map[string]job.Job  // guarded by mu: that such calls became, by the same
}

func newShells(b Backends) *shells {
	return &shells{
		backends: b, open: make(map[string]*shell), sessions: make(map[string]struct{}),
		started: make(map[string]*command), tasks: make(map[string]job.Job),
	}
}

// planSuffix is behind the id of a session in that of the box in which it plans.
const planSuffix = "-plan"

// of is the session's shell for a call with grant g, which ends with the
// session. While the session plans that is another one than else: a box cannot
// be narrowed once it is open.
func (s *shells) of(session *mcp.Session, g policies.Grant) *shell {
	id := session.ID()
	if session.Narrowed() == planLayer && g.ReadOnly() {
		id += planSuffix
	}
	s.mu.Lock()
	sh, known := s.open[id]
	if !known {
		sh = &shell{id: id, backends: s.backends, all: s, turn: make(chan struct{}, 1)}
		s.open[id] = sh
	}
	s.mu.Unlock()
	if !known {
		// Outside the lock: a session that has ended already calls back at once.
		session.OnEnd(func() {
			s.mu.Lock()
			delete(s.open, sh.id)
			s.mu.Unlock()
			sh.end()
		})
	}
	return sh
}

// all are the session's shells: that of planning as well.
func (s *shells) all(session *mcp.Session) (all []*shell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range []string{session.ID(), session.ID() + planSuffix} {
		if sh, ok := s.open[id]; ok {
			all = append(all, sh)
		}
	}
	return all
}

// planned closes the box in which a session has planned.
func (s *shells) planned(ctx context.Context, session *mcp.Session) {
	s.mu.Lock()
	sh, ok := s.open[session.ID()+planSuffix]
	s.mu.Unlock()
	if !ok {
		return
	}
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
		sh.leave()
	case <-ctx.Done(): // it ends with the session
	}
}

// shell is what one session has of the shell tools: its box, its working
// directory and the jobs that run in the box.
type shell struct {
	id       string
	backends Backends
	all      *shells
	turn     chan struct{}  // held while the box is opened or closed, which takes I/O
	watched  sync.WaitGroup // of what sees jobs through

	mu    sync.Mutex
	box   *sandbox.Box
	ended bool
	dir   string             // working directory of the next command; empty: the box's own
	jobs  map[int64]*running // of the box, by task_id
}

// enter is the session's box for a call with grant g, opened where there is
// none; whether an open one covers g is the box's to say. The notice is for the
// agent, where it had a box before and lost it.
func (sh *shell) enter(ctx context.Context, g policies.Grant) (box *sandbox.Box, notice string, err error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, "", context.Cause(ctx)
	}
	sh.mu.Lock()
	box, ended := sh.box, sh.ended
	sh.mu.Unlock()
	if ended {
		return nil, "", fmt.Errorf("open box: session %w", sandbox.ErrClosed)
	}
	if box != nil {
		select {
		case <-box.Broken():
			notice = "The box of this session had ended, so a new one was opened: background tasks, files outside the workspace and the working directory are gone."
			sh.leave()
		default:
			return box, "", nil
		}
	}
	if sh.backends.Sandbox == nil {
		return nil, "", errors.New("open box: the server was started without a sandbox")
	}
	box, err = sh.backends.Sandbox.Open(ctx, sh.id, g)
	if err != nil {
		return nil, "", err
	}
	sh.mu.Lock()
	sh.box = box
	sh.mu.Unlock()
	return box, notice, nil
}

// leave closes the box, if there is one, and forgets all that belonged to it
// once the ends of its jobs are on the disk. The turn is held.
func (sh *shell) leave() {
	sh.mu.Lock()
	box := sh.box
	sh.box, sh.dir = nil, ""
	sh.mu.Unlock()
	if box == nil {
		return
	}
	if err := box.Close(); err != nil {
		sh.backends.Log.Error("close box", "session", sh.id, "err", err)
	}
	sh.watched.Wait() // with the box its jobs have ended, and without one there are no more
	sh.mu.Lock()
	sh.jobs = nil
	sh.mu.Unlock()
}

// end closes the box for good. Calls that are running in it get ErrClosed.
func (sh *shell) end() {
	sh.mu.Lock()
	sh.ended = true
	sh.mu.Unlock()
	sh.turn <- struct{}{}
	defer func() { <-sh.turn }()
	sh.leave()
}

// current is the session's box if it has one that lives.
func (sh *shell) current() (*sandbox.Box, bool) {
	sh.mu.Lock()
	box := sh.box
	sh.mu.Unlock()
	if box == nil {
		return nil, false
	}
	select {
	case <-box.Broken():
		return nil, false
	default:
		return box, true
	}
}

// workdir is where a command starts: cwd against the session's directory.
func (sh *shell) workdir(g policies.Grant, cwd string) string {
	sh.mu.Lock()
	dir := sh.dir
	sh.mu.Unlock()
	if dir == "" {
		dir = home(g)
	}
	switch {
	case cwd == "":
		return dir
	case path.IsAbs(cwd):
		return path.Clean(cwd)
	}
	return path.Join(dir, cwd)
}

// home is where the first command of a session starts.
func home(g policies.Grant) string {
	if g.Workspace() == policies.AccessNone {
		return "/tmp"
	}
	return "/workspace"
}

// settle remembers where a command ended, for the next one.
func (sh *shell) settle(dir string) {
	if dir == "" {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.dir = dir
}

// lost says that a command could not start because the session's directory is
// gone. It must not run anywhere else: what is right in one directory may
// destroy another. The next one starts in the box's own directory.
func (sh *shell) lost(err error) (dir string, gone bool) {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
		return "", false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dir, sh.dir = sh.dir, ""
	return dir, dir != ""
}
