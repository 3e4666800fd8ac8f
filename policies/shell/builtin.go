package shell

import (
	"slices"
	"strings"
)

// eval reads eval, which joins its words and runs them as text of this shell.
func eval(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	words = words[1:]
	if len(words) > 0 && words[0].Text == "--" {
		words = words[1:]
	}
	text := join(words)
	if text.Certainty != Exact {
		r.out.Commands[i].Opaque = "the text that it runs is only known when it runs"
		return
	}
	why := r.nested(text.Text, via, at, r.out.Commands[i].Assigns, true)
	c := &r.out.Commands[i]
	c.Opaque, c.Wrapper = why, why == ""
}

// trap reads trap, which runs a text of this shell at a signal or at the shell's end.
func trap(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	words = words[1:]
	c := &r.out.Commands[i]
	switch {
	case len(words) > 0 && words[0].Text == "--":
		words = words[1:]
	case len(words) > 0 && words[0].Certainty == Exact && len(words[0].Text) > 1 && words[0].Text[0] == '-':
		return // it only lists traps or signals
	}
	switch {
	case len(words) == 0:
	case join(words).Certainty > Home && (len(words) == 1 || words[0].Certainty != Exact):
		c.Opaque = "the text that it runs is only known when it runs"
	case len(words) == 1 || words[0].Text == "-" || words[0].Text == "":
	default:
		why := r.nested(words[0].Text, via, at, c.Assigns, true)
		c = &r.out.Commands[i]
		c.Opaque, c.Wrapper = why, why == ""
	}
}

// exec reads exec, which runs a program in the shell's place, or changes the shell's
// descriptors.
func exec(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	options, rest, why := grammar{flags: "cl", values: "a"}.read(words[1:])
	c := &r.out.Commands[i]
	c.Opaque = why
	if why != "" || len(rest) == 0 {
		return
	}
	if has(options, "a") {
		c.Opaque = "it starts a program under another name"
	} else {
		c.Wrapper = true
	}
	r.started(rest, c.Assigns, via, at)
}

// command reads command, which runs a program even if a function has its name.
func command(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	options, rest, why := grammar{flags: "pvV"}.read(words[1:])
	c := &r.out.Commands[i]
	c.Opaque = why
	if why != "" || len(rest) == 0 || has(options, "v", "V") {
		return
	}
	c.Wrapper = true
	r.started(rest, c.Assigns, via, at)
}

// builtin reads builtin, which runs one of the shell's own commands.
func builtin(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	_, rest, why := grammar{}.read(words[1:])
	c := &r.out.Commands[i]
	c.Opaque = why
	if why != "" || len(rest) == 0 {
		return
	}
	c.Wrapper = true
	r.started(rest, c.Assigns, via, at)
}

// set reads set, which can change how the following text is read.
func set(r *reader, i int, words []Word, _ place) {
	for k, w := range words[1:] {
		option := len(w.Text) > 1 && (w.Text[0] == '-' || w.Text[0] == '+')
		switch {
		case w.Text == "--" || w.Text == "-":
			return
		case w.Certainty != Exact && k == 0:
			r.out.Commands[i].Opaque = whyDynamic
			return
		case !option && (k == 0 || !strings.HasSuffix(words[k].Text, "o")):
			return
		case option && strings.ContainsAny(w.Text, "kB"), w.Text == "keyword", w.Text == "braceexpand", w.Text == "posix":
			r.out.Commands[i].Opaque = "it changes how the shell reads what follows"
			return
		case option && strings.ContainsAny(w.Text, "a"), w.Text == "allexport":
			r.exports("")
		}
	}
}

// hash reads hash, which can give a name to another program.
func hash(r *reader, i int, words []Word, _ place) {
	options, _, why := grammar{flags: "lrdt", values: "p"}.read(words[1:])
	if why != "" || has(options, "p") {
		r.out.Commands[i].Opaque = "it gives another program the name of a command"
	}
}

// enable reads enable, which can load builtins from files and switch off the known
// builtins.
func enable(r *reader, i int, words []Word, _ place) {
	if len(words) > 1 {
		r.out.Commands[i].Opaque = "it changes the shell's own commands"
	}
}

// jobs reads jobs, which starts a command with -x.
func jobs(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	options, rest, why := grammar{flags: "lnprsx"}.read(words[1:])
	c := &r.out.Commands[i]
	c.Opaque = why
	if why == "" && has(options, "x") && len(rest) > 0 {
		r.started(rest, c.Assigns, via, at)
	}
}

// alias reads alias, which gives another meaning to later text.
func alias(r *reader, i int, words []Word, _ place) {
	for _, w := range words[1:] {
		name, _, ok := strings.Cut(w.Text, "=")
		if ok {
			r.out.Aliases = append(r.out.Aliases, name)
		}
		if ok || w.Certainty != Exact {
			r.out.Commands[i].Opaque = "it gives a name to a text that later commands become"
		}
	}
}

// mapfile reads mapfile, which runs a text of its own with -C.
func mapfile(r *reader, i int, words []Word, at place) {
	for _, w := range words[1:] {
		if w.Certainty != Exact || strings.HasPrefix(w.Text, "-") && strings.ContainsRune(w.Text, 'C') {
			r.out.Commands[i].Opaque = "it runs a text for the lines that it reads"
			return
		}
	}
	assigner(r, i, words, at)
}

