package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar.dev/policies/shell"
)

// ExecMode says what is done about each program that a command starts. It is a
// point to look at and to decide, not the wall: see docs/policy.md.
type ExecMode int

// The modes. The zero value looks at no program and allows nothing more: the box
// decides what a program can do.
const (
	ExecOff     ExecMode = iota
	ExecObserve          // each program is recorded
	ExecEnforce          // the policy decides about each program; one that it does not allow is not started
)

// DefaultExec is the mode of a profile that names none.
const DefaultExec = ExecObserve

// String is the mode as policies spell it.
func (m ExecMode) String() string {
	switch m {
	case ExecObserve:
		return "observe"
	case ExecEnforce:
		return "enforce"
	case ExecOff:
	}
	return "off"
}

// exec reads the mode of a profile.
func (d *decoder) exec(n *yaml.Node) ExecMode {
	// An unknown word leaves a fault and counts as off.
	return ExecMode(max(d.word(n, "exec", ExecOff.String(), ExecObserve.String(), ExecEnforce.String()), 0))
}

// Exec is a program that is about to be started: what the kernel is given.
type Exec struct {
	Path   string   // the file, as it was named
	Target string   // the file that links lead to; "" where that is Path
	Argv   []string // the first one is a name that the caller chose
	Cut    bool     // there are more, or one is longer
	Then   *Exec    // what is started in its place: the interpreter of a script, the program that a loader is given
}

// Exec is what is done about the programs that the box's commands start.
func (g Grant) Exec() ExecMode { return g.exec }

// judgedBy returns the grant of a policy's decision about a call. The same policy
// later decides about each program that the call starts and about each URL that
// its pages lead to.
func (g Grant) judgedBy(p *Policy, f Facts) Grant {
	if !g.IsZero() {
		g.asked = f.Profile
		f.Command, f.Env, f.Values, f.Paths, f.Hosts, f.URLs, f.Exec, f.Profile = "", nil, nil, nil, nil, nil, nil, g.profile
		f.Stdin, f.Scene = "", nil
		g.policy, g.call = p, &f
	}
	return g
}

// judgedUnder returns the grant under one more layer.
func (g Grant) judgedUnder(l *Layer) Grant {
	if !g.IsZero() {
		g.below = append(slices.Clip(g.below), l)
	}
	return g
}

// SameCall reports whether DecideExec says the same for both grants.
func (g Grant) SameCall(other Grant) bool {
	return g.policy == other.policy && g.call == other.call && g.approved == other.approved && slices.Equal(g.below, other.below)
}

// DecideExec returns the decision of the policy that made the grant about a
// program that its box is about to start. It judges the words that the program
// gets: no shell has to interpret them, so nothing is guessed. now is the policy
// that is in force by now, or nil; if it is a different one, the stricter of the
// two decides. The Decision never has a Grant.
//
// Three things differ from the decision about a script. The program may start
// others, but that raises no doubt, because each of them gets its own decision. A
// program that only starts others (timeout, xargs, sh -c) is allowed together
// with them if no rule speaks about it. And if a person has said yes to the call,
// that yes answers a question about the program too.
func (g Grant) DecideExec(now *Policy, e Exec) Decision {
	if g.policy == nil || g.call == nil || g.IsZero() {
		return Decision{Rule: ruleDefault, Part: Clip(e.text(), maxPart), Reason: "The call has no grant.", Instead: "Repeat the call."}
	}
	d := g.decideExec(g.policy, e)
	if now != nil && now != g.policy && now.hash != g.policy.hash && d.Verdict == Allow {
		d = g.decideExec(now, e)
	}
	d.Grant, d.pending = Grant{}, Grant{}
	return d
}

// decideExec asks one policy. Besides the file, the program has other names: the
// name that the caller chose, because some programs do what their name says
// (busybox), the name of the file that a link leads to, and the program that is
// started in its place. A rule about one of these names counts if it is
// stricter. The default is applied only to the file.
func (g Grant) decideExec(p *Policy, e Exec) Decision {
	d := g.askExec(p, e)
	stricter := func(e Exec) {
		if d.Verdict != Deny {
			if as := g.askExec(p, e); as.Verdict < d.Verdict && as.Rule != ruleDefault {
				d = as
			}
		}
	}
	first := &e
	for e := first; e != nil; e = e.Then {
		if e != first {
			stricter(*e)
		}
		if path.Base(e.Path) != path.Base(e.name()) {
			stricter(Exec{Path: e.name(), Argv: e.Argv, Cut: e.Cut})
		}
		if e.Target != "" {
			stricter(Exec{Path: e.Target, Argv: e.Argv, Cut: e.Cut})
		}
	}
	return d
}

