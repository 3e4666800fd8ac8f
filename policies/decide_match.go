package policies

import (
	"slices"
	"strings"

	"belljar.dev/policies/shell"
)

// about says how sure it is that the match speaks about the piece. trust is set if the
// match is used to let the piece through: then doubt counts against the piece.
func (m *match) about(c *inquiry, pc *piece, trust bool) proof {
	if !m.on(c) {
		return no
	}
	if !m.typed() {
		return must
	}
	if pc.kind == anAct {
		return m.aboutAct(pc, trust)
	}
	if len(m.acts) > 0 {
		return no
	}
	best := no
	switch pc.kind {
	case aCommand:
		best = m.aboutCommand(pc, trust)
	case aPath:
		for _, g := range m.paths {
			best = max(best, g.aboutPath(pc))
		}
	case aURL:
		for _, g := range m.urls {
			best = max(best, g.match(pc.address))
		}
		best = max(best, m.aboutHost(pc, trust))
	case aHost:
		best = m.aboutHost(pc, trust)
	}
	return best
}

// on reports whether the match speaks about calls in the profile and of the tool.
func (m *match) on(c *inquiry) bool {
	return (len(m.profiles) == 0 || slices.ContainsFunc(m.profiles, func(n named) bool { return n.name == c.profile })) && m.from(c.facts)
}

// aboutCommand does the same as about, for one command of a script.
func (m *match) aboutCommand(pc *piece, trust bool) proof {
	if trust {
		return m.letsCommand(pc)
	}
	best := no
	for _, g := range m.commands {
		best = max(best, g.match(pc.loose))
		switch {
		case g.everything():
			best = must
		case pc.opaque, pc.swayed:
			best = max(best, may)
		}
	}
	if best != no {
		sure := m.options(pc)
		if pc.opaque || pc.swayed { // what else it may run can have any options and variables
			sure = max(sure, may)
		}
		best = min(best, sure)
	}
	for _, file := range pc.files {
		for _, g := range m.paths {
			best = max(best, g.match(file))
		}
	}
	return best
}

// letsCommand does the same as aboutCommand, for a match that is used to let the command
// through: what the command does in addition to its words must be proved too.
func (m *match) letsCommand(pc *piece) proof {
	best := no
	for _, g := range m.commands {
		if g.everything() {
			best = must
			break
		}
		sure := g.match(pc.words)
		if len(pc.words) == 0 && len(pc.env) > 0 && len(m.env) > 0 {
			sure = must // the line only sets variables, and env speaks about these
		}
		doubt := pc.vague || pc.opaque || len(m.env) == 0 && len(pc.env) > 0 || !m.allFiles(pc.files)
		if doubt {
			sure = min(sure, may)
		}
		best = max(best, sure)
	}
	if best != no {
		sure := m.options(pc)
		if len(m.flags)+len(m.anyFlag) > 0 && (pc.opaque || pc.swayed && len(m.env) == 0) {
			sure = min(sure, may) // the options of what else it may run are not known
		}
		best = min(best, sure)
	}
	// The redirections of a block or a wrapper are a part of their own.
	if len(pc.files) > 0 && (len(pc.words) == 0 || pc.wrapper) && !pc.opaque && m.allFiles(pc.files) {
		best = must
	}
	return best
}

// allFiles reports whether each of the files is surely one of the match's
// paths.
func (m *match) allFiles(files [][]word) bool {
	for _, f := range files {
		if !slices.ContainsFunc(m.paths, func(g glob) bool { return g.match(f) == must }) {
			return false
		}
	}
	return true
}

// options says how sure it is that flags, any_flag and env speak about the command.
func (m *match) options(pc *piece) proof {
	sure := must
	if len(m.flags) > 0 {
		sure = min(sure, onlyFlags(m.flags, pc.words))
	}
	if len(m.anyFlag) > 0 {
		sure = min(sure, anyFlag(m.anyFlag, pc.words))
	}
	if len(m.env) > 0 && !covers(m.env, pc.env) {
		sure = no
	}
	return sure
}

// covers reports whether each of the variables fits one of the elements.
func covers(env []element, names []string) bool {
	for _, name := range names {
		if name == "" || !slices.ContainsFunc(env, func(e element) bool { return e.match(name) }) {
			return false
		}
	}
	return true
}

