package protect

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A look visits the repositories that are known and those one directory down. A command can
// make a repository at any depth. A person who says `git add .` above it, or whose shell's
// prompt asks git in that directory, runs what it says. So a walk goes through all
// directories of the workspace, and passes each that has a repository in it to the look.
//
// A walk does not end at a depth or number of directories, because a command could make one
// more. It takes a bounded share of the time while commands run, and continues after the
// last has ended, until it has been everywhere once after that. Until then,
// Protector.unseen says when the first of these commands began, and a repository that is
// found is taken for a person's only if it is older.

const (
	// walkStep is how long one step of a walk takes while commands run: a tenth of
	// lookEvery.
	walkStep = lookEvery / lookShare
	// firstWalk is how long a new Protector waits for its first walk, and how long Close
	// waits for the last one.
	firstWalk = 5 * time.Second
	// idleFor is how long no command must have run before the next one waits for a walk of
	// at most idleWalk, so that what a person made meanwhile is known as a person's.
	idleFor  = 10 * time.Second
	idleWalk = 50 * time.Millisecond
	// maxFinds is how many repositories one step passes to the look.
	maxFinds = 4096
	// maxFound is how many of them every look visits; a walk finds the others each time. A
	// command can make far fewer (maxGitDirs).
	maxFound = 1024
	// listed is how many bytes of each directory on the way down are in memory.
	listed = 32 << 10
)

// walk goes through all directories, one after the other. What it remembers about a
// directory saves a listing and costs one stat: as long as the time of the directory is the
// same, so are its entries.
type walk struct {
	mu    sync.Mutex // held for one step; locked before the protector's
	known map[string]*listing
	kids  int // number of names in known
	round int // number of ways that began
	stack []frame
	begun int // Protector.begun when this way began; -1 if a command ran then
	buf   []byte
	err   error // why a directory could not be looked at, for lack of resources
	most  int   // number of directories and names that are remembered; zero means maxMarked
}

// listing is what is remembered about a directory without a repository.
type listing struct {
	id    ident
	time  unix.Timespec
	round int
	kids  []string // names of its directories
}

// frame is a directory on the way down.
type frame struct {
	at    string
	kids  []string // names of directories to visit
	marks uint8    // marks of a repository among its entries
	more  bool     // whether its listing has not ended
	next  int64    // offset at which the listing continues
	id    ident
	time  unix.Timespec
	all   []string // names of its directories, if it is to be remembered
	brief bool     // whether it is not to be remembered
}

// Entries by which a repository is recognized (gitrepository-layout(5); git: setup.c,
// is_git_directory).
const (
	markOther = 1 << iota // .git, or another version control system's
	markHead
	markObjects
	markRefs
	markCommon
)

var repositoryMarks = func() map[string]uint8 {
	marks := map[string]uint8{".git": markOther, "HEAD": markHead, "objects": markObjects, "refs": markRefs, "commondir": markCommon}
	for _, name := range otherRepositories {
		marks[name] = markOther
	}
	return marks
}()

// markOf returns what a name says about the directory that it is in, in any case: some file
// systems do not distinguish cases.
func markOf(name string) uint8 {
	if strings.IndexByte(".hHoOrRcC_", name[0]) < 0 && name[0] < 0x80 {
		return 0
	}
	if m := repositoryMarks[name]; m != 0 || len(name) > maxMark {
		return m
	}
	return foldedMarks[folded(name)]
}

// maxMark is the length of the longest name that a file system could take for one of
// repositoryMarks, with characters in it that it does not distinguish or ignores.
const maxMark = 64

var foldedMarks = func() map[string]uint8 {
	all := map[string]uint8{}
	for name, m := range repositoryMarks {
		all[folded(name)] = m
	}
	return all
}()

// isRepository reports whether these marks make a directory a repository.
func isRepository(marks uint8) bool {
	return marks&markOther != 0 || marks&markHead != 0 && (marks&markCommon != 0 || marks&(markObjects|markRefs) == markObjects|markRefs)
}

// find is a directory with a repository.
type find struct {
	at    string
	marks uint8
}

// within reports whether the repository is not merely the directory itself.
func (f *find) within() bool { return f.marks&markOther != 0 }

// step walks until a time. It returns the repositories that it found, and whether the walk
// has been everywhere. w.mu is held.
func (w *walk) step(p *Protector, until time.Time) (finds []find, done bool) {
	for {
		switch f := len(w.stack) - 1; {
		case f < 0:
			w.forget()
			return finds, true
		case len(w.stack[f].kids) > 0:
			frame := &w.stack[f]
			name := frame.kids[0]
			frame.kids = frame.kids[1:]
			w.enter(p, path.Join(frame.at, name))
		case w.stack[f].more:
			if w.list(p, &w.stack[f]) {
				finds = append(finds, find{w.stack[f].at, w.stack[f].marks})
			}
		default:
			w.stack = w.stack[:f]
		}
		if len(finds) >= maxFinds || time.Now().After(until) {
			return finds, false
		}
	}
}

