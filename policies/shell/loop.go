package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxRounds bounds how often the body of a loop, and of the loops around it, is
// read with the words that its variable takes.
const maxRounds = 16

// freedom is what a text says about its variables as a whole.
type freedom struct {
	names   map[string]bool // variables set otherwise than by one loop
	loops   map[string]bool // variables of loops
	all     bool            // any variable may be set: by a command that is given names
	bracket bool            // a quoted text holds [
	dollar  bool            // a quoted text holds $ or a backtick
}

// sets reports whether a loop's variable may change in the loop's body.
func (f *freedom) sets(name string) bool { return f.all || f.names[name] }

// freedom reads the whole text once.
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
			return true // the commands
		}
		for _, part := range n.Parts {
			f.part(part)
		}
	}
	return true
}

// part looks at a text that nothing expands.
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

// setsVariables reports whether a command may set variables that it is given
// the names of, or run text that does.
func setsVariables(program *syntax.Word) bool {
	switch program.Lit() {
	case "", "eval", "source", ".", "read", "mapfile", "readarray", "printf", "getopts", "let", "unset",
		"declare", "typeset", "local", "export", "readonly", "builtin", "command", "trap", "wait", "set", "shift":
		return true
	}
	return strings.ContainsAny(program.Lit(), `\{`) // eval may be spelt e\val and {eval,x=y}
}

// risk reports whether the quoted texts of the script hold both a [ and a $ or
// a backtick. A text that comes from elsewhere (a file, the environment) is not
// in the script and not seen.
func (r *reader) risk() bool {
	if !r.risky && strings.ContainsAny(r.text, "[\\") && strings.ContainsAny(r.text, "$`\\") {
		r.risky = r.freedom().bracket && r.freedom().dollar
	}
	return r.risky
}
