package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
)

// program reads the words of a command that starts others or runs text.
type program func(r *reader, i int, words []Word, at place)

// programs returns the programs that are not plain wrappers, by name. It is set in init:
// these functions call programs, which would otherwise be an initialization cycle.
var programs func() map[string]program

func init() { programs = sync.OnceValue(allPrograms) }

// allPrograms makes the table; only programs calls it.
func allPrograms() map[string]program {
	all := map[string]program{
		"env":     env,
		"xargs":   xargs,
		"find":    find,
		"watch":   watch,
		"busybox": applet, "toybox": applet,
		"git": git, "sed": sed, "gsed": sed,

		"eval": eval, "exec": exec, "command": command, "builtin": builtin, "trap": trap,
		"set": set, "hash": hash, "enable": enable, "jobs": jobs,
		"read": assigner, "mapfile": mapfile, "readarray": mapfile, "printf": printf, "unset": assigner,
		"getopts": assigner, "let": let, "wait": assigner, "test": asks, "[": asks,
		"declare": declares, "typeset": declares, "local": declares, "export": declares, "readonly": declares,
		"alias": alias, "shopt": shopt, "sqlite": sqlite,
	}
	for why, list := range map[string]string{
		"it runs the commands of a file":                                        "source .",
		"it runs commands that the script does not show":                        "complete compgen compopt bind fc",
		"it runs a command on another machine or in another place":              "ssh autossh mosh rsh dbclient",
		"it runs commands that are given to it in ways that are not known here": "parallel systemd-run screen tmux at batch crontab expect entr perf gdb socat rlwrap proot bwrap firejail capsh cgexec perf valgrind setarch linux32 linux64 i386 x86_64 dbus-run-session dbus-launch torsocks torify proxychains proxychains4 distcc faketime start-stop-daemon run-parts sg newgrp chpst softlimit envdir ld.so lldb gnuplot octave m4 dc tclsh wish emacs vi vim nvim ex ed view rvim",
	} {
		for _, name := range fields(list) {
			all[name] = always(why)
		}
	}
	for _, name := range fields(shells) {
		all[name] = shell
	}
	for _, name := range fields(foreignShells) {
		all[name] = foreignShell
	}
	for list, how := range interpreters {
		for _, name := range fields(list) {
			all[name] = how.run
		}
	}
	for _, name := range fields(awks) {
		all[name] = awk
	}
	return all
}

// command adds a command, and all commands that it starts.
func (r *reader) command(words []Word, assigns []Assign, redirects []Redirect, via []string, text string, at place) {
	i := r.emit(Command{Words: words, Assigns: assigns, Redirects: redirects, Via: via, Text: text}, at)
	if i < 0 || len(words) == 0 {
		return
	}
	switch {
	case words[0].Certainty == Home:
	case words[0].Certainty != Exact:
		r.out.Commands[i].Opaque = "the name of its program is only known when it runs"
		return
	}
	if len(via) > MaxDepth {
		r.stop(TooDeep, "its commands start one another in too many levels")
		return
	}
	name := path.Base(words[0].Text)
	if w, ok := wrappers[name]; ok {
		w.start(r, i, words, at)
	} else if run, ok := programs()[versionless(name)]; ok {
		run(r, i, words, at)
	} else if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		r.out.Commands[i].Opaque = "it is the loader of programs, which runs the program that it is given"
	}
}

// versionless returns a name without a version at its end: python3.11 becomes python.
func versionless(name string) string {
	short := strings.TrimRight(name, "0123456789.-")
	if short == "" || programs()[name] != nil {
		return name
	}
	return short
}

func always(why string) program {
	return func(r *reader, i int, _ []Word, _ place) { r.out.Commands[i].Opaque = why }
}

// env reads env, whose operands may begin with variables. Its -S contains several operands
// in one word.
func env(r *reader, i int, words []Word, at place) {
	c := &r.out.Commands[i]
	_, via := r.via1(i, words)
	g := grammar{
		flags: "i0v", values: "uCSa", long: "ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling help version",
		valued: "unset chdir split-string argv0",
	}
	rest := words[1:]
	plain := true
	for {
		var options []option
		var why string
		if options, rest, why = g.read(rest); why != "" {
			c.Opaque = why
			return
		}
		if has(options, "help", "version") {
			return
		}
		if has(options, "a", "argv0") {
			c.Opaque = "it starts a program under another name"
		}
		plain = plain && !has(options, "C", "chdir", "S", "split-string")
		text, ok := last(options, "S", "split-string")
		if !ok {
			break
		}
		// If the words of the first -S contain a second -S, the next round reads it.
		split, ok := splitEnv(text.value)
		if !ok {
			c.Opaque = "the words that it splits are only known when it runs"
			return
		}
		rest = append(split, rest...)
	}
	if len(rest) > 0 && rest[0] == (Word{Text: "-"}) {
		rest = rest[1:]
	}
	assigns := c.Assigns
	for len(rest) > 0 {
		one, why, ok := assignment(rest[0])
		if !ok {
			break
		}
		c.Opaque = cmp.Or(why, c.Opaque)
		assigns = append(slices.Clip(assigns), one)
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return
	}
	if rest[0].Certainty == Any || rest[0].Certainty == One && !strings.Contains(rest[0].Text, "/") {
		c.Opaque = whyDynamic // the word may be a variable, and the program the next word
	}
	c.Wrapper = plain && c.Opaque == "" && installed(words[0].Text)
	r.started(rest, assigns, via, at)
}

