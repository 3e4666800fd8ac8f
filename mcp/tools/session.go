package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"syscall"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// shells contains the shells of each session.
type shells struct {
	backends Backends
	tasks    *tasks

	mu   sync.Mutex
	open map[string][]*shell // guarded by mu: shells by session id, oldest first
}

// planSuffix is appended to the id of a session for the boxes in which the session plans.
const planSuffix = "-plan"

// shellsMost is how many boxes a session can have, and how many more for planning.
const shellsMost = 4

// of returns the session's shell for a call with grant g: the oldest shell whose box can
// serve the call, or a new one. The shell ends with the session. The access of an open box
// cannot be changed, so calls of two profiles usually have a box each, and a session that
// plans has another box.
func (s *shells) of(session *mcp.Session, g policies.Grant) (*shell, error) {
	id := idOf(session, g)
	s.mu.Lock()
	sh := s.firstServing(id, g)
	if sh != nil {
		s.mu.Unlock()
		return sh, nil
	}
	sh, err := s.add(id, g)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// OnEnd is called without the lock, because it calls the function immediately if the
	// session has already ended.
	session.OnEnd(func() {
		s.mu.Lock()
		if left := slices.DeleteFunc(s.open[id], func(o *shell) bool { return o == sh }); len(left) > 0 {
			s.open[id] = left
		} else {
			delete(s.open, id)
		}
		s.mu.Unlock()
		sh.end()
	})
	return sh, nil
}

// idOf returns the key in shells.open for a session's calls with grant g: a session that
// plans has boxes of its own.
func idOf(session *mcp.Session, g policies.Grant) string {
	if session.Narrowed() == planLayer && g.ReadOnly() {
		return session.ID() + planSuffix
	}
	return session.ID()
}

// firstServing returns the oldest shell whose box can serve a call with grant g, or nil. The
// box checks this again when it starts the command. The caller holds mu.
func (s *shells) firstServing(id string, g policies.Grant) *shell {
	for _, sh := range s.open[id] {
		if sh.granted().Covers(g) {
			return sh
		}
	}
	return nil
}

// serving returns the shell that would serve a session's call with grant g, or nil
// if the call would open another box.
func (s *shells) serving(session *mcp.Session, g policies.Grant) *shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.firstServing(idOf(session, g), g)
}

// enter returns the session's shell for a call with grant g, and its box (see shell.enter).
func (s *shells) enter(ctx context.Context, session *mcp.Session, g policies.Grant) (sh *shell, box *sandbox.Box, notice string, err error) {
	if sh, err = s.of(session, g); err != nil {
		return nil, nil, "", err
	}
	box, notice, err = sh.enter(ctx, g)
	return sh, box, notice, err
}

// add makes a further shell of a session; the caller holds mu.
func (s *shells) add(id string, g policies.Grant) (*shell, error) {
	all := s.open[id]
	name := id
	if len(all) > 0 {
		first := all[0].granted()
		name = fmt.Sprintf("%s-%d", id, len(all)+1)
		switch why := fmt.Sprintf("earlier commands of this session ran with profile %q, and this call may run with profile %q only", first.Profile(), g.Profile()); {
		case len(all) == shellsMost:
			return nil, &limit.Refusal{Message: fmt.Sprintf("%s; a session has at most %d boxes, one for each profile. %s", why, shellsMost, oneProfile), Err: sandbox.ErrWider}
		case g.Workspace() == policies.AccessOverlay || first.Workspace() == policies.AccessOverlay:
			// A second box would write into a set of its own: neither box would see the
			// other's files, and a person would have to merge the two sets.
			return nil, &limit.Refusal{Message: why + ". A session with an overlay workspace has only one box, since all that it writes goes into one set. " + oneProfile, Err: sandbox.ErrWider}
		}
	}
	sh := &shell{id: name, grant: g, backends: s.backends, shells: s, further: len(all) > 0, turn: make(chan struct{}, 1)}
	s.open[id] = append(all, sh)
	return sh, nil
}

// oneProfile is advice for an agent whose call no box can serve.
const oneProfile = "Use a command like those that ran before in this session, or ask the person you work for to let the policy grant all of them the same profile"

