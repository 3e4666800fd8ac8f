package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxRounds bounds how often the body of a loop is read, with the values of its variable
// and of the variables of enclosing loops.
const maxRounds = 16

// freedom contains what a whole text does to its variables.
type freedom struct {
	names   map[string]bool // variables that are not only set by one loop
	loops   map[string]bool // variables that loops set
	all     bool            // any variable may be set: a command has names of variables as arguments
	bracket bool            // a quoted text contains [
	dollar  bool            // a quoted text contains $ or a backtick
}

// sets reports whether a loop's variable may change in the loop's body.
func (f *freedom) sets(name string) bool { return f.all || f.names[name] }

// freedom reads the whole text, but only once.
func (r *reader) freedom() *freedom {
	if r.free != nil {
		return r.free
	}
	f := &freedom{names: make(map[string]bool), loops: make(map[string]bool)}
	r.free = f
	for _, s := range r.stmts {
		syntax.Walk(s, f.node)
	}
	return f
}

func (f *freedom) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.CallExpr:
		f.all = f.all || len(n.Args) > 0 && setsVariables(n.Args[0])
	case *syntax.Assign:
		if n.Name != nil {
			f.names[n.Name.Value] = true
		}
	case *syntax.Redirect:
		f.all = f.all || n.N != nil && strings.HasPrefix(n.N.Value, "{")
	case *syntax.WordIter:
		if f.loops[n.Name.Value] {
			f.names[n.Name.Value] = true
		}
		f.loops[n.Name.Value] = true
	case *syntax.FuncDecl, *syntax.DeclClause, *syntax.LetClause, *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.CoprocClause, *syntax.CStyleLoop:
		f.all = true
	case *syntax.ParamExp:
		f.all = f.all || n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull)
	case *syntax.Word:
		if lit := n.Lit(); lit == "[" || lit == "[[" {
			return true // these words are commands
		}
		for _, part := range n.Parts {
			f.part(part)
		}
	}
	return true
}

// part looks at a text that the shell does not expand.
func (f *freedom) part(part syntax.WordPart) {
	text := ""
	switch p := part.(type) {
	case *syntax.Lit:
		text = p.Value
	case *syntax.SglQuoted:
		text = p.Value
		if p.Dollar {
			f.bracket, f.dollar = f.bracket || strings.Contains(text, `\`), f.dollar || strings.Contains(text, `\`)
		}
	case *syntax.DblQuoted:
		for _, part := range p.Parts {
			f.part(part)
		}
	}
	f.bracket = f.bracket || strings.Contains(text, "[")
	f.dollar = f.dollar || strings.ContainsAny(text, "$`")
}

// setsVariables reports whether a command may set variables that its arguments name, or run
// text that sets variables.
func setsVariables(program *syntax.Word) bool {
	switch program.Lit() {
	case "", "eval", "source", ".", "read", "mapfile", "readarray", "printf", "getopts", "let", "unset",
		"declare", "typeset", "local", "export", "readonly", "builtin", "command", "trap", "wait", "set", "shift":
		return true
	}
	return strings.ContainsAny(program.Lit(), `\{`) // eval may be spelled e\val or {eval,x=y}
}

// risk reports whether the quoted texts of the script contain both a [ and a $ or a
// backtick. A text that comes from elsewhere (a file, the environment) is not in the script
// and is not seen.
func (r *reader) risk() bool {
	if !r.risky && strings.ContainsAny(r.text, "[\\") && strings.ContainsAny(r.text, "$`\\") {
		r.risky = r.freedom().bracket && r.freedom().dollar
	}
	return r.risky
}
