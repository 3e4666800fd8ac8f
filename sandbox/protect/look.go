package protect

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// look is one pass over all protected paths. It reverts the changes that a command made, or
// adopts the present state.
type look struct {
	gitLook
	short bool // whether it leaves out what a box can make long: the directories at the top
}

// look begins a look. p.mu is held, or no other goroutine knows p yet.
func (p *Protector) look(adopt bool) *look {
	l := &look{gitLook: gitLook{
		sealer: sealer{
			p: p, adopt: adopt, budget: newBudget(), left: maxRemoved, extra: maps.Clone(p.also),
			marking:  marking{in: &p.workdir, begun: fileClock(), marked: map[string]bool{}},
			doubting: doubting{root: p.root, home: "."},
		},
		done: map[string]bool{}, repos: map[string]bool{},
	}}
	l.onLink = l.resolve
	return l
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
	// The next look must look again at what this one reverted, or at what has just changed.
	l.p.seen = nil
	if len(l.told) == 0 && len(l.errs) == 0 && !l.young && !l.short {
		l.p.seen = l.marks
	}
}

// sealPath protects a path of several parts. The directories on the way are pinned in their
// place, and none of them may become a link.
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

// resolve protects what a link leads to, if that is in the workspace too, and all links on
// the way: if one of them were replaced, the path would lead elsewhere.
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
