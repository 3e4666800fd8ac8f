package policies

import "slices"

// Whether one match covers another is computed from their texts. If it is not certain, the
// result is false.

// covers reports whether the match speaks about every part of every call that other speaks
// about. tools says whether the tools are compared too.
func (m *match) covers(other *match, tools bool) bool {
	if tools && len(m.tools) > 0 && (len(other.tools) == 0 || !each(other.tools, m.tools, element.within)) {
		return false
	}
	if len(m.profiles) > 0 {
		same := func(a, b named) bool { return a.name == b.name }
		if len(other.profiles) == 0 || !each(other.profiles, m.profiles, same) {
			return false
		}
	}
	if len(m.upstreams) > 0 && (len(other.upstreams) == 0 || !each(other.upstreams, m.upstreams, element.within)) {
		return false
	}
	for _, h := range m.hints {
		if !slices.Contains(other.hints, h) {
			return false
		}
	}
	if len(m.flags)+len(m.anyFlag)+len(m.env) > 0 {
		return false
	}
	if !m.typed() {
		return true
	}
	if len(m.acts) > 0 {
		return m.coversActs(other)
	}
	if len(other.acts) > 0 {
		return false
	}
	return other.typed() &&
		each(other.commands, m.commands, glob.within) && each(other.paths, m.paths, glob.within) &&
		each(other.urls, m.urls, urlGlob.within) && each(other.hosts, m.hosts, hostMatch.within)
}

// coversActs does the same as covers, for a match with acts: all keys of a match must fit
// one act.
func (m *match) coversActs(other *match) bool {
	part := func(some, others []urlGlob) bool {
		return len(others) == 0 || len(some) > 0 && each(some, others, urlGlob.within)
	}
	same := func(a, b ActKind) bool { return a == b }
	return len(other.acts) > 0 && each(other.acts, m.acts, same) && part(other.places, m.places) && part(other.urls, m.urls) &&
		(len(m.paths) == 0 || len(other.paths) > 0 && each(other.paths, m.paths, glob.within))
}

// each reports whether each of some is within one of others.
func each[T any](some, others []T, within func(T, T) bool) bool {
	for _, one := range some {
		if !slices.ContainsFunc(others, func(o T) bool { return within(one, o) }) {
			return false
		}
	}
	return true
}

// within reports whether o stands for every text that e stands for. A star in e counts as a
// letter that only a star in o matches.
func (e element) within(o element) bool {
	if e.any || o.any {
		return o.any
	}
	return !slices.ContainsFunc(e.choice, func(c string) bool { return !o.match(c) })
}

// meets reports whether some text may fit both elements.
func (e element) meets(o element) bool {
	return slices.ContainsFunc(e.choice, func(a string) bool {
		return slices.ContainsFunc(o.choice, func(b string) bool { return star(a, b) || star(b, a) })
	})
}

// within reports whether o matches every sequence that g matches.
func (g glob) within(o glob) bool {
	type at struct{ i, k int }
	seen := make(map[at]bool)
	var fits func(i, k int) bool
	fits = func(i, k int) bool {
		if seen[at{i, k}] {
			return false // this place was tried before, without success
		}
		seen[at{i, k}] = true
		switch {
		case i == len(o.elements):
			return k == len(g.elements)
		case o.elements[i].any:
			return fits(i+1, k) || k < len(g.elements) && fits(i, k+1)
		case k == len(g.elements) || g.elements[k].any:
			return false
		}
		return g.elements[k].within(o.elements[i]) && fits(i+1, k+1)
	}
	return fits(0, 0)
}

// within reports whether o matches every URL that g matches.
func (g urlGlob) within(o urlGlob) bool {
	host := o.host == "*" || o.host == g.host
	if own, err := compileHost(g.host); err == nil && !host && o.host != publicNames {
		theirs, err := compileHost(o.host)
		host = err == nil && own.within(theirs)
	}
	return host && (o.port == "*" || o.port == g.port) && g.scheme.within(o.scheme) && g.path.within(o.path)
}