// splitEnv splits a word as env -S does. It returns false unless the word contains only
// words, blanks and plain quotes.
func splitEnv(w Word) ([]Word, bool) {
	if w.Certainty != Exact || strings.ContainsAny(w.Text, "\\$#\v\f\r") {
		return nil, false
	}
	var all []Word
	word, inWord, quote := []byte(nil), false, byte(0)
	for i := 0; i <= len(w.Text); i++ {
		end := i == len(w.Text)
		switch {
		case end && quote != 0:
			return nil, false
		case end, quote == 0 && strings.IndexByte(" \t\n", w.Text[i]) >= 0:
			if inWord {
				all = append(all, Word{Text: string(word)})
			}
			word, inWord = nil, false
		case quote == w.Text[i]:
			quote = 0
		case quote == 0 && (w.Text[i] == '\'' || w.Text[i] == '"'):
			quote, inWord = w.Text[i], true
		default:
			word, inWord = append(word, w.Text[i]), true
		}
	}
	return all, true
}

// xargs reads xargs, which adds unknown words to its command, or puts them in a word's
// place.
func xargs(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	g := grammar{
		flags: "0rtpxo", values: "adEILnPs", attached: "eil",
		long:   "null no-run-if-empty verbose interactive exit open-tty show-limits eof replace max-lines help version",
		valued: "arg-file delimiter max-args max-chars max-procs process-slot-var",
	}
	options, rest, why := g.read(words[1:])
	if why != "" {
		r.out.Commands[i].Opaque = why
		return
	}
	if has(options, "help", "version") {
		return
	}
	if len(rest) == 0 {
		rest = []Word{{Text: "echo"}}
	}
	// Of -I, -L and -n the last one counts; here all that may count are taken.
	replace := ""
	if o, ok := last(options, "I", "i", "replace"); ok {
		replace = "{}"
		if o.given {
			replace = o.value.Text
		}
		if o.value.Certainty != Exact {
			replace = ""
			for k := range rest {
				rest[k] = Word{Certainty: One}
			}
		}
	}
	var filled []Word
	for _, w := range rest {
		if replace != "" {
			w = marked(w, replace)
		}
		filled = append(filled, w)
	}
	if replace == "" || has(options, "L", "l", "n", "max-lines", "max-args") {
		filled = append(filled, Word{Certainty: Any})
	}
	r.started(filled, r.out.Commands[i].Assigns, via, at)
}

// marked returns a word in which a program replaces a mark: only the text before the mark
// is known. If the word is not known in full, its unknown part may contain the mark, or the
// rest of the mark.
func marked(w Word, mark string) Word {
	before, _, found := strings.Cut(w.Text, mark)
	switch {
	case found && w.Certainty == Home:
		return Word{Certainty: One}
	case found && w.Certainty != Any:
		return Word{Text: before, Certainty: One}
	case found:
		w.Text = before
	case w.Certainty == One || w.Certainty == Any:
		for n := min(len(mark)-1, len(w.Text)); n > 0; n-- {
			if strings.HasSuffix(w.Text, mark[:n]) {
				w.Text = w.Text[:len(w.Text)-n]
				break
			}
		}
	}
	return w
}

// find reads find, which starts commands for -exec and similar options.
func find(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	assigns := r.out.Commands[i].Assigns
	for k := 1; k < len(words); k++ {
		w := words[k]
		if w.Certainty == Any && !w.Glob || w.Certainty == One && w.Text == "" && ends(words[k:]) {
			r.out.Commands[i].Opaque = whyDynamic
			continue
		}
		switch w.Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		// This -exec may be the operand of another option (-name -exec), and then
		// the words up to its end may contain the real -exec: each one is read.
		from, to := k+1, k+1
		for ; to < len(words) && words[to] != (Word{Text: ";"}) && (words[to] != (Word{Text: "+"}) || words[to-1].Text != "{}"); to++ {
			if words[to].Certainty == Any {
				// The word may end the command and begin another one.
				r.out.Commands[i].Opaque = whyDynamic
			}
		}
		if to == len(words) {
			r.out.Commands[i].Opaque = "nothing marks the end of the command that it starts"
		}
		command := make([]Word, 0, to-from)
		for _, w := range words[from:to] {
			command = append(command, marked(w, "{}"))
		}
		if to < len(words) && words[to].Text == "+" && len(command) > 0 {
			command[len(command)-1] = Word{Certainty: Any}
		}
		if len(command) > 0 {
			r.started(command, assigns, via, at)
		}
	}
}

// ends reports whether one of the words could end a command of find.
func ends(words []Word) bool {
	for _, w := range words {
		if w.Text == ";" || w.Text == "+" || w.Certainty == Any {
			return true
		}
	}
	return false
}

// watch reads watch, which passes its operands, joined, to a shell.
func watch(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	g := grammar{
		flags: "bcCdegprtvwxh", values: "nqs", attached: "d",
		long:   "beep color no-color differences errexit chgexit precise no-rerun no-title no-wrap exec help version",
		valued: "interval equexit shotsdir",
	}
	options, rest, why := g.read(words[1:])
	switch {
	case why != "":
		r.out.Commands[i].Opaque = why
	case len(rest) == 0 || has(options, "h", "v", "help", "version"):
	case has(options, "x", "exec"):
		r.started(rest, r.out.Commands[i].Assigns, via, at)
	default:
		r.shellText(i, join(rest), via, at, r.out.Commands[i].Assigns)
	}
}

// applet reads busybox, which runs as the program that its first operand names.
func applet(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	if len(words) < 2 || strings.HasPrefix(words[1].Text, "-") {
		if len(words) > 1 {
			r.out.Commands[i].Opaque = whyUnknown
		}
		return
	}
	if words[1].Certainty != Exact {
		r.out.Commands[i].Opaque = whyDynamic
		return
	}
	// Some of its applets start themselves again under other names.
	r.started(words[1:], r.out.Commands[i].Assigns, via, at)
}
