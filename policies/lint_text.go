package policies

import (
	"fmt"
	"slices"
	"strings"
)

// textOnly adds a finding about a rule that denies something that only the sandbox can
// prevent: the rule stops only those spellings of a command that it names.
func (l *linter) textOnly(i int) {
	r := &l.rules[i]
	if r.passes {
		return // the rule itself says that it is not a wall
	}
	if slices.Contains(r.match.acts, ActSubmit) {
		l.textOnlySubmit(i)
		return
	}
	if len(r.match.acts) == 0 && len(r.match.paths) > 0 && (len(r.match.tools) == 0 || r.match.onTool("Bash") || r.match.onTool("BackgroundBash")) {
		if profile := l.lacking(r, func(g profileGrant) bool { return false }); profile != "" {
			l.add(i, l.at(i, 0, "match", "path"), "text-only", LintNote,
				fmt.Sprintf("rule %s cannot keep a command of Bash from these paths", r.id),
				"it sees only the redirections and the directory of a command: only cat itself knows that cat x reads a file",
				"leave the path out of fs of the profile, or write it under protect; keep the rule for other tools and for its reason")
		}
		return
	}
	if len(r.match.commands) == 0 || slices.ContainsFunc(r.match.commands, glob.everything) {
		return
	}
	for k, g := range r.match.commands {
		what, instead, held := g.wall()
		profile := l.lacking(r, held)
		if profile == "" {
			continue
		}
		l.add(i, l.at(i, k, "match", "command"), "text-only", LintNote,
			fmt.Sprintf("rule %s denies by its text what boxes of the profile %s can do", r.id, profile),
			"a build file, an interpreter or another name of the program does the same in other words: "+what,
			instead+"; write unsure: pass if the rule only reminds and does not have to prevent")
		return
	}
}

// textOnlySubmit adds a finding about a rule that denies forms, but does not stop scripts
// of pages from sending the same requests.
func (l *linter) textOnlySubmit(i int) {
	r := &l.rules[i]
	for _, name := range l.p.Profiles() {
		g := l.p.profiles[name]
		applies := len(r.match.profiles) == 0 || slices.ContainsFunc(r.match.profiles, func(n named) bool { return n.name == name })
		if !applies || !g.browser.acting.Act || !g.lets("POST") {
			continue
		}
		l.add(i, l.at(i, -1, "match", "act"), "text-only", LintNote,
			fmt.Sprintf("rule %s denies forms, and the door of the profile %s lets their requests through", r.id, name),
			"a press shows only a part of what it does: a script that it starts sends the same request without a form",
			"write tls: intercept, and methods: [GET, HEAD] for the hosts of net; keep the rule for its reason")
		return
	}
}

// lets reports whether requests of a method may leave boxes of the profile.
func (g profileGrant) lets(method string) bool {
	if g.network == NetworkNone {
		return false
	}
	e := g.Egress()
	return len(e.Private) > 0 || slices.ContainsFunc(e.Allow, func(r EgressRule) bool {
		return !e.Intercept || len(r.Methods) == 0 || slices.Contains(r.Methods, method)
	})
}

// lacking returns a profile that the rule speaks about, in which commands run and whose
// boxes do not prevent what the rule denies; or "". held reports whether the boxes of a
// profile prevent it.
func (l *linter) lacking(r *rule, held func(profileGrant) bool) string {
	for _, name := range l.p.Profiles() {
		applies := len(r.match.profiles) == 0 || slices.ContainsFunc(r.match.profiles, func(n named) bool { return n.name == name })
		if g := l.p.profiles[name]; applies && l.runs(name) && !held(g) {
			return name
		}
	}
	return ""
}

// runs reports whether a command can run in boxes of a profile.
func (l *linter) runs(profile string) bool {
	for i := range l.p.rules {
		r := &l.p.rules[i]
		here := len(r.match.profiles) == 0 || slices.ContainsFunc(r.match.profiles, func(n named) bool { return n.name == profile })
		bare := !r.match.typed() && len(r.match.upstreams)+len(r.match.hints) == 0
		if here && bare && r.mode == ModeEnforce && r.verdict == Deny && r.when == nil && r.unless.isZero() && r.match.onTool("Bash") {
			return false
		}
	}
	return true
}

// wall returns what can prevent the commands of a pattern, what to do, and a function that
// reports whether a profile prevents them.
func (g glob) wall() (what, instead string, held func(profileGrant) bool) {
	enforced := func(g profileGrant) bool { return g.exec == ExecEnforce }
	e, ok := g.program()
	for _, word := range g.elements[min(1, len(g.elements)):] {
		if slices.ContainsFunc(word.choice, func(c string) bool {
			return strings.Contains(c, "/") && c != "/" || strings.HasPrefix(c, ".") || strings.HasPrefix(c, "~")
		}) {
			return "a file has many names, and a shell makes more", "leave the file out of fs of the profile, or write it under protect", func(profileGrant) bool { return false }
		}
	}
	switch {
	case ok && firstOf(strings.Fields(netPrograms), e.names) != "":
		return "net of the profile decides what may leave", "name under net what may be reached, or write mode: none",
			func(g profileGrant) bool { return g.network == NetworkNone || enforced(g) }
	case ok && firstOf(strings.Fields(writers), e.names) != "":
		return "fs of the profile decides what may be written", "write workspace: ro or overlay, or name under protect what must not change",
			func(g profileGrant) bool {
				writable := slices.ContainsFunc(g.mounts, func(m Mount) bool { return m.Writable })
				return g.access != AccessWrite && !writable || enforced(g)
			}
	}
	return "the rule guides an honest agent, and stops no other", "prevent it with fs, net and limits of the profile, or write exec: enforce, which checks each program that starts", enforced
}
