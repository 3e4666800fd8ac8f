package protect

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"
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
