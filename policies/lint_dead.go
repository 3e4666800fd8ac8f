package policies

import (
	"fmt"
	"slices"
	"strings"
)

// partKeys are the keys of match that speak about only one kind of part.
var partKeys = []struct{ key, kind string }{{"command", aCommand}, {"path", aPath}, {"url", aURL}, {"host", aHost}}

// whoHas is a hint that names the tools whose calls have a kind of part.
func whoHas(kind string) string {
	var names []string
	for _, t := range toolTable {
		if slices.Contains(t.parts, kind) {
			names = append(names, t.name)
		}
	}
	return "tools whose calls have a " + kind + ": " + strings.Join(names, ", ")
}

// dead adds a finding if a rule can decide nothing, and reports whether it is so.
func (l *linter) dead(i int) bool {
	r := &l.rules[i]
	before := len(l.found)
	switch {
	case l.impossible(i):
	case !r.unless.isZero() && r.unless.covers(&r.match, false):
		if r.verdict != Allow && r.unless.typed() {
			// An exception from a refusal must be proved, and for some calls it cannot be.
			l.add(i, l.at(i, -1, "unless"), "swallowed", LintWarning,
				fmt.Sprintf("the unless of rule %s covers all that its match speaks about", r.id),
				"so the rule applies only to calls whose words do not say all: with variables, redirections or a path that can be read in two ways", "narrow the unless, or remove the rule")
			return false
		}
		l.add(i, l.at(i, -1, "unless"), "swallowed", LintError,
			fmt.Sprintf("the unless of rule %s covers all that its match speaks about", r.id),
			"so the rule applies to no call", "narrow the unless, or remove the rule")
	case r.mode == ModeEnforce:
		l.shadowed(i)
	}
	return len(l.found) > before
}

// shadowed adds a finding if a rule changes no decision, because another rule or the
// default says the same or is stricter.
func (l *linter) shadowed(i int) {
	r := &l.rules[i]
	for k := range l.rules {
		s := &l.rules[k]
		if k == i || s.mode != ModeEnforce || s.when != nil || !s.unless.isZero() || !s.match.covers(&r.match, true) {
			continue
		}
		switch {
		case s.verdict < r.verdict:
			l.add(i, l.at(i, -1, "match"), "shadowed", LintError,
				fmt.Sprintf("rule %s can decide nothing: %s says %s to all that it speaks about", r.id, s.where(), s.verdict),
				"the strictest rule wins, wherever it is in the file", "narrow "+s.where()+" or give it an unless, or remove this one")
			return
		case s.verdict == r.verdict && k < i && r.same(s) && s.lets(r):
			l.add(i, l.at(i, -1, "match"), "redundant", LintNote,
				fmt.Sprintf("rule %s says what %s says already", r.id, s.where()),
				"it changes no decision, and a reader looks for what it changes", "remove it, or narrow the other one")
			return
		}
	}
	if r.verdict == Allow && l.fallback() == Allow && r.same(&rule{verdict: Allow}) {
		l.add(i, l.at(i, -1, "decision"), "redundant", LintNote,
			fmt.Sprintf("rule %s allows what the default allows", r.id),
			"what no rule speaks about is let through anyway", "write defaults: {decision: deny} or ask, or remove the rule")
	}
}

// fallback returns the verdict about a part that no rule of the file speaks about.
func (l *linter) fallback() Verdict {
	if l.granting {
		return l.p.fallback
	}
	return layerNamed(l.p, l.file).rules.fallback
}

// lets reports whether the rule also lets through what o lets through in addition to the
// words of a command: variables that are set for the command. Only a rule about all
// commands does that.
func (r *rule) lets(o *rule) bool {
	return r.verdict != Allow || len(o.match.env) == 0 || r.match.everyCommand()
}

// same reports whether everything that the rule says to a call is also said by s.
func (r *rule) same(s *rule) bool {
	own := r.reason+r.instead == "" || r.reason == s.reason && r.instead == s.instead
	return own && !r.terms.any() && r.terms.remember == nil && r.profile == s.profile
}