// assigners are the builtins whose words are names of variables, and how they read their
// options. names are the options whose value is such a name.
var assigners = map[string]struct {
	grammar
	names string
	skip  int // number of operands in front of the names
}{
	"read":      {grammar: grammar{flags: "ersE", values: "adinNptu"}, names: "a"},
	"mapfile":   {grammar: grammar{flags: "t", values: "dnOsuCc"}},
	"readarray": {grammar: grammar{flags: "t", values: "dnOsuCc"}},
	"getopts":   {skip: 1},
	"wait":      {grammar: grammar{flags: "fn", values: "p"}, names: "p"},
	"unset":     {grammar: grammar{flags: "fvn"}},
}

// assigner reads a builtin that sets the variables that its words name.
func assigner(r *reader, i int, words []Word, _ place) {
	name := words[0].Text
	how := assigners[name]
	options, operands, why := how.read(words[1:])
	if why != "" {
		r.out.Commands[i].Opaque = why
		return
	}
	for _, o := range options {
		if strings.Contains(how.names, o.name) {
			r.assigned(i, o.value, unknown)
		}
	}
	if name == "wait" || name == "unset" && has(options, "f") {
		return // the operands are jobs or functions
	}
	for _, w := range operands[min(how.skip, len(operands)):] {
		if known := w.Certainty == Exact && w.Text != "PATH" && EffectOf(w.Text, unknown) != HoldsCode; name == "unset" && known && !strings.Contains(w.Text, "[") {
			r.exports(w.Text) // programs then use their own default for the variable
			continue
		}
		r.assigned(i, w, unknown)
	}
}

// assigned reads a word that a builtin takes as the name of a variable. The builtin sets
// that variable and also computes the subscript.
func (r *reader) assigned(i int, name, value Word) {
	text := name.Text
	if name.Certainty != Exact || !variable(text) {
		r.subscripts(i)
	}
	if base, _, indexed := strings.Cut(text, "["); name.Certainty != Exact && (!indexed || !variable(base)) {
		text = ""
	} else if !variable(base) {
		return // the builtin reports an error, and sets nothing
	}
	if why := r.sets(text, value); why != "" {
		r.out.Commands[i].Opaque = why
	}
}

// declares reads a declaration that a program starts, for example "command export".
func declares(r *reader, i int, words []Word, _ place) {
	for _, w := range words[1:] {
		name, value, valued := strings.Cut(w.Text, "=")
		switch {
		case w.Certainty == Exact && strings.HasPrefix(w.Text, "-"):
			if strings.Contains(w.Text, "n") && refers(words[0].Text) {
				r.out.Commands[i].Opaque = "it gives a variable a second name"
			}
		case valued:
			r.assigned(i, Word{Text: strings.TrimSuffix(name, "+")}, Word{Text: value, Certainty: w.Certainty})
		default:
			r.assigned(i, w, unknown)
		}
	}
}

// printf reads printf, which sets a variable with -v.
func printf(r *reader, i int, words []Word, _ place) {
	operands := words[1:]
	switch {
	case len(operands) == 0:
	case operands[0].Certainty != Exact:
		if operands[0].Text == "" || operands[0].Text[0] == '-' {
			r.assigned(i, unknown, unknown) // the operand may be -v
		}
	case operands[0].Text == "-v" && len(operands) > 1:
		r.assigned(i, operands[1], unknown)
	case strings.HasPrefix(operands[0].Text, "-v"):
		r.assigned(i, Word{Text: operands[0].Text[2:]}, unknown)
	}
}

// let reads let, which computes its operands. They may set any variable.
func let(r *reader, i int, _ []Word, _ place) {
	r.assigned(i, unknown, unknown)
}

// asks reads test, which computes the subscript of a name.
func asks(r *reader, i int, words []Word, _ place) {
	if slices.ContainsFunc(words[1:], func(w Word) bool { return w.Text == "-v" || w.Text == "-R" || w.Certainty == Any }) {
		r.subscripts(i)
	}
}

// shopt reads shopt, which switches options for reading the following text, and with -o
// those of set. The options in known do not make the following text run other commands than
// it shows.
func shopt(r *reader, i int, words []Word, _ place) {
	known := fields("-s -u -q -p -su -qs extglob nullglob dotglob globstar failglob nocaseglob globskipdots globasciiranges nocasematch lastpipe inherit_errexit checkwinsize huponexit execfail xpg_echo")
	for _, w := range words[1:] {
		if w.Certainty != Exact || !slices.Contains(known, w.Text) {
			r.out.Commands[i].Opaque = "it changes how the shell reads what follows"
		}
	}
}

// subscripts makes a command that computes subscripts opaque, if the script contains texts
// with commands in subscripts.
func (r *reader) subscripts(i int) {
	if c := &r.out.Commands[i]; c.Opaque == "" && r.risk() {
		c.Opaque = "it uses a text as the name of a variable, and the script contains texts with commands in subscripts"
	}
}

// variable reports whether a text is the name of a variable.
func variable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && !letter(c) && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
