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

// A look goes to the repositories that are known and to those one directory
// down. A command can make one at any depth, and a person who says `git add .`
// above it, or whose shell's prompt asks git in that directory, runs what it
// says. So a walk goes through all directories of the workspace, and gives each
// that has a repository in it to the look.
//
// It has no depth or number of directories at which it ends, as a command could
// make one more. It takes a bounded share of the time while commands run, and
// goes on when the last has ended, until it has been everywhere once after
// that. Up to then, Protector.unseen says when the first of these commands began
// and no repository that is found is taken for a person's unless it is older.

const (
	// walkStep is how long one step of a walk takes while commands run: with
	// lookEvery, a tenth of the time.
	walkStep = lookEvery / lookShare
	// firstWalk is how long a new protector waits for its first walk, and one
	// that is closed for its last.
	firstWalk = 5 * time.Second
	// idleFor is how long no command ran before one waits for a walk of at most
	// idleWalk, so that what a person made meanwhile is known as such.
	idleFor  = 10 * time.Second
	idleWalk = 50 * time.Millisecond
	// maxFinds is how many repositories one step gives to the look.
	maxFinds = 4096
	// maxFound is how many of them every look goes to; a walk finds the others
	// each time. A command can make far fewer (maxGitDirs).
	maxFound = 1024
	// listed is how much of each directory on the way down is in memory, in bytes.
	listed = 32 << 10
)

// walk is one way through all directories after the other. Its memory of a directory saves a
// listing and costs one stat: as long as the time of the directory is the same, so are its
// entries.
type walk struct {
	mu    sync.Mutex // one step at a time; locked before the protector's
	known map[string]*listing
	kids  int // names in known
	round int // the ways begun so far
	stack []frame
	begun int // Protector.begun when this way began; -1 if a command ran then
	buf   []byte
	err   error // why a directory could not be looked at, for want of resources
	most  int   // directories and names that are remembered; zero for maxMarked
}

// listing is what is remembered of a directory without a repository.
type listing struct {
	id    ident
	time  unix.Timespec
	round int
	kids  []string // its directories
}

// frame is a directory on the way down.
type frame struct {
	at    string
	kids  []string // directories to go to
	marks uint8    // of a repository, among its entries
	more  bool     // it is not listed to its end
	next  int64    // where the listing goes on
	id    ident
	time  unix.Timespec
	all   []string // of its directories, if it is to be remembered
	brief bool     // it is not
}

// Entries by which a repository is known (gitrepository-layout(5); git: setup.c,
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

// markOf is what a name says of the directory that it is in, whatever its case:
// some file systems do not tell cases apart.
func markOf(name string) uint8 {
	if strings.IndexByte(".hHoOrRcC_", name[0]) < 0 && name[0] < 0x80 {
		return 0
	}
	if m := repositoryMarks[name]; m != 0 || len(name) > maxMark {
		return m
	}
	return foldedMarks[folded(name)]
}

// maxMark is the length of a name that a file system could take for one of
// repositoryMarks, with characters in it that it does not tell apart or ignores.
const maxMark = 64

var foldedMarks = func() map[string]uint8 {
	all := map[string]uint8{}
	for name, m := range repositoryMarks {
		all[folded(name)] = m
	}
	return all
}()

// isRepository reports whether these marks make a directory one.
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

// step walks until a time, and reports the repositories that it found, and
// whether it has been everywhere. w.mu is held.
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

// forget drops the directories that this way has not come to.
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

// enter begins with one directory. A directory that cannot be opened is gone, is not a
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

// miss notes that a directory could not be opened though it may be there: commands
// can use up what this process may have, and the walk would pass over it.
func (w *walk) miss(err error) {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		w.err = err
	}
}

// reopen gives the owner of a directory the right to list it that a command has
// taken: a person or a link that names an entry could still go there.
func (p *Protector) reopen(fd int, st *unix.Stat_t) {
	p.mu.Lock()
	since := p.unseen
	p.mu.Unlock()
	if !since.IsZero() && changedSince(st, since) {
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|0o700) // refused where it belongs to another user, and no box can have done it
	}
}

// list reads on in a directory, and reports whether it has a repository.
func (w *walk) list(p *Protector, f *frame) bool {
	f.more = false
	dir, err := openDir(p.root, f.at, 0)
	if err != nil {
		w.miss(err)
		return false // gone, or a person has closed it
	}
	defer dir.Close()
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil || identOf(&st) != f.id {
		return false // replaced: the directory above it has changed, and the next way sees it
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

// walkFor walks for some time, and reports whether the walk has been everywhere
// since the last command ended.
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

// walked says that nothing of this server's commands is left that was not looked at,
// and reports whether that is so of killed servers' too: else another way is due.
// p.mu is held.
func (p *Protector) walked() (bool, error) {
	if !p.settled {
		return true, nil // the protector is being made
	}
	p.partial = false
	if p.failing {
		return true, nil // the workspace is not what it should be: the mark stays
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
		default: // what a look goes to was judged by the last one
			p.servers.inherit(others)
			p.begun++
			p.unseen = others.first
			return false, nil
		}
	}
	return true, p.servers.end()
}

// found takes over what a walk has found: as a person's where no command ran
// since it was made, and otherwise as a command's. It returns what it has not come
// to: commands wait for p.mu, which is held.
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
		// A command of another server may have begun before ours.
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
		case !f.within() && (p.repos[at] || path.Base(at) == ".git"): // of a repository around it
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
	taken := p.taken
	err = p.again(p.running == 0, false)
	if p.running == 0 {
		p.idle += p.taken - taken
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

// inPlace reports whether what makes a directory a repository was in it before
// the time of doubt: a command could have moved old files there.
func (d *doubting) inPlace(dir *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return false
	}
	if !d.changed(&st) {
		return true // no entry came or went
	}
	for name, m := range repositoryMarks {
		st, err := statAt(dir, name)
		if err != nil || m == markOther && st != nil && d.changed(st) {
			return false
		}
	}
	return !isBare(dir)
}