// impossible adds a finding if no call satisfies a match.
func (l *linter) impossible(i int) bool {
	r := &l.rules[i]
	if kinds, ok := r.match.parts(); ok && r.match.typed() {
		speaks, hints := false, []string{}
		for _, k := range partKeys {
			if r.match.has(k.kind) {
				speaks = speaks || slices.Contains(kinds, k.kind)
				hints = append(hints, whoHas(k.kind))
			}
		}
		if !speaks {
			l.add(i, l.at(i, -1, "match"), "impossible", LintError,
				fmt.Sprintf("rule %s matches no call: its tools have no part of this kind", r.id),
				strings.Join(append(hints, "the keys command, path, url and host each judge their own kind"), "; "),
				"name the tool that has such a part, or remove the key for every call of the tool")
			return true
		}
	}
	if _, own := r.match.parts(); own && len(r.match.upstreams) > 0 {
		l.add(i, l.at(i, -1, "match", "upstream"), "impossible", LintError,
			fmt.Sprintf("rule %s matches no call: tools of belljar belong to no upstream", r.id),
			"upstream is the name of a server whose tools are proxied", "remove upstream, or name the proxied tools")
		return true
	}
	some := len(r.match.anyFlag) == 0 || len(r.match.flags) == 0
	for _, e := range r.match.anyFlag {
		some = some || slices.ContainsFunc(r.match.flags, func(f element) bool { return f.meets(e) })
	}
	if !some {
		l.add(i, l.at(i, -1, "match", "any_flag"), "impossible", LintError,
			fmt.Sprintf("rule %s matches no command: flags has none of the options of any_flag", r.id),
			"with both, a command has one of any_flag and no option that flags does not list", "add them to flags, or remove one of the two keys")
		return true
	}
	return false
}

// idle adds a finding about each key or pattern that fits nothing, in a rule whose other
// keys may fit something.
func (l *linter) idle(i int) {
	r := &l.rules[i]
	for _, side := range []struct {
		key string
		m   *match
	}{{"match", &r.match}, {"unless", &r.unless}} {
		for k, g := range side.m.commands {
			if why := g.noCommand(); why != "" && valueOf(valueOf(l.entry(i), side.key), "command") != nil {
				l.add(i, l.at(i, k, side.key, "command"), "no-command", LintError,
					fmt.Sprintf("the pattern %s of rule %s fits no command", shown(g.text), r.id),
					why, "write a pattern for one command; \"belljar policy explain\" shows the commands of a script")
			}
		}
	}
	kinds, ok := r.match.parts()
	if !ok {
		return
	}
	speaks := slices.ContainsFunc(kinds, r.match.has)
	for _, k := range partKeys {
		if speaks && r.match.has(k.kind) && !slices.Contains(kinds, k.kind) {
			l.add(i, l.at(i, -1, "match", k.key), "idle-key", LintWarning,
				fmt.Sprintf("this key of rule %s fits no call of its tools", r.id),
				whoHas(k.kind), "remove it, or give it to a rule about the tool that has such a part")
		}
	}
}

// parts returns the kinds of parts in calls of the match's tools. It returns false if they
// are not known for one of the tools, or are acts.
func (m *match) parts() ([]string, bool) {
	var kinds []string
	for _, e := range m.tools {
		for _, c := range e.choice {
			at := slices.IndexFunc(toolTable, func(t tool) bool { return t.name == c })
			if at < 0 || c == ActTool {
				return nil, false
			}
			kinds = append(kinds, toolTable[at].parts...)
		}
		if e.any {
			return nil, false
		}
	}
	return kinds, len(m.tools) > 0
}

// noCommand returns why a pattern fits no command, or "".
func (g glob) noCommand() string {
	for i, e := range g.elements {
		for _, c := range e.choice {
			switch {
			case slices.Contains([]string{"|", "||", "&", "&&", ";", ";;", "|&", ">", ">>", "<", "<<", "2>", "&>", "2>&1", ">&2"}, c), strings.HasSuffix(c, ";"):
				return "a script is taken apart before rules see it: what stands between commands, and redirections, are in none of them"
			case i == 0 && len(e.choice) == 1 && assignment(c):
				return "variables in front of a command are not among its words: name them under env"
			}
		}
	}
	return ""
}

// assignment reports whether a word in front of a command sets a variable.
func assignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && variable().MatchString(name)
}

// unaskable adds a finding about each rule for questions that nobody can be asked.
func (l *linter) unaskable() {
	if l.p.questions.channel != ChannelDeny {
		return
	}
	for i := range l.rules {
		r := &l.rules[i]
		if r.verdict == Deny || len(r.match.tools) == 0 {
			continue
		}
		only := true
		for _, e := range r.match.tools {
			only = only && len(e.choice) == 1 && e.choice[0] == askTool
		}
		if only {
			l.add(i, l.at(i, -1, "match"), "no-questions", LintError,
				fmt.Sprintf("rule %s can decide nothing: ask is deny, which refuses %s whatever rules say", r.id, askTool),
				"the call is refused before a rule is looked at", "write ask: console or ask: elicit, or remove the rule")
		}
	}
}
