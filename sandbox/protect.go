package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What a box writes into a workspace stays there when the box is gone. Some of
// it runs by itself as soon as a person uses the directory: git's hooks, what
// an editor starts, what another agent reads. A protector keeps that part of
// a workspace as it was, in two ways:
//
//   - what exists is pinned: pins lists what an init binds over itself, so that
//     no command can write to it, move it away or put something in its place;
//   - what does not exist, or cannot be mounted, is looked at while commands
//     run and after each, and what appeared there is taken away again. There is
//     never a placeholder.
//
// A git repository that a command makes is accepted, as far as it is harmless.
// docs/protected-paths.md says what is protected, why, and where this ends.
//
// The order of calls: newProtector before the first box; pins for each box that
// is made; begin and end around each command (protect_watch.go); close after
// the last box. What changes while no command runs is the person's own work and
// is taken as it is; what changes while one runs is taken for the command's.

// Bounds of a protector.
//
// What a box can drive up never ends a look: what is new beyond such a bound
// is taken away as long as it is new, and the paths that were there when no
// command ran are looked at first and stay protected.
const (
	maxPins      = 256    // more are watched
	maxExtra     = 64     // paths that configuration or a policy adds
	maxMarked    = 65_536 // directories of the workspace that are remembered as they were; the rest is looked at each time
	maxHomes     = 1024   // directories with a repository that a person can have
	maxGitDirs   = 512    // git directories, beyond which a command can make no more
	maxPerKind   = 32     // submodules, worktrees: more are pinned as a whole
	maxPinnedGit = 40     // directories with a repository that are pinned; more are watched
	maxGitDepth  = 6      // of submodules in submodules
	maxWay       = 32     // parts of a path that a ".git" file names
	maxTold      = 64     // changes that one look reports, and as many errors and notes
)

// errUnprotected is wrapped by what begin and end return where the workspace
// may hold what a box put there, or where a pin is lost: the box must be closed.
var errUnprotected = errors.New("the workspace is not protected")

// Reverted is one change to a protected path of the workspace that was taken
// back. Its words are for the agent.
type Reverted struct {
	Path string // relative to the workspace
	What string // what was done and why; together with Path a sentence
}

// String is the sentence.
func (r Reverted) String() string { return "`" + r.Path + "` " + r.What }

// pin is a path that an init binds over itself.
type pin struct {
	Path     string // relative to the workspace, no link in any part of it
	Dir      bool
	Writable bool // only held in its place, and as it was otherwise
}

// protector guards one workspace, for all boxes that work in it. Its methods
// are safe for concurrent use.
type protector struct {
	root   *os.File // the workspace
	where  string   // its path on the host
	trust           // in its file system
	pulse  pulse
	report func(Reverted) // tells the operator; nil for nobody

	mu      sync.Mutex
	running int
	watches []*watch   // of the commands that run
	taken   int        // number of changes that were ever taken back
	news    []Reverted // the last of it, while commands run
	failed  int        // looks that failed in a row
	whole   time.Time  // when the next whole look is due; until then looks are short
	guards  map[string]*guard
	extra   map[string]string // further paths and their reasons
	also    map[string]string // those of them that the policy named
	notes   []string
	seen    []mark          // what the last look looked at; nil where that says nothing
	plain   map[string]mark // directories of the workspace without a repository
	homes   []*home         // the directories with one, those known longest first
	made    map[ident]bool  // those that a command made since
	vacant  map[string]bool // where a command has removed one that it did not make
	setIDs  []string        // files whose mode gives rights away
	record  string          // where homes and setIDs are kept for the next server; empty for nowhere
	unsaved bool            // homes or setIDs differ from the record
	skipped map[string]bool // directories with a repository that are not looked at: a person has more than maxHomes
	repos   map[string]bool // git directories that were there when no command ran
	seed    maphash.Seed
}

// guard is one protected path, and what it was when no command ran.
type guard struct {
	rule
	held     bool  // pinned in every box, so no box can change it, and only its identity is compared
	watched  bool  // pinned in no box: there is too much
	id       ident // of what is held
	was      *entry
	accepted map[string]bool // settings that were there, of a configuration
	tail     string          // the end of that configuration that git cannot read
	used     bool            // by this look; one that is not used is dropped after it
	unread   bool            // an index that was too large when no command ran
	changed  unix.Timespec   // ctime of a file that gives rights away, when no command ran
}

