package shell

import "strings"

var shellOptions = grammar{
	flags: "abefhiklmnprstuvxBCDEHPTc", plus: "abefhkmnptuvxBCEHPT", values: "oO",
	long:   fields("debug debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print protected restricted verbose version wordexp"),
	valued: fields("init-file rcfile"),
}

// shell reads sh and bash: the text of -c, a file, or their input.
func shell(r *reader, i int, words []Word, at place) {
	name, via := r.via1(i, words)
	c := &r.out.Commands[i]
	options, rest, why := shellOptions.read(words[1:])
	switch {
	case why != "":
		c.Opaque = why
		return
	case has(options, "help", "version"):
		return
	case has(options, "i", "l", "login", "O", "rcfile", "init-file", "k", "B"):
		c.Opaque = "it reads its start-up files or its text in another way"
	case !harmless(options) || setsCode(c.Assigns):
		c.Opaque = "its options or variables make it run more than its text"
	}
	switch {
	case !has(options, "c") && len(rest) > 0 && !has(options, "s"):
		c.Opaque = "it runs the commands of a file"
		return
	case !has(options, "c") || len(rest) == 0:
		c.Opaque = "it runs the commands that it reads from its input"
		return
	case rest[0].Certainty != Exact:
		c.Opaque = "the text that it runs is only known when it runs"
		return
	}
	opaque := c.Opaque
	why = r.nested(rest[0].Text, via, at, c.Assigns, false)
	if why == "" && name != "bash" && name != "rbash" {
		why = dialect(rest[0].Text)
	}
	c = &r.out.Commands[i]
	if c.Opaque = opaque; opaque == "" {
		c.Opaque = why
	}
	c.Wrapper = c.Opaque == "" && installed(words[0].Text)
}

// harmless reports whether all that -o switches on or off changes nothing about
// which commands a text runs.
func harmless(options []option) bool {
	for _, o := range options {
		if o.name != "o" {
			continue
		}
		switch o.value.Text {
		case "pipefail", "errexit", "nounset", "xtrace", "noclobber", "verbose", "errtrace", "functrace", "physical":
			if o.value.Certainty == Exact {
				continue
			}
		}
		return false
	}
	return true
}

func setsCode(assigns []Assign) bool {
	for _, a := range assigns {
		if holdsCode(a.Name) {
			return true
		}
	}
	return false
}

// dialect says why another shell than bash may read a text otherwise, or "":
// to dash ((x)) is two subshells, and &> sends a command to the background.
func dialect(text string) string {
	const why = "another shell than bash reads its text otherwise"
	for _, mark := range []string{"((", "[[", "$'", "$\"", "&>", ">&", "|&", "<<<", "<(", ">(", "$[", "{", "coproc", "select", "function", "time", "let", "declare", "+="} {
		if strings.Contains(text, mark) {
			return why
		}
	}
	if _, fault := parse(&posixParsers, text); fault != nil {
		return why
	}
	return ""
}

// foreignShell lists what a text would run in bash; the shell itself may read
// it otherwise.
func foreignShell(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	for k, w := range words[1:] {
		if w.Certainty == Exact && strings.HasPrefix(w.Text, "-") && strings.HasSuffix(w.Text, "c") && k+2 < len(words) && words[k+2].Certainty == Exact {
			r.nested(words[k+2].Text, via, at, r.out.Commands[i].Assigns, false)
			break
		}
	}
	r.out.Commands[i].Opaque = "it is another shell than bash"
}

// interpreter is a program for texts in another language.
type interpreter struct {
	inline string   // short options with which a text of it stands on the command line
	long   []string // long ones
	bare   bool     // without operands it reads its text from its input
}

var interpreters = map[string]interpreter{
	"python pypy ipython python2w pythonw": {inline: "c", bare: true},
	"perl":                                 {inline: "eEnpM", bare: true},
	"ruby jruby irb":                       {inline: "er", bare: true},
	"node nodejs bun deno":                 {inline: "epr", long: fields("--eval --print --require --import"), bare: true},
	"php":                                  {inline: "rRBEd", bare: true},
	"lua luajit texlua":                    {inline: "el", bare: true},
	"Rscript R julia":                      {inline: "eE", bare: true},
	"guile racket sbcl clisp ghc ghci osascript groovy scala jshell": {inline: "ecEl", long: fields("--eval"), bare: true},
	"sqlite sqlite3 psql mysql mariadb":                              {inline: "ce", long: fields("--cmd --command --execute"), bare: true},
}

// run reads an interpreter: its language is not read here.
func (n interpreter) run(r *reader, i int, words []Word, _ place) {
	c := &r.out.Commands[i]
	operands := 0
	for _, w := range words[1:] {
		switch {
		case w.Certainty > Home && operands == 0:
			c.Opaque = whyDynamic
			return
		case operands > 0:
		case w.Text == "-":
			c.Opaque = "it reads its program from its input"
			return
		case w.Text == "eval" || w.Text == "repl":
			c.Opaque = "it runs a program in another language, which is not read"
			return
		case strings.HasPrefix(w.Text, "--"):
			for _, long := range n.long {
				if strings.HasPrefix(w.Text, long) {
					c.Opaque = "it runs a program in another language, which is not read"
					return
				}
			}
			if w.Text == "--version" || w.Text == "--help" {
				return
			}
		case strings.HasPrefix(w.Text, "-"):
			if w.Text == "-V" || w.Text == "-v" && len(words) == 2 || w.Text == "-m" {
				return // a version, or a module of the language
			}
			if strings.ContainsAny(w.Text, n.inline) {
				c.Opaque = "it runs a program in another language, which is not read"
				return
			}
		default:
			operands++
		}
	}
	if operands == 0 && n.bare {
		c.Opaque = "it reads its program from its input"
	}
}

// awk is opaque where its program may start others: by system, by a pipe, or
// by a function that is named in a variable.
func awk(r *reader, i int, words []Word, _ place) {
	c := &r.out.Commands[i]
	for _, w := range words[1:] {
		switch {
		case w.Certainty > Home && !strings.Contains(w.Text, "/") && !w.Glob:
			c.Opaque = "the text of its program is only known when it runs"
			return
		case strings.Contains(w.Text, "system") || strings.Contains(w.Text, "getline") || strings.ContainsAny(strings.ReplaceAll(w.Text, "||", ""), "|@"):
			c.Opaque = "its program may start others"
			return
		case strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "lie") && !strings.HasPrefix(w.Text, "-F") && !strings.HasPrefix(w.Text, "-v"):
			c.Opaque = whyUnknown
			return
		}
	}
}
