package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// inWord reads the commands that run while a word is expanded.
func (r *reader) inWord(w *syntax.Word) {
	if w == nil || r.err != nil {
		return
	}
	for _, part := range w.Parts {
		r.inPart(part)
	}
}

func (r *reader) inPart(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.DblQuoted:
		r.inQuotes(p.Parts)
	case *syntax.CmdSubst:
		r.list(p.Stmts)
	case *syntax.ProcSubst:
		r.list(p.Stmts)
	case *syntax.ArithmExp:
		r.arithmetic(p.X)
	case *syntax.ExtGlob:
		// The parser keeps the pattern as text, so expansions in it are not seen.
		if strings.ContainsAny(p.Pattern.Value, "$`<>;&|()\\\"'") {
			r.opaque("it contains an extended pattern", offset(p.Pos()), offset(p.End()), p.Pos().Line())
		}
	case *syntax.ParamExp:
		r.inParam(p)
	}
}

// inQuotes reads the parts of a quoted text or a here-document. There, single quotes in an
// expansion are quotes for the parser, but mostly ordinary letters for bash: bash runs the
// commands between them, and sees another end of the expansion.
func (r *reader) inQuotes(parts []syntax.WordPart) {
	for _, part := range parts {
		if p, ok := part.(*syntax.ParamExp); ok && singleQuotes(p) {
			r.opaque("it contains single quotes in an expansion in quotes", offset(p.Pos()), offset(p.End()), p.Pos().Line())
		}
		r.inPart(part)
	}
}

// singleQuotes reports whether a node contains single quotes outside the
// substitutions of commands.
func singleQuotes(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.SglQuoted:
			found = true
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		}
		return !found
	})
	return found
}

func (r *reader) inParam(p *syntax.ParamExp) {
	from, to, line := offset(p.Pos()), offset(p.End()), p.Pos().Line()
	if p.NestedParam != nil {
		r.opaque("it contains an expansion that is not bash", from, to, line)
	}
	if p.Excl && p.Names == 0 {
		r.evaluates("it uses a variable by a name that is a text", from, to, line)
	}
	r.subscript(p.Index)
	if p.Slice != nil {
		r.arithmetic(p.Slice.Offset)
		r.arithmetic(p.Slice.Length)
	}
	if p.Repl != nil {
		r.inWord(p.Repl.Orig)
		r.inWord(p.Repl.With)
	}
	if p.Exp == nil {
		return
	}
	op := p.Exp.Op
	if (op == syntax.AssignUnset || op == syntax.AssignUnsetOrNull) && p.Param != nil {
		name := p.Param.Value
		if p.Excl {
			name = "" // the value of p.Param is the name of the variable
		}
		r.setsAt(name, r.word(p.Exp.Word), from, to, line)
	}
	if op == syntax.OtherParamOps && (p.Exp.Word == nil || p.Exp.Word.Lit() == "P" || p.Exp.Word.Lit() == "") {
		r.opaque("${...@P} runs the commands in a variable", from, to, line)
	}
	r.inWord(p.Exp.Word)
}

// subscript reads the text between [ and ] of an array.
func (r *reader) subscript(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	switch {
	case !ok:
		r.arithmetic(x)
	case w.Lit() != "@" && w.Lit() != "*":
		// bash expands the text again that is left after quote removal.
		var f freedom
		for _, part := range w.Parts {
			f.part(part)
		}
		if f.dollar {
			r.opaque("it contains a subscript with a quoted command", offset(x.Pos()), offset(x.End()), x.Pos().Line())
		}
		r.computed(w)
	}
}

// arithmetic reads an expression. bash also computes the value of a variable in an
// expression as an expression, and runs the substitutions in its subscripts.
func (r *reader) arithmetic(x syntax.ArithmExpr) {
	if r.err != nil {
		return
	}
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		var right []syntax.ArithmExpr // a loop instead of recursion, as for the long chains of commands
		for {
			if name, ok := assigned(x); ok {
				r.setsAt(name, unknown, offset(x.Pos()), offset(x.End()), x.Pos().Line())
			}
			right = append(right, x.Y)
			left, ok := x.X.(*syntax.BinaryArithm)
			if !ok {
				r.arithmetic(x.X)
				break
			}
			x = left
		}
		for _, y := range slices.Backward(right) {
			r.arithmetic(y)
		}
	case *syntax.UnaryArithm:
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			r.setsAt(operand(x.X), unknown, offset(x.Pos()), offset(x.End()), x.Pos().Line())
		}
		r.arithmetic(x.X)
	case *syntax.ParenArithm:
		r.arithmetic(x.X)
	case *syntax.Word:
		if singleQuotes(x) {
			r.opaque("it contains single quotes in arithmetic", offset(x.Pos()), offset(x.End()), x.Pos().Line())
		}
		r.computed(x)
	default:
		r.opaque("it contains arithmetic that is not bash", offset(x.Pos()), offset(x.End()), x.Pos().Line())
	}
}

// computed reads an operand of an expression.
func (r *reader) computed(x *syntax.Word) {
	r.inWord(x)
	if w, ok := simple(x); !ok || strings.Trim(w.Text, "0123456789") != "" {
		r.evaluates("it does arithmetic with a text", offset(x.Pos()), offset(x.End()), x.Pos().Line())
	}
}

// assigned returns the variable that an expression sets.
func assigned(x *syntax.BinaryArithm) (string, bool) {
	op := x.Op.String()
	if !strings.HasSuffix(op, "=") || op == "==" || op == "!=" || op == "<=" || op == ">=" {
		return "", false
	}
	return operand(x.X), true
}

// operand returns the name of the variable that an operand is, or "".
func operand(x syntax.ArithmExpr) string {
	w, ok := x.(*syntax.Word)
	if !ok {
		return ""
	}
	if len(w.Parts) == 1 {
		if p, ok := w.Parts[0].(*syntax.ParamExp); ok && p.Short && p.Index != nil && p.Param != nil {
			return p.Param.Value // an element of an array
		}
	}
	return w.Lit()
}

// evaluates adds an opaque command at a place where bash reads a text as an expression, if
// the script contains parts of a text whose subscript could run commands: x='a[$(id)]';
// echo $((x)).
func (r *reader) evaluates(why string, from, to int, line uint) {
	if r.risk() {
		r.opaque(why+", and the script contains texts with commands in subscripts", from, to, line)
	}
}

// evaluatesWords does the same as evaluates, for the operands of a command that takes names
// of variables.
func (r *reader) evaluatesWords(words []Word, from, to int, line uint) {
	for _, w := range words {
		if w.Certainty != Exact || strings.ContainsRune(w.Text, '[') {
			r.evaluates("it uses a text as the name of a variable", from, to, line)
			return
		}
	}
}