// rule is what may be at a path besides what was.
type rule struct {
	why     string
	dir     bool                   // a directory, whatever it holds
	through bool                   // on the way to a protected path: anything but a link
	samples bool                   // a directory of files named *.sample
	text    func(text []byte) bool // a file with such a text
	loose   bool                   // never pinned: it may change, within bounds
	setID   bool                   // a file that gives rights away, whatever other names it has
}

// mark is something that a look looked at, as it was then.
type mark struct {
	path string
	id   ident
	time unix.Timespec // of its last change
	text bool          // its text is compared, and not its time
	sum  uint64        // of its text
}

// newProtector protects the directory that workspace is, and the paths also in
// it. What it knows is kept in the file record, unless that is empty. It closes
// nothing; close the protector.
func newProtector(workspace *os.File, also []string, record string) (*protector, error) {
	fd, err := unix.Openat(int(workspace.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the workspace to protect it: %w", err)
	}
	p := &protector{
		root: os.NewFile(uintptr(fd), "workspace"), guards: map[string]*guard{}, also: map[string]string{}, made: map[ident]bool{}, vacant: map[string]bool{}, seed: maphash.MakeSeed(), record: record,
	}
	p.pulse.mu, p.pulse.look = &p.mu, p.beat
	err = p.prepare(also)
	if err != nil {
		_ = p.close()
		return nil, fmt.Errorf("protect the workspace: %w", err)
	}
	return p, nil
}

func (p *protector) prepare(also []string) (err error) {
	if p.where, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p.root.Fd())); err != nil {
		return err
	}
	if len(also) > maxExtra {
		return fmt.Errorf("the profile names %d paths, at most %d are taken; name a directory that holds several of them", len(also), maxExtra)
	}
	for _, a := range also {
		clean := path.Clean(a)
		if clean == "." || !inside(clean) || strings.ContainsRune(clean, 0) {
			return fmt.Errorf("the path %q is not one in the workspace", a)
		}
		p.also[clean] = "the policy protects it"
	}
	p.trust = trustIn(p.root)
	if err := p.load(); err != nil {
		return err
	}
	l := p.look(true)
	l.first, l.keep = true, p.alone()
	defer p.release()
	if l.keep {
		if l.doubt, err = p.doubt(); err != nil {
			return err
		}
	}
	l.run()
	if len(l.suspects) > 0 {
		return fmt.Errorf("a server was killed while a command ran, and what that may have made would run when a person uses the workspace: %s; read or remove it, and then remove %s", strings.Join(l.suspects, ", "), p.soiled())
	}
	if len(l.errs) > 0 {
		return errors.Join(l.errs...)
	}
	if err := p.save(); err != nil {
		return err
	}
	return p.clean()
}

// close waits for a look that is under way and lets go of the workspace. No
// method may be called after it.
func (p *protector) close() error {
	p.pulse.close()
	for _, h := range p.homes {
		h.dir.Close()
	}
	return p.root.Close()
}

// remarks are what the operator should know: configuration that is not
// followed, or programs in the workspace that it names.
func (p *protector) remarks() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// pins are the paths that the init of a new box binds over themselves, in the
// order of mounting: a directory before what is in it.
func (p *protector) pins() ([]pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		defer p.release()
		if err := p.adopt(); err != nil {
			return nil, err
		}
	}
	return p.list()
}

