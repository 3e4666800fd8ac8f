package policies

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/shell"
)

// ofWall reports whether a rule allows only commands that another rule allows too, because
// the other rule allows all commands. Then the box is the wall, and the narrower rule opens
// nothing.
func (l *linter) ofWall(i int) bool {
	r := &l.rules[i]
	for k := range l.rules {
		s := &l.rules[k]
		if k != i && s.match.everyCommand() && s.verdict == Allow && s.mode == ModeEnforce && s.when == nil && s.unless.isZero() && s.match.covers(&r.match, true) {
			return true
		}
	}
	return false
}

// opens adds findings about what a rule lets through.
func (l *linter) opens(i int) {
	r := &l.rules[i]
	for k, g := range r.match.commands {
		if valueOf(valueOf(l.entry(i), "match"), "command") != nil && !g.everything() {
			l.opensCommand(i, k, g)
		}
	}
	for k, g := range r.match.paths {
		if len(g.elements) > 1 && g.elements[0].any {
			l.add(i, l.at(i, k, "match", "path"), "open-path", LintWarning,
				fmt.Sprintf("rule %s allows %s wherever it lies", r.id, shown(g.text)),
				"a ** at the beginning is every directory that the box sees", "begin the pattern with a directory, for example \"/workspace/**/x\"")
		}
	}
	for k, g := range r.match.urls {
		at := l.at(i, k, "match", "url")
		if g.host == "*" {
			l.add(i, at, "open-url", LintWarning,
				fmt.Sprintf("rule %s allows a URL on every host", r.id),
				"* also stands for addresses and for names of this machine and its networks", "name the hosts, or write <public> for every public name")
		} else if m, err := compileHost(g.host); err == nil {
			l.opensHost(i, at, r.id, "", m)
		}
	}
	for k, m := range r.match.hosts {
		l.opensHost(i, l.at(i, k, "match", "host"), r.id, "", m)
	}
	for k, e := range r.match.env {
		if bad := firstOf(riskyEnv, e.match); bad != "" {
			l.add(i, l.at(i, k, "match", "env"), "open-env", LintWarning,
				fmt.Sprintf("rule %s lets a command have the variable %s", r.id, bad),
				"such a variable makes programs run or load what it names", "list the variables that are needed, for example CI, TZ and \"LC_*\"")
		}
	}
	l.opensFlags(i)
}

// claimed adds a finding about a rule that lets calls through because of what tools say
// about themselves.
func (l *linter) claimed(i int) {
	r := &l.rules[i]
	const why = "the annotations of an upstream's tool are what that server states about it, and nothing checks them: a tool that writes may state that it only reads"
	const instead = "name the upstream that you trust, for example upstream: files, or the tools"
	if len(r.match.upstreams) > 0 || !r.match.onAnyUpstream() {
		return
	}
	switch {
	case r.verdict == Allow && len(r.match.hints) > 0 && !l.ofWall(i):
		l.add(i, l.at(i, -1, "match", "annotations"), "claim", LintWarning, fmt.Sprintf("rule %s allows tools because of what they state about themselves", r.id), why, instead)
	case r.verdict == Allow && r.when != nil && r.when.Uses("annotations") && !l.ofWall(i):
		l.add(i, l.at(i, -1, "when"), "claim", LintWarning, fmt.Sprintf("rule %s allows tools because of what they state about themselves", r.id), why, instead)
	case r.verdict != Allow && len(r.unless.hints) > 0 && len(r.unless.upstreams) == 0:
		l.add(i, l.at(i, -1, "unless", "annotations"), "claim", LintWarning, fmt.Sprintf("rule %s spares tools because of what they state about themselves", r.id), why, instead)
	}
}

// onAnyUpstream reports whether the match speaks about tools of upstreams that it does not
// name. The names of such tools begin with upstreamTools and a part of the upstream's name.
func (m *match) onAnyUpstream() bool {
	return len(m.tools) == 0 || slices.ContainsFunc(m.tools, func(e element) bool {
		return e.any || slices.ContainsFunc(e.choice, func(pattern string) bool {
			known, _, open := strings.Cut(pattern, "*")
			return open && strings.HasPrefix(upstreamTools, known)
		})
	})
}

// opensCommand adds findings about one pattern of commands that a rule allows.
func (l *linter) opensCommand(i, number int, g glob) {
	r := &l.rules[i]
	at := l.at(i, number, "match", "command")
	e, ok := g.program()
	if !ok || slices.Contains(e.choice, "*") {
		l.add(i, at, "open-program", LintWarning,
			fmt.Sprintf("rule %s allows %s of every program", r.id, shown(g.text)),
			"the first word is the program: with a star ./x fits too, and so does whatever lies in the workspace", "name the programs, for example \"{ls,cat} **\"; or write \"**\" if the box may run anything")
		return
	}
	for _, name := range append(slices.Clone(e.choice), shell.Known()...) {
		kind := shell.ClassOf(name)
		if kind == shell.Plain || !e.names(name) || !g.open() || strings.Contains(name, "*") {
			continue
		}
		check, why, instead := "open-interpreter", "the words of such a program do not say what it runs, or it runs a file that an agent can write", "allow the one script or module that is needed, word by word; or allow \"**\" and let the profile be the wall"
		if kind == shell.Wrapper {
			check, why, instead = "open-wrapper", "what a wrapper starts is judged as a part of its own, so that it needs no rule; its own options change for whom, where or with which libraries that runs", "remove it: without a rule timeout, nice, env and the like are let through with what they start"
		}
		l.add(i, at, check, LintWarning, fmt.Sprintf("rule %s allows %s, %s, with any words", r.id, name, kind), why, instead)
		return
	}
	if len(r.match.flags) > 0 || !g.open() {
		return
	}
	for _, risk := range risks {
		if slices.ContainsFunc(strings.Fields(risk.programs), e.names) {
			l.add(i, at, "open-options", LintWarning,
				fmt.Sprintf("rule %s allows %s with any options", r.id, firstOf(strings.Fields(risk.programs), e.names)),
				risk.why, "list the options that are harmless under flags; nobody can list all the options of a program that do harm")
			return
		}
	}
}