// start begins a new way. w.mu is held.
func (w *walk) start(p *Protector, begun int) {
	if w.known == nil {
		w.known, w.buf = map[string]*listing{}, make([]byte, listed)
	}
	if w.most == 0 {
		w.most = maxMarked
	}
	w.round++
	w.begun = begun
	clear(w.stack)
	w.stack = w.stack[:0]
	w.enter(p, ".")
}

// forget drops the directories that this way has not visited.
func (w *walk) forget() {
	for at, known := range w.known {
		if known.round != w.round {
			w.drop(at, known)
		}
	}
}

func (w *walk) drop(at string, known *listing) {
	w.kids -= len(known.kids)
	delete(w.known, at)
}

// enter begins with one directory. A directory that cannot be opened was removed, is not a
// directory, or has a path that is longer than PATH_MAX (path_resolution(7)).
func (w *walk) enter(p *Protector, at string) {
	fd, err := openBeneath(int(p.root.Fd()), at, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		w.miss(err)
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	known, t := w.known[at], p.trustOf(fd, &st)
	if known != nil {
		if t.times && known.id == identOf(&st) && known.time == st.Ctim {
			known.round = w.round
			w.stack = append(w.stack, frame{at: at, kids: known.kids})
			return
		}
		w.drop(at, known)
	}
	if st.Mode&0o500 != 0o500 {
		p.reopen(fd, &st)
	}
	w.stack = append(w.stack, frame{
		at: at, more: true, id: identOf(&st), time: st.Ctim,
		brief: !t.times || t.tooYoung(&st, fileClock()) || len(w.known) >= w.most,
	})
}

// miss records that a directory could not be opened although it may exist: commands can use
// up the resources of this process, and the walk would pass over the directory.
func (w *walk) miss(err error) {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		w.err = err
	}
}

// reopen restores the owner's right to list a directory, which a command has removed: a
// person or a link that names an entry could still go there.
func (p *Protector) reopen(fd int, st *unix.Stat_t) {
	p.mu.Lock()
	since := p.unseen
	p.mu.Unlock()
	if !since.IsZero() && changedSince(st, since) {
		// fails if the directory belongs to another user, and then no box can have removed
		// the right
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|0o700)
	}
}

// list continues to list a directory, and reports whether it has a repository.
func (w *walk) list(p *Protector, f *frame) bool {
	f.more = false
	dir, err := openDir(p.root, f.at, 0)
	if err != nil {
		w.miss(err)
		return false // removed, or closed by a person
	}
	defer dir.Close()
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil || identOf(&st) != f.id {
		return false // replaced: the directory above it has changed, and the next way sees that
	}
	if _, err := dir.Seek(f.next, io.SeekStart); err != nil {
		return false
	}
	for {
		end, err := someEntries(dir, w.buf, func(e dirent) bool {
			f.marks |= markOf(e.name)
			if e.kind == unix.DT_DIR || e.kind == unix.DT_UNKNOWN {
				f.kids = append(f.kids, e.name)
			}
			return true
		})
		if err != nil {
			f.brief, end = true, true
		}
		if end {
			break
		}
		if len(f.kids) > 0 {
			if f.next, err = dir.Seek(0, io.SeekCurrent); err == nil {
				f.more = true
			}
			break
		}
	}
	if f.brief = f.brief || w.kids+len(f.all)+len(f.kids) > w.most; f.brief {
		f.all = nil
	} else {
		f.all = append(f.all, f.kids...)
	}
	switch {
	case f.more:
	case isRepository(f.marks):
		return true // never remembered, so that every way reports it
	case !f.brief:
		w.known[f.at] = &listing{id: f.id, time: f.time, round: w.round, kids: f.all}
		w.kids += len(f.all)
	}
	return false
}

// walkFor walks for the time some, and reports whether the walk has been everywhere since
// the last command ended.
func (p *Protector) walkFor(some time.Duration) (whole bool, err error) {
	w := &p.walk
	w.mu.Lock()
	defer w.mu.Unlock()
	p.mu.Lock()
	begun := p.begun
	if p.running > 0 {
		begun = -1
	}
	p.mu.Unlock()
	if len(w.stack) == 0 || begun >= 0 && w.begun != begun {
		w.start(p, begun)
	}
	until := time.Now().Add(some)
	shared := newBudget()
	for {
		finds, done := w.step(p, until)
		if w.err != nil {
			err, w.err, w.begun = fmt.Errorf("walk through the workspace: %w", w.err), nil, -1
			return false, err
		}
		for first := true; first || len(finds) > 0 && err == nil; first = false {
			p.mu.Lock()
			finds, err = p.found(finds, shared)
			whole = done && len(finds) == 0 && err == nil && p.running == 0 && w.begun == p.begun
			if whole {
				whole, err = p.walked()
			}
			p.mu.Unlock()
		}
		if err != nil {
			w.begun = -1
		}
		if done || err != nil || time.Now().After(until) {
			return whole, err
		}
	}
}