// list is pins, from what is known. p.mu is held. What is held in every box
// comes before what boxes that are older do not hold.
func (p *protector) list() ([]pin, error) {
	var all []pin
	closed := "" // the last directory that is pinned as a whole
	for _, name := range slices.SortedFunc(maps.Keys(p.guards), byParts) {
		if closed != "" && strings.HasPrefix(name, closed+"/") {
			continue
		}
		g := p.guards[name]
		if g.loose || g.watched {
			continue
		}
		fd, err := openBeneath(int(p.root.Fd()), name, unix.O_PATH, 0)
		if err != nil {
			continue // absent, or behind a link: watched
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil || !isDir(&st) && !isRegular(&st) || g.through && !isDir(&st) {
			continue
		}
		one := pin{Path: name, Dir: isDir(&st), Writable: isDir(&st) && (g.dir || g.through)}
		if one.Dir && !one.Writable {
			closed = name
		}
		all = append(all, one)
	}
	chosen := map[string]bool{}
	choose := func(one pin) {
		for at := one.Path; at != "."; at = path.Dir(at) {
			if g := p.guards[at]; g != nil && !g.loose && !g.watched {
				chosen[at] = true // with the directories that it lies in: to move one would move the pin along
			}
		}
	}
	for _, one := range all {
		if p.guards[one.Path].held {
			choose(one)
		}
	}
	for _, one := range all {
		if len(chosen) >= maxPins-maxWay {
			break
		}
		if !p.guards[one.Path].through {
			choose(one)
		}
	}
	all = slices.DeleteFunc(all, func(one pin) bool { return !chosen[one.Path] })
	if len(all) > maxPins+maxWay {
		return nil, fmt.Errorf("%w: more than %d paths of the workspace are to be pinned, %s among them", errUnprotected, maxPins, plain(all[maxPins].Path))
	}
	return all, nil
}

// byParts orders paths so that what is in a directory follows it at once.
func byParts(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// judge looks and takes back. The last look is the one after which no command
// runs, and a short one leaves out the directories at the top. p.mu is held.
func (p *protector) judge(last, short bool) ([]Reverted, error) {
	if p.unchanged() {
		return nil, nil
	}
	l := p.look(false)
	l.last, l.short = last, short
	l.run()
	if len(l.errs) > 0 {
		return l.told, fmt.Errorf("%w: %w", errUnprotected, errors.Join(l.errs...))
	}
	return l.told, nil
}

// adopt takes what is there now as given, unless another server runs a command
// in the same workspace. p.mu is held, and none runs here.
func (p *protector) adopt() error {
	if !p.alone() || p.unchanged() {
		return nil
	}
	l := p.look(true)
	l.keep = true
	l.run()
	if len(l.errs) > 0 {
		return fmt.Errorf("%w: %w", errUnprotected, errors.Join(l.errs...))
	}
	if err := p.save(); err != nil {
		return fmt.Errorf("%w: keep what is known of it: %w", errUnprotected, err)
	}
	return nil
}

// alone reports whether no other server runs a command in this workspace. They
// agree by flock(2) on the directory, which leaves nothing behind. A box may
// take that lock as well, and then only keeps what a person changes meanwhile
// from being adopted.
func (p *protector) alone() bool { return p.flock(unix.LOCK_EX) == nil }
func (p *protector) share()      { _ = p.flock(unix.LOCK_SH) }
func (p *protector) release()    { _ = p.flock(unix.LOCK_UN) }

func (p *protector) flock(how int) error {
	if p.near {
		return lockNow(int(p.root.Fd()), how)
	}
	return unix.Flock(int(p.root.Fd()), how|unix.LOCK_NB)
}

// unchanged reports whether everything that the last look looked at is as it
// was. Of a directory, its time tells (it cannot be set: ctime, inode(7)). Of a
// file that a box may write, only its text does: a write through a shared
// mapping does not show in its times (mmap(2), "Timestamps changes for
// file-backed mappings").
func (p *protector) unchanged() bool {
	if p.seen == nil || !p.times {
		return false
	}
	for i := range p.seen {
		if !p.same(&p.seen[i]) {
			return false
		}
	}
	return true
}

func (p *protector) same(m *mark) bool {
	if m.text {
		text, err := readAt(p.root, m.path, maxConfigText)
		return err == nil && maphash.Bytes(p.seed, text) == m.sum
	}
	var st unix.Stat_t
	var err error
	switch {
	case m.path == "" && p.near:
		err = statNow(int(p.root.Fd()), &st)
	case m.path == "":
		err = unix.Fstat(int(p.root.Fd()), &st)
	case !strings.Contains(m.path, "/"):
		err = unix.Fstatat(int(p.root.Fd()), m.path, &st, unix.AT_SYMLINK_NOFOLLOW)
	default:
		var fd int
		if fd, err = openBeneath(int(p.root.Fd()), m.path, unix.O_PATH, 0); err == nil {
			err = unix.Fstat(fd, &st)
			unix.Close(fd)
		}
	}
	return err == nil && identOf(&st) == m.id && st.Ctim == m.time
}

// look is one walk over all that is protected: to take back what a command
// did, or to adopt what is there.
type look struct {
	p           *protector
	adopt       bool
	last        bool      // no command is left that could change anything
	first, keep bool      // adopting for the first time; what is there may be put back later
	begun       time.Time // by the clock that the times of files are taken from
	copier      copier
	left        int   // entries that may still be removed
	indexes     int64 // bytes of indexes that may still be read
	linkParts   int   // parts of paths in them that may still be looked at
	short       bool  // leaving out what a box can make long: the directories at the top
	marks       []mark
	loose       bool // what is looked at is watched, and not pinned: there are enough pins
	pins        int  // what is pinned in every box
	repos       map[string]bool
	young       bool // something changed so lately that its time may not show the next change
	dirs        int  // git directories
	done        map[string]bool
	marked      map[string]bool
	extra       map[string]string
	doubt       time.Time // adopting after a server that was killed: what changed since may be a box's
	suspects    []string  // of that what would run
	told        []Reverted
	errs        []error
	notes       []string
}

// look begins one. p.mu is held, or p not yet known to anybody.
func (p *protector) look(adopt bool) *look {
	return &look{
		p: p, adopt: adopt, begun: fileClock(), left: maxRemoved, indexes: maxIndexes, linkParts: maxLinkParts, done: map[string]bool{}, marked: map[string]bool{}, repos: map[string]bool{}, extra: maps.Clone(p.also),
		copier: copier{files: maxKeptFiles, bytes: maxKeptText},
	}
}

func (l *look) run() {
	for _, g := range l.p.guards {
		g.used = false
	}
	l.watch(l.p.root, "")
	l.names()
	if l.first {
		l.findSetIDs()
	}
	l.guardSetIDs()
	l.git()
	extra := l.p.extra
	if l.adopt {
		extra = l.extra
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		l.sealPath(name, extra[name])
	}
	if l.adopt {
		l.p.extra, l.p.notes, l.p.repos = extra, l.notes, l.repos
	}
	for name, g := range l.p.guards {
		if !g.used && (l.adopt || !g.held && g.was == nil) {
			delete(l.p.guards, name)
		}
	}
	// What was taken back or changed a moment ago is looked at again.
	l.p.seen = nil
	if len(l.told) == 0 && len(l.errs) == 0 && !l.young && !l.short {
		l.p.seen = l.marks
	}
}

// open opens a directory and marks it; nil where there is none to be followed.
func (l *look) open(dir *os.File, at string) *os.File {
	sub, err := openDir(dir, path.Base(at), unix.O_PATH)
	switch {
	case err == nil:
		l.watch(sub, at)
		return sub
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
		l.fail(at, err)
	}
	return nil
}

// enter is open for a directory in which a box may hide something by taking the
// right to look into it from its owner.
func (l *look) enter(dir *os.File, at string) *os.File {
	sub := l.open(dir, at)
	if sub == nil || l.adopt {
		return sub
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(sub.Fd()), &st); err == nil && st.Mode&0o500 != 0o500 {
		if err := chmod(sub, st.Mode|0o700); err != nil {
			l.fail(at, err)
		}
	}
	return sub
}

// watch marks a directory whose entries matter.
func (l *look) watch(dir *os.File, at string) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		l.fail(at, err)
		return
	}
	l.mark(at, &st)
}