// opensFlags adds findings about the options that a rule allows.
func (l *linter) opensFlags(i int) {
	r := &l.rules[i]
	if len(r.match.anyFlag) > 0 {
		l.add(i, l.at(i, -1, "match", "any_flag"), "any-flag", LintWarning,
			fmt.Sprintf("rule %s allows commands that have one of these options, and any others", r.id),
			"any_flag requires at least one of these options; flags allows only these options", "write flags")
	}
	if len(r.unless.anyFlag) > 0 && len(r.match.flags) == 0 {
		l.add(i, l.at(i, -1, "unless", "any_flag"), "any-flag", LintWarning,
			fmt.Sprintf("rule %s allows all options but those in its unless", r.id),
			"programs have more options that write or run something, and take them in more spellings, than a list names", "list the options that are harmless under flags of match")
	}
	for _, risk := range risks {
		program := ""
		for _, g := range r.match.commands {
			if e, ok := g.program(); ok && program == "" {
				program = firstOf(strings.Fields(risk.programs), e.names)
			}
		}
		if program == "" {
			continue
		}
		for k, e := range r.match.flags {
			bad := firstOf(strings.Fields(risk.options), func(s string) bool { return e.match(s) || e.match(s+"=x") })
			if bad != "" {
				l.add(i, l.at(i, k, "match", "flags"), "risky-flag", LintWarning,
					fmt.Sprintf("rule %s lets %s have %s", r.id, program, bad), risk.why, "take it out of flags")
			}
		}
	}
}

// profiles adds findings about what may leave the boxes of each profile.
func (l *linter) profiles() {
	for _, name := range l.p.Profiles() {
		l.reaches(name, valueOf(valueOf(l.root, "profiles"), name), l.p.profiles[name].Egress())
	}
}

// reaches adds findings about what may leave the boxes of one profile.
func (l *linter) reaches(name string, profile *yaml.Node, e *Egress) {
	allow := valueOf(valueOf(profile, "net"), "allow")
	if allow == nil {
		return // the profile takes its net from another profile
	}
	for k := range e.Allow {
		at := allow
		if k < len(allow.Content) && len(allow.Content) == len(e.Allow) {
			at = allow.Content[k]
		}
		l.opensHost(-1, at, "", name, e.Allow[k].ready().host)
	}
}

// upstreams adds findings about what upstream servers may do.
func (l *linter) upstreams() {
	top := valueOf(l.root, "upstreams")
	l.upstream("each server", valueOf(top, "defaults"), l.p.upstreams.base)
	servers := valueOf(top, "servers")
	for _, name := range l.p.Upstreams().Names() {
		l.upstream("the server "+name, valueOf(servers, name), l.p.upstreams.servers[name])
	}
}

// upstream adds findings about the keys of one server, whose node may be nil. The texts of
// findings name the server by the text in who.
func (l *linter) upstream(who string, n *yaml.Node, u upstream) {
	l.reaches("of "+who, valueOf(n, "profile"), u.run.Egress())
	warn := func(at *yaml.Node, check, message, why, instead string) {
		l.note(at, Finding{Check: check, Severity: LintWarning, Message: fmt.Sprintf(message, who), Why: why, Instead: instead})
	}
	if at := valueOf(n, "pin"); at != nil && u.Pin == PinOff {
		warn(at, "unpinned", "nobody is asked about what %s states about its tools", "a server can change what a model reads about its tools at any time, and so what the model does", "write pin: tofu, or remove the key")
	}
	if at := valueOf(n, "safety"); at != nil && u.Unguarded {
		warn(at, "unguarded", "nobody is asked about calls of %s", "rules that ask, and hooks, do not apply to its calls", "write an allow for the tools that need no question")
	}
	if at := valueOf(n, "secrets"); at != nil {
		for _, secret := range names(u.Secrets) {
			if u.Secrets[secret] == SecretInEnv {
				warn(valueOf(at, secret), "secret-in-box", "%s can read the secret "+secret, "it can send the value wherever its box may connect to", "write door, and the header under net.secrets of its profile, if the server sends the secret in a header of HTTP")
			}
		}
	}
}

// opensHost adds a finding about a host in which strangers can have names.
func (l *linter) opensHost(i int, at *yaml.Node, ruleID, profile string, m hostMatch) {
	f := Finding{Check: "open-host", Severity: LintWarning, Rule: ruleID, Profile: profile}
	who := "rule " + ruleID + " allows"
	if i < 0 {
		who = "profile " + profile + " lets its boxes reach"
	}
	domain := strings.TrimPrefix(m.below, ".")
	switch {
	case m.every && i >= 0:
		f.Message = who + " every public host"
		f.Why, f.Instead = "a page can take with it, in its address, what the agent has read", "name the hosts, or say in a comment why all of them are meant"
	case m.below != "" && !strings.Contains(domain, "."):
		f.Message = fmt.Sprintf("%s every name below %s", who, domain)
		f.Why, f.Instead = "anybody can register one", "name the hosts"
	case slices.Contains(sharedHosts, domain):
		f.Message = fmt.Sprintf("%s every name below %s", who, domain)
		f.Why, f.Instead = "anybody can have a site or a store there, and take what is sent to it", "name the hosts below it that are needed"
	default:
		return
	}
	l.note(at, f)
}
