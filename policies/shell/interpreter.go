package shell

import (
	"slices"
	"strings"
)

var shellOptions = grammar{
	flags: "abefhiklmnprstuvxBCDEHPTc", plus: "abefhkmnptuvxBCEHPT", values: "oO",
	long:   "debug debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print protected restricted verbose version wordexp",
	valued: "init-file rcfile",
}

// shell reads sh and bash, which run the text of -c, a file, or their input.
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
		c.Opaque = "an option changes how it reads its start-up files or its text"
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

// harmless reports whether the options that -o switches do not change which commands a text
// runs.
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

// foreignShell lists what a text would run in bash; the shell itself may read the text
// differently.
func foreignShell(r *reader, i int, words []Word, at place) {
	_, via := r.via1(i, words)
	for k, w := range words[1:] {
		if w.Certainty == Exact && strings.HasPrefix(w.Text, "-") && strings.HasSuffix(w.Text, "c") && k+2 < len(words) && words[k+2].Certainty == Exact {
			r.nested(words[k+2].Text, via, at, r.out.Commands[i].Assigns, false)
			break
		}
	}
	r.out.Commands[i].Opaque = "it is a shell other than bash"
}

// interpreter is a program that runs texts in another language. An option that its grammar
// does not have makes it opaque: the next word could be the option's value, or the file
// that it runs, and further options could follow.
type interpreter struct {
	grammar
	inline string   // short options with which a program text is on the command line, or is read from the input
	long   wordList // long options of the same kind
	last   string   // the short option that is the last one: the words after it are the program's own
	module wordList // values of last that only name a module of the language
	file   string   // short options that name the files that the interpreter runs
	all    bool     // it reads commands, whatever its arguments are
}

const (
	whyInline = "it runs a program in another language, which is not read"
	whyInput  = "it reads its program from its input"
)

// modules are the modules of Python that do not run a text from their arguments. For
// example, timeit, pdb and trace run such a text.
const modules wordList = "pytest unittest pip venv virtualenv ensurepip http.server json.tool compileall py_compile black ruff mypy flake8 isort pylint build twine coverage pyflakes pycodestyle bandit sphinx mkdocs django flask uvicorn gunicorn celery alembic tarfile zipfile gzip calendar base64 sysconfig site platform"

var interpreters = map[string]interpreter{
	"python pypy ipython python2w pythonw": {grammar: grammar{flags: "bBdEhIOPqRsSuvVx", values: "cmWX", long: "help version"}, inline: "ci", last: "m", module: modules},
	"perl":                                 {grammar: grammar{flags: "acfhnpsStTuUvVwWX", attached: "0liCDxdFmM", values: "IeE"}, inline: "eEMmdFnp"},
	"ruby jruby irb":                       {grammar: grammar{flags: "achlnpsSvwUd", attached: "0KTWxFi", values: "CEIer", long: "help version verbose yjit jit", valued: "encoding"}, inline: "erFnp"},
	"node nodejs bun deno": {
		grammar: grammar{
			flags: "ichv", values: "eprC", valued: "eval print require import conditions max-old-space-size stack-size",
			long: "help version check test watch no-warnings trace-warnings trace-deprecation throw-deprecation enable-source-maps expose-gc experimental-strip-types experimental-vm-modules preserve-symlinks trace-uncaught",
		},
		inline: "iepr", long: "eval print require import",
	},
	"php":               {grammar: grammar{flags: "ahilmnqsvwCHe", values: "cftrRBEFdSz", long: "help version"}, inline: "arRBEFdz", file: "fS"},
	"lua luajit texlua": {grammar: grammar{flags: "iEvW", values: "el"}, inline: "eli"},
	"Rscript R julia":   {grammar: grammar{flags: "qi", values: "eEfgLptJ", long: "vanilla verbose version help no-save no-restore slave quiet"}, inline: "eEiL", file: "f"},
	"guile racket sbcl clisp ghc ghci osascript groovy scala jshell": {grammar: grammar{long: "version help script"}},
	"psql mysql mariadb": {grammar: grammar{flags: "V?", long: "version help"}, all: true},
}