func (l *look) mark(at string, st *unix.Stat_t) {
	if l.marked[at] {
		return
	}
	l.marked[at] = true
	l.young = l.young || l.tooYoung(st)
	l.marks = append(l.marks, mark{path: at, id: identOf(st), time: st.Ctim})
}

// fileClock is the clock that the times of files are taken from before Linux
// 6.13: it goes on with the kernel's tick, which may be late on a machine that
// is itself virtual (clock_getres(2), CLOCK_REALTIME_COARSE).
func fileClock() time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return time.Time{} // everything is young then
	}
	return time.Unix(now.Unix())
}

// tooYoung reports whether something may change once more and show the same
// time: it changed in the tick in which the look began, or later. It must have
// been asked for its time before it is looked at.
func (l *look) tooYoung(st *unix.Stat_t) bool {
	begun := l.begun
	switch {
	case l.p.fine:
		return false
	case st.Ctim.Nsec == 0:
		begun = begun.Add(-2 * time.Second) // a file system that counts seconds
	}
	return !time.Unix(st.Ctim.Unix()).Before(begun)
}

func (l *look) markText(at string, text []byte) {
	l.marks = append(l.marks, mark{path: at, text: true, sum: maphash.Bytes(l.p.seed, text)})
}

func (l *look) fail(at string, err error) {
	if len(l.errs) < maxTold {
		l.errs = append(l.errs, fmt.Errorf("%s: %w", at, err))
	}
}

