package policies

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar.dev/policies/shell"
)

// DecideExec returns the decision of the policy that made the grant about a
// program that its box is about to start. It judges the words that the program
// gets: no shell has to interpret them, so nothing is guessed. now is the policy
// that is in force by now, or nil; if it is a different one, the stricter of the
// two decides. The Decision never has a Grant. written are directories, by the names
// that the box may see, whose files it can write besides its writable mounts: programs
// in them do not count as the system's.
//
// Three things differ from the decision about a script. The program may start
// others, but that raises no doubt, because each of them gets its own decision. A
// program that only starts others (timeout, xargs, sh -c) is allowed together
// with them if no rule speaks about it. And if a person has said yes to the call,
// that yes answers a question about the program too.
func (g Grant) DecideExec(now *Policy, e Exec, written ...string) Decision {
	if g.policy == nil || g.call == nil || g.IsZero() {
		return Decision{Rule: ruleDefault, Part: Clip(e.text(), maxPart), Reason: "The call has no grant.", Instead: "Repeat the call."}
	}
	d := g.decideBy(g.policy, e, written)
	if now != nil && now.hash != g.policy.hash && d.Verdict != Deny {
		if later := g.decideBy(now, e, written); later.Verdict <= d.Verdict {
			d = later
		}
	}
	d.Grant, d.pending = Grant{}, nil
	return d
}

// decideBy asks one policy about a program. Besides the file, the program has other names: the
// name that the caller chose, because some programs do what their name says
// (busybox), the name of the file that a link leads to, and the program that is
// started in its place. A rule about one of these names counts if it is
// stricter. The default is applied only to the file.
func (g Grant) decideBy(p *Policy, e Exec, written []string) Decision {
	d := g.ask(p, e, written)
	stricter := func(e Exec) {
		if d.Verdict != Deny {
			if as := g.ask(p, e, written); as.Verdict < d.Verdict && as.Rule != ruleDefault {
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

// ask asks one policy about a program under one name.
func (g Grant) ask(p *Policy, e Exec, written []string) Decision {
	e.written = g.writes(e.Path, written) || e.Target != "" && g.writes(e.Target, written)
	f := *g.call
	f.Exec = &e
	d := p.Decide(f)
	if d.Verdict != Allow && d.Rule == ruleDefault && d.Layer == LayerSystem && p.letsStarted(f) {
		d = Decision{Verdict: Allow, Rule: ruleDefault, Profile: f.Profile, Parts: 1}
	}
	for _, l := range g.below {
		d = l.Narrow(d, f)
	}
	if d.Verdict == Ask && g.approved {
		d = d.Approved()
	}
	if granted := d.Grant.profile; d.Verdict == Allow && granted != "" && granted != f.Profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: d.Part, PartNo: 1, Parts: 1, Subject: aCommand,
			Reason:  fmt.Sprintf("Rule %s allows it in profile %s, and this box has profile %s.", d.Rule, granted, f.Profile),
			Instead: "Send it as a call of its own.",
		}
	}
	return d
}

// writes reports whether a mount of the profile lets the box write a file, or the file is in
// one of the directories in written. On most hosts /bin and /sbin are those of /usr.
func (g profileGrant) writes(name string, written []string) bool {
	merged := func(p string) string {
		if first, _, _ := strings.Cut(p[min(1, len(p)):], "/"); first == "bin" || first == "sbin" {
			return "/usr" + p
		}
		return p
	}
	name = merged(name)
	holds := func(dir string) bool {
		return strings.HasPrefix(name, strings.TrimSuffix(merged(dir), "/")+"/") || name == merged(dir)
	}
	return slices.ContainsFunc(written, holds) || slices.ContainsFunc(g.mounts, func(m Mount) bool {
		return m.Writable && (holds(m.Target) || g.system && holds(m.Source))
	})
}

// letsStarted reports whether a program that no rule speaks about only starts programs that
// the rules allow.
func (s *ruleset) letsStarted(f Facts) bool {
	if f.Exec.Cut || !f.Exec.ofSystem() {
		return false
	}
	words := append([]string{path.Base(f.Exec.Path)}, f.Exec.Argv[min(1, len(f.Exec.Argv)):]...)
	script, err := shell.Program(words)
	if err != nil || len(script.Commands) < 2 || !script.Commands[0].Wrapper || script.Doubt() != "" {
		return false
	}
	all := scriptPieces(script, nil)
	d, grants := s.judge(f, f.Profile, all[1:])
	return d.Verdict == Allow && slices.Contains(grants, f.Profile)
}