// run reads an interpreter. Texts in its language are not read here.
func (n interpreter) run(r *reader, i int, words []Word, _ place) {
	if why := n.doubt(words[1:]); why != "" {
		r.out.Commands[i].Opaque = why
	}
}

// doubt returns why an interpreter with these words may run something that the words do not
// name, or "".
func (n interpreter) doubt(words []Word) string {
	file, alone := false, len(words) == 1
	for len(words) > 0 {
		w := words[0]
		switch {
		case w.Certainty > Home:
			return whyDynamic
		case w.Text == "-":
			return whyInput
		case w.Text == "--":
			words = words[1:]
			if len(words) > 0 && words[0].Certainty > Home {
				return whyDynamic
			}
			return n.operands(words, file)
		case !strings.HasPrefix(w.Text, "-"):
			return n.operands(words, file)
		}
		var options []option
		var took int
		var why string
		if strings.HasPrefix(w.Text, "--") {
			var o option
			o, took, why = n.longOption(words)
			options = []option{o}
		} else {
			options, took, why = n.shortOptions(words)
		}
		switch {
		case why != "":
			return why
		case alone && has(options, "help", "version", "V", "h", "v"):
			return "" // the program only shows its help
		case n.long.hasOne(options), has(options, strings.Split(n.inline, "")...):
			return whyInline
		}
		words = words[took:]
		if o, ok := last(options, n.last); ok && n.last != "" {
			if o.value.Certainty != Exact || !n.module.has(o.value.Text) {
				return "it runs a module that may run the text that it is given"
			}
			return ""
		}
		file = file || has(options, strings.Split(n.file, "")...)
	}
	return n.operands(nil, file)
}

// operands returns the doubt about the words after the options.
func (n interpreter) operands(words []Word, file bool) string {
	switch {
	case n.all:
		return "it runs the commands that it is given, or reads from a file or its input"
	case file:
		return ""
	case len(words) == 0:
		return whyInput
	}
	if words[0].Text != "run" { // for run of bun and deno, further options may follow
		words = words[:1]
	}
	for _, w := range words {
		switch t := w.Text; {
		case t == "-", t == "eval", t == "repl", strings.HasPrefix(t, "data:"), strings.Contains(t, "://"), strings.HasPrefix(t, "/dev/"), strings.HasPrefix(t, "/proc/"):
			return whyInline
		}
	}
	return ""
}

// sqlite is opaque, except with a database and statements that can start nothing.
func sqlite(r *reader, i int, words []Word, _ place) {
	c := &r.out.Commands[i]
	c.Opaque = "it runs the commands that it is given, or reads from a file or its input"
	operands := 0
	for _, w := range words[1:] {
		text := strings.ToLower(strings.TrimSpace(w.Text))
		switch {
		case w.Certainty > Home && (operands > 0 || w.Text == ""):
			return
		case operands == 0 && slices.Contains(fields("-header -noheader -csv -json -column -line -list -table -markdown -box -html -readonly -batch -bail -version"), w.Text):
			if w.Text == "-version" {
				c.Opaque = ""
				return
			}
		case strings.HasPrefix(text, "-"), operands > 0 && strings.HasPrefix(text, "."), strings.Contains(text, "load_extension"), strings.Contains(text, "edit"):
			return
		default:
			operands++
		}
	}
	if operands > 1 {
		c.Opaque = ""
	}
}

// awk is opaque if its program may start other programs: by system, by a pipe, or by a
// function that a variable names. It is also opaque if its program comes from a file.
func awk(r *reader, i int, words []Word, _ place) {
	c := &r.out.Commands[i]
	options, rest, why := grammar{values: "FvfEi", valued: "field-separator assign file exec include", long: "version help"}.read(words[1:])
	switch {
	case why != "":
		c.Opaque = why
	case has(options, "f", "E", "i", "file", "exec", "include"):
		c.Opaque = "it runs the program of a file"
	case len(rest) == 0:
	case rest[0].Certainty != Exact:
		c.Opaque = "the text of its program is only known when it runs"
	case strings.Contains(rest[0].Text, "system") || strings.Contains(rest[0].Text, "getline") || strings.ContainsAny(strings.ReplaceAll(rest[0].Text, "||", ""), "|@"):
		c.Opaque = "its program may start others"
	}
}