func (l *look) tell(at, format string, args ...any) {
	switch {
	case len(l.told) < maxTold:
		l.told = append(l.told, Reverted{Path: plain(at), What: fmt.Sprintf(format, args...)})
	case len(l.told) == maxTold:
		l.told = append(l.told, Reverted{Path: plain(at), What: "and other protected paths were put back or removed as well."})
	}
}

func (l *look) note(format string, args ...any) {
	if len(l.notes) < maxTold {
		l.notes = append(l.notes, fmt.Sprintf(format, args...))
	}
}

// plain is a name that a box chose, fit to be shown.
func plain(name string) string {
	const most = 200
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '`' || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}

// guard returns the guard of a path for this look. A new one says that nothing was
// at the path when no command ran.
func (l *look) guard(at string, r rule) *guard {
	g := l.p.guards[at]
	if g == nil {
		g = new(guard)
		l.p.guards[at] = g
	}
	g.watched = g.watched || l.loose
	g.rule, g.used = r, true
	return g
}

// names looks at the paths that are protected by their names. Patterns are left
// to git, which lists the workspace, where they are of names in it.
func (l *look) names() {
	for why, names := range protectedNames {
		for _, name := range names {
			switch dir, last := path.Split(name); {
			case dir == "" && isPattern(last):
			case dir == "":
				l.seal(l.p.root, name, rule{why: why})
			default:
				l.named(l.p.root, "", name, why)
			}
		}
	}
	l.others(l.p.root, "")
}

// named looks at a path of several parts beneath dir, which is at a path of the
// workspace.
func (l *look) named(dir *os.File, at, name, why string) {
	way, last := path.Split(name)
	sub := l.way(dir, at, way, rule{why: why, through: true})
	if sub == nil {
		return
	}
	defer sub.Close()
	at = path.Join(at, path.Clean(way))
	if !isPattern(last) {
		l.seal(sub, path.Join(at, last), rule{why: why})
		return
	}
	list, err := openToList(sub, ".")
	if err != nil {
		l.fail(at, err)
		return
	}
	defer list.Close()
	err = eachEntry(list, func(e dirent) bool {
		if matches(last, e.name) {
			l.seal(sub, path.Join(at, e.name), rule{why: why})
		}
		return true
	})
	if err != nil {
		l.fail(at, err)
	}
	l.gone(sub, at, last, why)
}

// gone looks at what a pattern matched when no command ran, and is not there.
func (l *look) gone(dir *os.File, at, pattern, why string) {
	for name, g := range l.p.guards {
		if !g.used && (path.Dir(name) == at || at == "" && !strings.Contains(name, "/")) && matches(pattern, path.Base(name)) {
			l.seal(dir, name, rule{why: why})
		}
	}
}

// others looks at the repositories in a directory that are not git's.
func (l *look) others(dir *os.File, at string) bool {
	found, last, there := false, "", false
	for _, name := range repositoryNames {
		top, _, _ := strings.Cut(name, "/")
		if top != last {
			st, err := statAt(dir, top)
			last, there = top, err == nil && st != nil
			found = found || there
		}
		if there {
			l.named(dir, at, name, byVCS)
		}
	}
	return found
}

// way looks at the directories on a way beneath dir, and opens the last of them:
// nil where it is absent, or protected as a whole. The caller must close it.
func (l *look) way(dir *os.File, at, way string, r rule) *os.File {
	var last *os.File
	for part := range strings.SplitSeq(path.Clean(way), "/") {
		at = path.Join(at, part)
		if g := l.p.guards[at]; g == nil || !g.used {
			l.seal(dir, at, r)
		} else if !g.dir && !g.through {
			dir = nil // protected as a whole
		} else if r.dir && !g.dir {
			g.dir, g.through = true, false
		}
		var sub *os.File
		if dir != nil {
			sub = l.enter(dir, at)
		}
		if last != nil {
			last.Close()
		}
		if sub == nil {
			return nil
		}
		dir, last = sub, sub
	}
	return last
}

// sealPath protects a path of several parts. The directories on the way are
// held in their place, and none may become a link.
func (l *look) sealPath(at, why string) {
	dir := l.p.root
	if strings.Contains(at, "/") {
		if dir = l.way(l.p.root, "", path.Dir(at), rule{why: why, dir: true}); dir != nil {
			defer dir.Close()
		}
	}
	switch g := l.p.guards[at]; {
	case dir == nil:
	case path.Base(at) == ".git":
		l.gitAt(dir, at)
	case g == nil || !g.used || g.dir || g.through:
		l.seal(dir, at, rule{why: why})
	}
	if l.adopt {
		l.resolve(at, why)
	}
}

