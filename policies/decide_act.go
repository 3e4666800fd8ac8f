package policies

import (
	"slices"
)

// An act is a part of a call, as a command is a part of a script. A match with the key act
// matches only acts, and all keys of the match must fit one act: on its document, url the
// URL that it leads to, path its file. A match without the key act lets no act through,
// unless it names no kind of part at all. If the match refuses, its urls, hosts and paths
// count for acts too: a rule that kept something from other tools also keeps it from a
// browser.

// readAct makes a piece of an act.
func readAct(a Act) piece {
	pc := piece{kind: anAct, text: a.String(), act: &actPiece{Act: a}}
	if lacks := a.lacks(); lacks != "" {
		pc.fault = "it does not say its " + lacks
		return pc
	}
	pc.act.on, pc.act.onUnread = readPlace(a.On)
	var err error
	if pc.act.to, err = readURL(a.To); err != nil && a.To != "" {
		pc.act.toUnread = true
	}
	switch web := pc.act.to.scheme == "http" || pc.act.to.scheme == "https"; {
	case !actsLead(a):
	case err != nil:
		pc.fault = err.Error()
	case !web:
		pc.fault = "what it leads to is not an address of http or https"
	}
	switch {
	case pc.act.to.vague || pc.act.on.vague:
		pc.doubt = "servers read a path of its URLs in different ways"
	case pc.act.onUnread || pc.act.toUnread:
		pc.doubt = "a document of it has no address that patterns can be compared with"
	}
	if a.Path != "" {
		file := readPath(a.Path)
		pc.act.file = &file
		if pc.fault == "" {
			pc.fault = file.fault
		}
		if file.doubt != "" {
			pc.doubt = "of its path: " + file.doubt
		}
	}
	return pc
}

// readPlace reads the URL of a document. unread is true for a URL that patterns cannot be
// compared with, for example about:blank.
func readPlace(s string) (a address, unread bool) {
	a, err := readURL(s)
	return a, s != "" && err != nil
}

// actPiece is an act as matches see it.
type actPiece struct {
	Act

	on, to             address
	onUnread, toUnread bool   // the act has a URL there that cannot be read
	file               *piece // file of its path; nil if it has no path
}

// actsLead reports whether an act makes a browser ask for a document at the act's To.
func actsLead(a Act) bool {
	return a.Kind == ActNavigate || a.Kind == ActFollow || a.Kind == ActSubmit
}

// aboutAct does the same as about, for an act.
func (m *match) aboutAct(pc *piece, trust bool) proof {
	if len(m.acts) == 0 {
		return m.minds(pc.act, trust)
	}
	if !slices.Contains(m.acts, pc.act.Kind) {
		return no
	}
	sure := must
	if len(m.places) > 0 {
		sure = min(sure, fits(m.places, pc.act.On, pc.act.on, pc.act.onUnread, trust))
	}
	if len(m.urls) > 0 {
		sure = min(sure, fits(m.urls, pc.act.To, pc.act.to, pc.act.toUnread, trust))
	}
	if len(m.paths) > 0 {
		sure = min(sure, m.aboutFile(pc.act.file))
	}
	return sure
}

// fits returns whether a URL of an act matches one of the patterns. An empty URL matches no
// pattern. A URL that cannot be read may match any pattern of a rule that refuses.
func fits(patterns []urlGlob, text string, a address, unread, trust bool) proof {
	switch {
	case text == "":
		return no
	case unread && trust:
		return no
	case unread:
		return may
	}
	best := no
	for _, g := range patterns {
		best = max(best, g.match(a))
	}
	return best
}

// aboutFile says whether a file is one of the match's paths.
func (m *match) aboutFile(file *piece) proof {
	best := no
	if file != nil {
		for _, g := range m.paths {
			best = max(best, g.aboutPath(file))
		}
	}
	return best
}

// minds says whether a match that does not name acts refuses an act: because of a document,
// a host or a file of the act.
func (m *match) minds(a *actPiece, trust bool) proof {
	if trust {
		return no
	}
	best := m.aboutFile(a.file)
	if len(m.urls) > 0 {
		best = max(best, fits(m.urls, a.To, a.to, a.toUnread, false), fits(m.urls, a.On, a.on, a.onUnread, false))
	}
	for _, at := range []address{a.to, a.on} {
		if h, err := ParseHost(at.host); err == nil {
			best = max(best, m.aboutHost(&piece{host: h}, false))
		}
	}
	if len(m.hosts) > 0 && (a.toUnread || a.onUnread) {
		best = max(best, may)
	}
	return best
}

// aboutHost says whether one of the match's hosts is that of a piece. As under net, "*" is
// every public name if the rule allows, and every host if it refuses.
func (m *match) aboutHost(pc *piece, trust bool) proof {
	for _, h := range m.hosts {
		if trust && h.allows(pc.host) || !trust && h.denies(pc.host) {
			return must
		}
	}
	return no
}
