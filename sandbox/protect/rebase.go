package protect

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// A rebase in progress has a list of what is left to do, and a line of the list can be a
// command (git-rebase(1), "exec"). A person who continues a rebase of their own would run
// what a box has added. A command of a box may need such lines for its own `git rebase -x`,
// so they are removed when the last command has ended. The lines that a person has in the
// list stay.
//
// Only a rebase runs commands. In the lists of cherry-pick and revert, in sequencer/todo,
// git refuses such lines (git: sequencer.c, read_populate_todo), and the lists of git-am
// are patches.
//
// All three continue with the strategy that a file next to the list names, and merge with
// the program git-merge-STRATEGY. If the strategy contains a slash, it is a path that
// starts in the work tree (git: merge.c, try_merge_command; run-command.c, prepare_cmd).

const (
	byRebase   = "`git rebase --continue` runs it"
	byStrategy = "git runs the program of that name when a rebase or a cherry-pick continues"

	rebaseStrategy   = "rebase-merge/strategy"
	sequencerOptions = "sequencer/opts"
)

// rebase looks at the list of a rebase in the git directory dir.
func (l *gitLook) rebase(dir *os.File, at string) {
	at = path.Join(at, "rebase-merge")
	l.seal(dir, at, rule{why: byRebase, through: true, loose: true}) // a link would lead to another list
	sub := l.open(dir, at)
	if sub == nil {
		return
	}
	defer sub.Close()
	const name = "git-rebase-todo"
	at = path.Join(at, name)
	before := l.settledBefore(at)
	g := l.guard(at, rule{why: byRebase, loose: true})
	st, err := statAt(sub, name)
	if err != nil || st == nil || before {
		return // the time of its directory shows when there is one
	}
	text, err := readAt(sub, name, maxConfigText)
	kept, taken := withoutExec(string(text), g.accepted)
	switch {
	case l.adopt:
		if len(taken) > 0 && l.isYoung(at, st) {
			l.suspects = append(l.suspects, plain(at))
		}
		g.accepted, g.unread = make(map[string]bool), err != nil
		_, all := withoutExec(string(text), nil)
		for _, line := range all {
			g.accepted[line] = true
		}
	case err == nil && len(taken) == 0, err != nil && g.unread:
	case !l.last:
		l.young = true // until the last command has ended
	case err != nil:
		l.remove(sub, at, name, &rule{why: fmt.Sprintf("%s, and it could not be read (%v)", byRebase, err)})
	default:
		if err := rewriteAt(sub, name, st, text, []byte(kept)); err != nil {
			l.fail(at, err)
			return
		}
		l.tell(at, "lost %d `exec` lines that were new: %s. Run these commands yourself, or finish the rebase within one command.", len(taken), byRebase)
	}
	l.markText(at, text)
}

// strategy looks at a file in the git directory dir that names the strategy of an operation
// in progress.
func (l *gitLook) strategy(dir *os.File, at, name string) {
	way := path.Join(at, path.Dir(name))
	l.seal(dir, way, rule{why: byStrategy, through: true, loose: true})
	sub := l.open(dir, way)
	if sub == nil {
		return
	}
	defer sub.Close()
	at = path.Join(at, name)
	before := l.settledBefore(at)
	g := l.guard(at, rule{why: byStrategy, loose: true})
	text, err := readAt(sub, path.Base(name), maxConfigText)
	switch {
	case err != nil && gone(err) == nil, before:
		return // the time of its directory shows when there is one
	case err == nil && !namesPath(name, text):
	case l.adopt:
		g.accepted, g.unread = map[string]bool{string(text): true}, err != nil
	case g.unread && err != nil, g.accepted[string(text)]:
	default:
		l.remove(sub, at, path.Base(name), &rule{why: byStrategy})
		return
	}
	l.markText(at, text)
}

// namesPath reports whether the strategy in such a file is a path. For a rebase the
// strategy is the whole file, for a cherry-pick it is a setting in the file (git:
// sequencer.c, read_strategy_opts, populate_opts_cb).
func namesPath(name string, text []byte) bool {
	if name == rebaseStrategy {
		return bytes.IndexByte(text, '/') >= 0
	}
	all, end := readConfig(text)
	return end < len(text) || slices.ContainsFunc(all, func(s gitSetting) bool { return s.name() == "options.strategy" && strings.Contains(s.value, "/") })
}

// withoutExec returns the list of a rebase without the lines that run a command, except for
// those that are accepted, and the lines that were left out.
func withoutExec(list string, accepted map[string]bool) (kept string, taken []string) {
	var b strings.Builder
	for line := range strings.SplitAfterSeq(list, "\n") {
		text := strings.TrimLeft(line, " \t")
		word := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz"))]
		if (word == "x" || word == "exec") && !accepted[strings.TrimSpace(text)] {
			taken = append(taken, strings.TrimSpace(text))
			continue
		}
		b.WriteString(line)
	}
	return b.String(), taken
}