// resolve protects what a link leads to, where that is in the workspace too.
func (l *look) resolve(at, why string) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(l.p.root.Fd()), at, &how)
	if err != nil {
		return // absent, or outside, where no box can write
	}
	defer unix.Close(fd)
	full, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return
	}
	rel, err := filepath.Rel(l.p.where, full)
	if err != nil || rel == at || !inside(rel) {
		return
	}
	l.addExtra(rel, why)
	if l.p.guards[rel] == nil || !l.p.guards[rel].used {
		l.sealPath(rel, why)
	}
}

func (l *look) addExtra(at, why string) {
	if at == "." {
		l.note("the workspace itself is named where hooks or configuration are looked for; it cannot be protected as a whole")
		return
	}
	if len(l.extra) >= maxExtra && l.extra[at] == "" {
		l.note("%s is not protected: it is named as one that runs, and at most %d such paths are taken", plain(at), maxExtra)
		return
	}
	l.extra[at] = why
}

// seal protects one path, whose last part is looked for in dir.
func (l *look) seal(dir *os.File, at string, r rule) {
	g := l.guard(at, r)
	name := path.Base(at)
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	switch {
	case l.adopt:
		l.take(g, dir, at, st)
	case st == nil && g.was == nil && !g.held:
	case g.held && st != nil && identOf(st) == g.id:
		// Pinned; whoever changed what is in it was not in a box.
	case g.held && st == nil:
		// No box can remove what is pinned: somebody on the host did.
		g.held, g.was = false, nil
	case g.through && (g.was == nil || g.was.mode&unix.S_IFMT != unix.S_IFLNK):
		g.held = false
		if isLink(st) || isRegular(st) && strings.Contains(at, "/") {
			l.remove(dir, at, name, &g.rule)
		}
	case g.dir && (st == nil || isDir(st)) && (g.was == nil || g.was.mode&unix.S_IFMT == unix.S_IFDIR):
		g.held = false
	case g.held && (g.was == nil || g.was.bare):
		// On the host it was moved or replaced, which ends its pin in every
		// box (kernel: fs/namespace.c, __detach_mounts).
		g.held = false
		l.fail(at, errors.New("it was replaced while a command ran, and its pin is lost"))
	default:
		g.held = false
		l.restore(dir, at, name, g.was, &g.rule, 0)
	}
	if !g.held && st != nil {
		l.markKept(at, g.was)
	}
}

// markKept marks what a box could write to of what is kept.
func (l *look) markKept(at string, e *entry) {
	switch {
	case e == nil || e.bare:
	case e.mode&unix.S_IFMT == unix.S_IFREG:
		l.markText(at, e.text)
	case e.mode&unix.S_IFMT == unix.S_IFDIR:
		if d, err := openDir(l.p.root, at, unix.O_PATH); err == nil {
			l.watch(d, at)
			d.Close()
		}
		for name, kid := range e.kids {
			l.markKept(path.Join(at, name), kid)
		}
	}
}

// take records what is at a path now as the state to which later looks restore it.
func (l *look) take(g *guard, dir *os.File, at string, st *unix.Stat_t) {
	if st == nil {
		g.held, g.was = false, nil
		return
	}
	if !g.setID {
		l.suspect(dir, at, st, &g.rule, 0)
	}
	same := g.held && identOf(st) == g.id
	// A file with a second name can be written through that name, pin or not.
	g.held = same || (isDir(st) || isRegular(st) && (st.Nlink == 1 || g.setID)) && l.hold(g)
	g.id = identOf(st)
	if isLink(st) && !g.dir {
		l.resolve(at, g.why)
	}
	if isDir(st) && (g.held || g.dir || g.through) {
		g.was = &entry{mode: st.Mode, id: g.id, bare: true}
		return
	}
	if same && !isRegular(st) {
		return
	}
	l.copier.samples = g.samples
	was, err := l.copier.take(dir, path.Base(at), 0)
	if err != nil {
		l.fail(at, err)
		return
	}
	if was != nil && !l.keep {
		// Another server's command runs: what it made must not come back.
		was.bare, was.text, was.kids = true, nil, nil
	}
	g.was = was
}