func (g Grant) askExec(p *Policy, e Exec) Decision {
	f := *g.call
	f.Exec = &e
	d := p.Decide(f)
	if d.Verdict != Allow && d.Rule == ruleDefault && d.Layer == LayerSystem && p.letsStarted(f) {
		d = Decision{Verdict: Allow, Rule: ruleDefault, Profile: g.profile, Parts: 1}
	}
	for _, l := range g.below {
		d = l.Narrow(d, f)
	}
	if d.Verdict == Ask && g.approved {
		d = d.Approved()
	}
	if granted := d.Grant.profile; d.Verdict == Allow && granted != "" && granted != g.profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: d.Part, PartNo: 1, Parts: 1, Subject: aCommand,
			Reason:  fmt.Sprintf("Rule %s allows it in profile %s, and this box has profile %s.", d.Rule, granted, g.profile),
			Instead: "Send it as a call of its own.",
		}
	}
	return d
}

// Stopped is the one line that the agent reads about a program that was not
// allowed to start; times is how often that happened.
func (d Decision) Stopped(times int) Refusal {
	switch d.Verdict {
	case Allow:
		return Refusal{}
	case Deny:
	case Ask:
		d.Reason, d.Instead = "A person must be asked about it.", "Send it as a call of its own, in plain words."
	}
	r := d.refusal(Blocked, "")
	var b strings.Builder
	b.WriteString("BLOCKED by policy" + d.byRule() + ": " + Clip(d.Part, maxPart) + " was not started")
	if times > 1 {
		fmt.Fprintf(&b, ", %d times", times)
	}
	fmt.Fprintf(&b, ". %s %s", r.Reason, r.Instead)
	r.text = Clip(b.String(), maxBlock)
	return r
}

// name is argv[0], the name under which the program is started, or else its path.
func (e Exec) name() string {
	if len(e.Argv) == 0 || e.Argv[0] == "" {
		return e.Path
	}
	return e.Argv[0]
}

// text is the words in one line, for people: what is not plain is quoted.
func (e Exec) text() string {
	words := slices.Clone(e.Argv)
	if !OfSystem(e.Path) || len(words) == 0 {
		words = append([]string{e.Path}, words[min(1, len(words)):]...)
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/.,:=+@%"
	left := maxPart
	var b strings.Builder
	if base := path.Base(e.Path); base != path.Base(words[0]) {
		b.WriteString(e.Path + " as ")
	}
	for i, w := range words {
		if left <= 0 {
			break // nobody is shown more
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if w == "" || strings.Trim(w, plain) != "" {
			w = "'" + strings.ReplaceAll(w[:min(len(w), maxPart)], "'", `'\''`) + "'"
		}
		b.WriteString(w)
		left -= len(w) + 1
	}
	if e.Cut || left <= 0 {
		b.WriteString(" ...")
	}
	return b.String()
}

// execPiece is a program as a piece of a call. Rules see a program of the system
// under its bare name, as in a script, and under its path. A rule that allows
// sees any other program only under its path; a rule that refuses also sees it
// under its bare name.
func execPiece(e Exec) piece {
	pc := piece{kind: aCommand, text: e.text()}
	first := word{text: e.Path}
	base := path.Base(e.Path)
	dir := strings.TrimSuffix(e.Path, base)
	if dir == "" {
		first.text = "./" + e.Path // the kernel looks in no other place
	}
	pc.words = append(pc.words, first)
	if len(e.Argv) > 1 {
		pc.words = append(pc.words, literals(e.Argv[1:])...)
	}
	if e.Cut {
		pc.words = append(pc.words, word{sure: shell.Any})
		pc.doubt, pc.vague = "it has more arguments than are looked at", true
	}
	pc.loose = loose(pc.words)
	if OfSystem(e.Path) {
		pc.words[0].text, pc.words[0].also = base, e.Path
	}
	return pc
}

// OfSystem reports whether a program is in a directory that no box can write:
// the system's, or an image's.
func OfSystem(name string) bool {
	if path.Clean(name) != name {
		return false
	}
	for _, dir := range []string{"/usr/", "/bin/", "/sbin/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// letsStarted reports whether a program that no rule speaks about does nothing
// but start what the policy allows.
func (p *Policy) letsStarted(f Facts) bool {
	if f.Exec.Cut || !OfSystem(f.Exec.Path) {
		return false
	}
	words := append([]string{path.Base(f.Exec.Path)}, f.Exec.Argv[min(1, len(f.Exec.Argv)):]...)
	s, err := shell.Program(words)
	if err != nil || len(s.Commands) < 2 || !s.Commands[0].Wrapper || s.Doubt() != "" {
		return false
	}
	all := scriptPieces(s, nil)
	d, grants := p.judge(f, f.Profile, all[1:])
	return d.Verdict == Allow && slices.Contains(grants, f.Profile)
}