// walked is called when everything that this server's commands made was looked at. It
// reports whether that is also true for killed servers; if not, another way must be made.
// p.mu is held.
func (p *Protector) walked() (bool, error) {
	if !p.settled {
		return true, nil // the protector is being made
	}
	p.partial = false
	if p.failing {
		return true, nil // the workspace is not in order: the file of this server stays
	}
	p.unseen = time.Time{}
	defer p.release()
	if p.alone() {
		if err := p.save(); err != nil {
			return true, err
		}
		others, err := p.servers.others()
		switch {
		case err != nil:
			return false, err
		case others.alive || len(others.marks) == 0:
		case !p.unchanged():
			return false, p.take(true, false)
		default: // the last look has judged what it visits
			p.servers.inherit(others)
			p.begun++
			p.unseen = others.first
			return false, nil
		}
	}
	return true, p.servers.end()
}

// found takes over what a walk has found: as a person's if no command ran since it was
// made, and otherwise as a command's. It returns the finds for which there was no time:
// commands wait for p.mu, which is held.
func (p *Protector) found(finds []find, b *budget) (rest []find, err error) {
	if len(finds) == 0 {
		return nil, nil
	}
	until := time.Now().Add(walkStep)
	homes := make(map[string]bool, len(p.homes))
	for _, h := range p.homes {
		homes[h.path] = true
	}
	since, fresh := p.unseen, false
	if p.settled {
		// A command of another server may have begun before that of this server.
		others, err := p.servers.others()
		if err != nil {
			return nil, fmt.Errorf("look for what other servers left: %w", err)
		}
		since = earlier(since, others.first)
	}
	for i, f := range finds {
		if i > 0 && time.Now().After(until) {
			rest = finds[i:]
			break
		}
		at := f.at
		switch _, twice := p.deep[at]; {
		case !strings.Contains(at, "/") || twice || homes[at]:
		case !f.within() && (p.repos[at] || path.Base(at) == ".git"): // part of a repository around it
		case p.settled && !since.IsZero() && p.late(at, since, b):
		default:
			p.deep[at], fresh = false, true
		}
	}
	if !fresh || !p.settled {
		return rest, nil
	}
	p.seen = nil
	if p.running == 0 && p.unseen.IsZero() {
		defer p.release()
		return rest, p.adopt()
	}
	before := p.reverted
	err = p.again(p.running == 0, false)
	if p.running == 0 {
		p.idle += p.reverted - before
	}
	return rest, err
}

// late decides about a repository that is found after a command has begun. If all that git
// would run of it is older than the command, late takes it for a person's, and returns true.
// A command cannot set the time of a change back (inode(7), ctime).
func (p *Protector) late(at string, since time.Time, b *budget) bool {
	dir, err := openDir(p.root, at, unix.O_PATH)
	if err != nil {
		return false
	}
	defer dir.Close()
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return false
	}
	if t := p.trustOf(int(dir.Fd()), &st); !t.times || !t.mapped {
		return false
	}
	l := p.look(true)
	l.keep, l.late, l.doubt, l.fresh, l.budget = true, at, since, map[string]bool{}, b
	if !l.inPlace(dir) {
		return false
	}
	homes := len(p.homes)
	full := homes >= maxHomes
	if full {
		l.enterHome("")
		l.inHome(dir, at)
	} else {
		l.settle(dir, at)
	}
	for name, why := range l.extra {
		if p.extra[name] == "" {
			l.sealPath(name, why)
		}
	}
	good := len(l.suspects) == 0 && len(l.errs) == 0
	if full || !good {
		for _, h := range p.homes[homes:] {
			h.dir.Close()
		}
		p.homes = p.homes[:homes]
		for name := range l.fresh {
			delete(p.guards, name)
		}
		return good
	}
	p.seen = nil
	maps.Copy(p.repos, l.repos)
	maps.Copy(p.extra, l.extra)
	p.notes = append(p.notes, l.notes[:min(len(l.notes), maxTold-min(len(p.notes), maxTold))]...)
	return true
}

// inPlace reports whether what makes a directory a repository was in it before the time of
// doubt: otherwise a command could have moved old files there.
func (d *doubting) inPlace(dir *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return false
	}
	if !d.changed(&st) {
		return true // no entry was added or removed
	}
	for name, m := range repositoryMarks {
		st, err := statAt(dir, name)
		if err != nil || m == markOther && st != nil && d.changed(st) {
			return false
		}
	}
	return !isBare(dir)
}