// hold reports whether a guard is one of those that every box pins.
func (l *look) hold(g *guard) bool {
	if !l.first || g.loose || g.watched {
		return false
	}
	l.pins++
	g.watched = l.pins > maxPins
	return !g.watched
}

// restore makes name in dir what it was, or takes it away if it was nothing.
func (l *look) restore(dir *os.File, at, name string, was *entry, r *rule, depth int) {
	st, err := statAt(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	switch {
	case st == nil && was == nil:
	case st == nil:
		l.putBack(dir, at, name, was, "removed")
	case was == nil && l.allowed(dir, name, st, r, depth):
		if r.samples && depth == 0 {
			l.restoreKids(dir, at, name, nil, r, depth)
		}
	case was == nil:
		l.remove(dir, at, name, r)
	case was.mode&unix.S_IFMT != kindOf(st):
		if err := removeAt(dir, name, &l.left); err != nil {
			l.fail(at, err)
			return
		}
		l.putBack(dir, at, name, was, "replaced")
	case isDir(st) && !was.bare:
		l.restoreKids(dir, at, name, was.kids, r, depth)
	case isDir(st):
		if identOf(st) != was.id {
			l.fail(at, errors.New("it was replaced, and was too large to be kept"))
		}
	case isRegular(st) && !was.bare:
		if st.Mode != was.mode || !sameText(dir, name, was.text) {
			if err := replaceAt(dir, name, was.text, was.mode, was.uid, was.gid); err != nil {
				l.fail(at, err)
				return
			}
			l.tell(at, "was put back as it was: %s.", r.why)
		}
	case isLink(st):
		if now, err := readlinkAt(dir, name); err != nil || now != was.link {
			if err := removeAt(dir, name, &l.left); err != nil {
				l.fail(at, err)
				return
			}
			l.putBack(dir, at, name, was, "replaced")
		}
	case identOf(st) != was.id:
		l.fail(at, errors.New("it was replaced, and could not be put back"))
	}
}

// remove takes away what appeared. Of a tree that is too large to be removed at
// once the rest is moved out of effect.
func (l *look) remove(dir *os.File, at, name string, r *rule) {
	err := removeAt(dir, name, &l.left)
	if errors.Is(err, errBound) {
		aside := "removed-" + rand.Text()
		err = mayWrite(dir, func() error { return unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), aside) })
		if err == nil {
			l.tell(at, "was renamed to `%s`: %s. It holds too many files to be removed at once; remove it.", aside, r.why)
			return
		}
	}
	if err != nil {
		l.fail(at, err)
		return
	}
	l.tell(at, "was removed: %s. If it is wanted, ask the person to put it there, or the operator for a profile with `fs: {protect: none}`.", r.why)
}

func (l *look) putBack(dir *os.File, at, name string, was *entry, what string) {
	if err := was.put(dir, name); err != nil {
		l.fail(at, fmt.Errorf("put back: %w", err))
		return
	}
	l.tell(at, "had been %s and was put back.", what)
}

// restoreKids makes the entries of a directory what they were.
func (l *look) restoreKids(dir *os.File, at, name string, kids map[string]*entry, r *rule, depth int) {
	d, err := openToList(dir, name)
	if err != nil {
		l.fail(at, err)
		return
	}
	defer d.Close()
	l.watch(d, at)
	// However many there are: a command may hide one among others.
	here := make(map[string]bool, len(kids))
	err = eachEntry(d, func(e dirent) bool {
		if kids[e.name] != nil {
			here[e.name] = true
		}
		l.restore(d, path.Join(at, e.name), e.name, kids[e.name], r, depth+1)
		return true
	})
	if err != nil {
		l.fail(at, err)
	}
	for n, kid := range kids {
		if !here[n] {
			l.restore(d, path.Join(at, n), n, kid, r, depth+1)
		}
	}
}

// allowed reports whether a rule lets something be where nothing was.
func (l *look) allowed(dir *os.File, name string, st *unix.Stat_t, r *rule, depth int) bool {
	switch {
	case isDir(st):
		return r.dir || r.samples && depth == 0
	case r.samples:
		return isRegular(st) && strings.HasSuffix(name, ".sample")
	case r.text != nil && isRegular(st):
		text, err := readAt(dir, name, 4096)
		return err == nil && r.text(text)
	}
	return false
}
