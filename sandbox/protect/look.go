package protect

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/printable"
)

// look is one pass over all protected paths. It takes back the changes that a
// command made, or adopts the present state.
type look struct {
	p           *Protector
	adopt       bool
	last        bool      // no command is left that could change anything
	first, keep bool      // adopting for the first time; the present state may be restored later
	begun       time.Time // by the clock that the times of files are taken from
	*budget
	left      int  // entries that may still be removed
	short     bool // leaving out what a box can make long: the directories at the top
	marks     []mark
	loose     bool // what is looked at is watched, and not pinned: there are enough pins
	pins      int  // what is pinned in every box
	repos     map[string]bool
	young     bool // something changed so lately that its time may not show the next change
	dirs      int  // git directories
	trees     int  // work trees: ".git" files
	done      map[string]bool
	marked    map[string]bool
	extra     map[string]string
	doubt     time.Time // adopting when a command may have run: what changed since may be a box's
	deepDoubt time.Time // the same of what the walk finds
	made      bool      // since then, the ".git" of the workspace itself
	suspects  []string  // of that what would run
	home      string    // the known home that is looked at; "." for the workspace, empty for a new one
	alongOf   string    // directory; along says whether what is in it came there with it
	along     bool
	late      string          // the one repository that is adopted, while guards of others stay as they are
	fresh     map[string]bool // new guards of it
	told      []Reverted
	errs      []error
	notes     []string
}

// budget is what a look, or several that are one work, may still read and keep.
type budget struct {
	copier    copier
	indexes   int64               // bytes of indexes
	linked    map[string][]string // what those name that were read, by their paths
	linkParts int                 // parts of paths in them
}

func newBudget() *budget {
	return &budget{
		copier:  copier{files: maxKeptFiles, bytes: maxKeptText},
		indexes: maxIndexes, linked: map[string][]string{}, linkParts: maxLinkParts,
	}
}

// look begins one. p.mu is held, or p not yet known to anybody.
func (p *Protector) look(adopt bool) *look {
	return &look{
		p: p, adopt: adopt, home: ".", begun: fileClock(), budget: newBudget(), left: maxRemoved, done: map[string]bool{}, marked: map[string]bool{}, repos: map[string]bool{}, extra: maps.Clone(p.also),
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
	doubt := l.doubt
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		l.doubt = doubt
		if l.p.also[name] != "" && !l.keep {
			l.doubt = time.Time{} // the other server's boxes may write there
		}
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
	// The next look must look again at what this one took back, or what changed
	// a moment ago.
	l.p.seen = nil
	if len(l.told) == 0 && len(l.errs) == 0 && !l.young && !l.short {
		l.p.seen = l.marks
	}
}

// open opens a directory and marks it. It returns nil if the path is missing, a
// link or a file.
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

// enter is open for a directory that a box may have closed to its owner to hide
// something in it: enter gives the owner the right to read it back.
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
	l.young = l.young || l.mayHide(at, st)
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
func (t trust) tooYoung(st *unix.Stat_t, begun time.Time) bool {
	return (!t.fine || wholeSeconds(st)) && changedSince(st, begun)
}

// mayHide reports whether the time of what is at a path may not show its next
// change.
func (l *look) mayHide(at string, st *unix.Stat_t) bool {
	t := l.p.trustAt(cmp.Or(at, "."), st)
	return !t.times || t.tooYoung(st, l.begun)
}

// wholeSeconds reports whether the file system of a file seems to count seconds,
// whatever is true of its kind: ext4 has no room for more in inodes of 128 bytes
// (ext4(5), "large inodes"), and FAT counts two at a time.
func wholeSeconds(st *unix.Stat_t) bool { return st.Ctim.Nsec == 0 }

// changedSince reports whether something changed at a time or later, or may have.
func changedSince(st *unix.Stat_t, since time.Time) bool {
	if wholeSeconds(st) {
		since = since.Add(-2 * time.Second)
	}
	return !time.Unix(st.Ctim.Unix()).Before(since)
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
		if r == '`' || !printable.Rune(r) {
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
	if l.settledBefore(at) {
		g.used = true
		return g
	}
	if g == nil {
		g = new(guard)
		l.p.guards[at] = g
		if l.fresh != nil {
			l.fresh[at] = true
		}
	}
	g.watched = g.watched || l.loose
	g.rule, g.used = r, true
	return g
}

// settledBefore reports whether a late adoption must not change what is known of
// a path: a command may have changed it since.
func (l *look) settledBefore(at string) bool {
	return l.late != "" && l.p.guards[at] != nil && !l.fresh[at]
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

// resolve protects what a link leads to, where that is in the workspace too, and
// all links on the way: to replace one of them leads elsewhere.
func (l *look) resolve(at, why string) {
	links, end := l.p.trail(at)
	if end != "." {
		links = append(links, end)
	}
	for _, one := range links {
		if one == at {
			continue
		}
		l.addExtra(one, why)
		if l.p.guards[one] == nil || !l.p.guards[one].used {
			l.sealPath(one, why)
		}
	}
}

// maxLinks is how many links the kernel follows in one path (path_resolution(7)).
const maxLinks = 40

// trail is the links of the workspace that a path goes over, and what it ends
// at; "." is a place outside, where no box can write.
func (p *Protector) trail(at string) (links []string, end string) {
	done, left := ".", strings.Split(at, "/")
	for len(left) > 0 {
		here := path.Join(done, left[0])
		left = left[1:]
		if !inside(here) {
			return links, "."
		}
		to, err := p.readlink(here)
		if err != nil {
			done = here
			continue
		}
		if links = append(links, here); len(links) > maxLinks {
			return links, "."
		}
		from := path.Dir(here)
		if path.IsAbs(to) {
			rel, ok := p.place(".", to)
			if !ok {
				return links, "."
			}
			from, to = ".", rel
		}
		done, left = from, append(strings.Split(to, "/"), left...)
	}
	return links, done
}

// readlink is what a link of the workspace says.
func (p *Protector) readlink(at string) (string, error) {
	dir, err := openDir(p.root, path.Dir(at), unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return readlinkAt(dir, path.Base(at))
}

func (l *look) addExtra(at, why string) {
	if at == "." {
		l.note("the workspace itself is named where hooks or configuration are looked for; it cannot be protected as a whole")
		return
	}
	if len(l.extra) >= maxExtra+len(l.p.also) && l.extra[at] == "" {
		l.note("%s is not protected: it is named as one that runs, and at most %d such paths are taken", plain(at), maxExtra)
		return
	}
	l.extra[at] = why
}