// all returns the session's shells, including those for planning.
func (s *shells) all(session *mcp.Session) []*shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.open[session.ID()], s.open[session.ID()+planSuffix])
}

// closePlanning closes the boxes in which a session has planned.
func (s *shells) closePlanning(ctx context.Context, session *mcp.Session) {
	s.mu.Lock()
	all := slices.Clone(s.open[session.ID()+planSuffix])
	s.mu.Unlock()
	for _, sh := range all {
		select {
		case sh.turn <- struct{}{}:
			sh.closeBox()
			<-sh.turn
		case <-ctx.Done(): // the box ends with the session
			return
		}
	}
}

// shell is the state of the shell tools for calls of one session that can share a box: the
// box, its working directory and the jobs that run in it.
type shell struct {
	id       string
	backends Backends
	shells   *shells
	further  bool           // the session already has another shell
	turn     chan struct{}  // contains a token while the box is opened or closed, since I/O must not run under mu
	watched  sync.WaitGroup // counts goroutines that follow jobs

	mu    sync.Mutex
	grant policies.Grant // grant of the last box; before the first box is open, grant of the first call
	box   *sandbox.Box
	ended bool
	// introduced reports whether introduce was called: its notice of a further box is given
	// once.
	introduced bool
	dir        string             // working directory of the next command; empty means home
	jobs       map[int64]*running // jobs of the box, by task_id
}

// granted returns the grant of the shell's box.
func (sh *shell) granted() policies.Grant {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.grant
}

// enter returns the shell's box for a call with grant g. It opens a box if none is open; an
// open box itself checks whether it covers g. If the session's earlier box was lost, notice
// is a text about that for the agent.
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
			sh.closeBox()
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
	sh.box, sh.grant = box, g
	sh.mu.Unlock()
	return box, notice, nil
}

// introduce returns the notice for the agent of a command that is about to run: the notice
// of enter, or, for the first command in a further box, a text about that box.
func (sh *shell) introduce(notice string) string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	first := sh.further && !sh.introduced
	sh.introduced = true
	if !first || notice != "" {
		return notice
	}
	return fmt.Sprintf("The policy grants this call profile %q, and it granted earlier calls of this session another profile, so this call has a box of its own. "+
		"The boxes share the workspace; background tasks, files outside the workspace and the working directory are each box's own.", sh.grant.Profile())
}

// closeBox closes the box, if there is one. When the ends of the box's jobs are on the disk,
// it forgets the jobs. The caller holds the turn.
func (sh *shell) closeBox() {
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
	sh.watched.Wait() // the jobs have ended with the box, and no new job can start without one
	sh.mu.Lock()
	sh.jobs = nil
	sh.mu.Unlock()
}

// end closes the box for good. Commands that run in it are killed, and calls that enter the
// shell later get ErrClosed.
func (sh *shell) end() {
	sh.mu.Lock()
	sh.ended = true
	sh.mu.Unlock()
	sh.turn <- struct{}{}
	defer func() { <-sh.turn }()
	sh.closeBox()
}

// current returns the shell's box, if it has one that is not broken.
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

// workdir returns the directory where a command starts: cwd relative to the working
// directory of the box.
func (sh *shell) workdir(g policies.Grant, cwd string) string {
	sh.mu.Lock()
	dir := sh.dir
	sh.mu.Unlock()
	if dir == "" {
		dir = sh.home(g)
	}
	switch {
	case cwd == "":
		return dir
	case path.IsAbs(cwd):
		return path.Clean(cwd)
	}
	return path.Join(dir, cwd)
}

// home returns the directory where the first command of the box starts; without a box, of
// one that would be opened now with grant g.
func (sh *shell) home(g policies.Grant) string {
	if box, ok := sh.current(); ok {
		return box.StartDir()
	}
	return sh.backends.home(g)
}

// move keeps the directory where a command ended, for the next command.
func (sh *shell) move(dir string) {
	if dir == "" {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.dir = dir
}

// lost reports whether a command could not start because its directory cannot be used any
// more, and returns that directory. It forgets the directory, so the next command starts in
// home. The failed command must not run in home: a command that is right in one directory may
// destroy another.
func (sh *shell) lost(err error) (dir string, gone bool) {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
		return "", false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	dir, sh.dir = sh.dir, ""
	return dir, dir != ""
}