// butForOptions reports whether the match would let the piece through with other
// options or variables.
func (m *match) butForOptions(c *inquiry, pc *piece) bool {
	if pc.kind != aCommand || len(m.flags)+len(m.env) == 0 {
		return false
	}
	without, bare := *m, *pc
	without.flags, without.env, bare.env = nil, nil, nil
	return without.about(c, &bare, true) == must
}

// onlyFlags says how sure it is that all options of a command are among those listed.
func onlyFlags(flags []element, words []word) proof {
	sure := must
	for i, w := range words {
		if i == 0 {
			continue
		}
		option := len(w.text) > 1 && w.text[0] == '-' && w.text != "--"
		switch {
		case w.sure == shell.Home:
		case w.sure == shell.Exact && option && !slices.ContainsFunc(flags, func(e element) bool { return e.match(w.text) }):
			return no
		case w.sure == shell.Exact:
		case w.text != "" && w.text[0] != '-': // not an option, whatever follows
		case !slices.ContainsFunc(flags, func(e element) bool { return e.may(w.text) }):
			return no
		default:
			sure = may
		}
	}
	return sure
}

// anyFlag says how sure it is that a command has one of the options.
func anyFlag(flags []element, words []word) proof {
	sure, operands := no, false
	for i, w := range words {
		if i == 0 {
			continue
		}
		for _, e := range flags {
			switch {
			case w.sure == shell.Exact && e.match(w.text):
				if !operands {
					return must
				}
				sure = may // it follows a --, which most programs take for the end of options
			case w.sure == shell.Exact && e.hides(w.text), w.sure > shell.Home && e.may(w.text):
				sure = may
			}
		}
		operands = operands || w.sure == shell.Exact && w.text == "--"
	}
	return sure
}

// hides reports whether a word may contain an option in another spelling: -uf contains -f,
// and --forc is --force to programs that accept abbreviations.
func (e element) hides(s string) bool {
	return slices.ContainsFunc(e.choice, func(c string) bool {
		name := strings.TrimRight(c, "*")
		switch {
		case len(name) == 2 && name[0] == '-' && name[1] != '-':
			return len(s) > 2 && s[0] == '-' && s[1] != '-' && strings.IndexByte(s[1:], name[1]) >= 0
		case strings.HasPrefix(name, "--"):
			option, _, _ := strings.Cut(s, "=")
			return len(option) > 2 && strings.HasPrefix(name, option)
		}
		return false
	})
}

// onTool reports whether the match speaks about a tool with the name.
func (m *match) onTool(tool string) bool {
	return len(m.tools) == 0 || slices.ContainsFunc(m.tools, func(e element) bool { return e.match(tool) })
}

// onOtherName reports whether the rule speaks about the tool of a call by one of its
// further names. A rule that allows never speaks about a tool by such a name.
func (r *rule) onOtherName(f *Facts) bool {
	return r.verdict != Allow && slices.ContainsFunc(f.ToolNames, r.match.onTool)
}

// from reports whether the call is of one of the upstreams and its tool has the
// annotations.
func (m *match) from(f *Facts) bool {
	if len(m.upstreams) > 0 && !slices.ContainsFunc(m.upstreams, func(e element) bool { return f.Upstream != "" && e.match(f.Upstream) }) {
		return false
	}
	for _, h := range m.hints {
		have, said := f.Annotations[h.key]
		if !said {
			have = hints[h.key]
		}
		if have != h.want {
			return false
		}
	}
	return true
}

// everyCommand reports whether the match speaks about each command, whatever it
// is.
func (m *match) everyCommand() bool {
	return !m.typed() || slices.ContainsFunc(m.commands, glob.everything)
}

// has reports whether the match speaks about a kind of part.
func (m *match) has(kind string) bool {
	switch kind {
	case aCommand:
		return len(m.commands) > 0
	case aPath:
		return len(m.paths) > 0
	case aURL:
		return len(m.urls) > 0
	}
	return len(m.hosts) > 0
}

// upstreamTools is the beginning of the name under which each tool of an upstream is listed.
const upstreamTools = "mcp_"

// namesUpstreams reports whether a pattern of the names of tools may match the listed name of
// an upstream's tool.
func namesUpstreams(pattern string) bool {
	known, _, open := strings.Cut(pattern, "*")
	return strings.HasPrefix(known, upstreamTools) || open && strings.HasPrefix(upstreamTools, known)
}
