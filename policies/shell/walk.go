package shell

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (r *reader) list(stmts []*syntax.Stmt) {
	for _, s := range stmts {
		if r.err != nil {
			return
		}
		r.stmt(s)
	}
}

// stmt reads one command with its redirections.
func (r *reader) stmt(s *syntax.Stmt) {
	if r.err != nil || s == nil {
		return
	}
	redirects := r.redirects(s.Redirs)
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		r.call(s, c, redirects)
		r.inRedirects(s.Redirs)
		return
	case *syntax.DeclClause:
		r.declare(s, c, redirects)
		r.inRedirects(s.Redirs)
		return
	case *syntax.TestClause:
		r.test(s, c, redirects)
		r.inRedirects(s.Redirs)
		return
	}
	defer r.inRedirects(s.Redirs)
	if len(redirects) > 0 {
		first, last := s.Redirs[0], s.Redirs[len(s.Redirs)-1]
		from, to := offset(first.Pos()), offset(last.Word.End())
		r.emit(Command{Via: r.via, Redirects: redirects, Text: r.slice(from, to)}, r.at(from, to, first.OpPos.Line()))
	}
	r.compound(s.Cmd)
}

// compound reads a command that consists of other commands.
func (r *reader) compound(c syntax.Command) {
	switch c := c.(type) {
	case nil:
	case *syntax.Subshell:
		r.list(c.Stmts)
	case *syntax.Block:
		r.list(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			r.list(c.Cond)
			r.list(c.Then)
		}
	case *syntax.WhileClause:
		r.list(c.Cond)
		r.list(c.Do)
	case *syntax.ForClause:
		r.loop(c)
	case *syntax.CaseClause:
		r.inWord(c.Word)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				r.inWord(p)
			}
			r.list(item.Stmts)
		}
	case *syntax.BinaryCmd:
		// A long chain nests only on one side: a loop follows that side, and only the other
		// side is a recursive call.
		var right []*syntax.Stmt
		var piped []bool
		for {
			right, piped = append(right, c.Y), append(piped, c.Op == syntax.Pipe || c.Op == syntax.PipeAll)
			left, ok := c.X.Cmd.(*syntax.BinaryCmd)
			if !ok || len(c.X.Redirs) > 0 {
				r.stmt(c.X)
				break
			}
			c = left
		}
		for i, y := range slices.Backward(right) {
			r.stmt(behind(y, piped[i]))
		}
	case *syntax.FuncDecl:
		if c.Name != nil {
			r.out.Functions = append(r.out.Functions, c.Name.Value)
		}
		r.stmt(c.Body)
	case *syntax.TimeClause:
		// In "time -- a" the program is a for bash, and "--" for the parser.
		if c.Stmt == nil {
			return
		}
		if call, ok := leftmost(c.Stmt).Cmd.(*syntax.CallExpr); ok && len(call.Args) > 1 && len(call.Assigns) == 0 && call.Args[0].Lit() == "--" {
			call.Args = call.Args[1:]
			// A word after the -- may be a variable or a keyword, which the parser took
			// for ordinary words.
			r.opaque("it contains a time command of an unusual form", offset(c.Pos()), offset(c.End()), c.Pos().Line())
		}
		r.stmt(c.Stmt)
	case *syntax.CoprocClause:
		r.inWord(c.Name)
		if c.Name != nil {
			r.setsAt(c.Name.Lit(), unknown, offset(c.Pos()), offset(c.End()), c.Pos().Line())
		}
		// In bash only a compound command has a name. The parser takes the first word of
		// some other commands for a name, and the words after it for variables.
		switch c2 := leftmost(c.Stmt).Cmd.(type) {
		case *syntax.CallExpr:
			variable := func(w *syntax.Word) bool {
				lit, ok := w.Parts[0].(*syntax.Lit)
				return ok && strings.Contains(lit.Value, "=")
			}
			if c.Name != nil || len(c2.Assigns) > 0 || slices.ContainsFunc(c2.Args, variable) {
				r.opaque("it starts a coprocess of an unusual form", offset(c.Pos()), offset(c.End()), c.Pos().Line())
			}
		case nil:
			r.opaque("it starts a coprocess of an unusual form", offset(c.Pos()), offset(c.End()), c.Pos().Line())
		}
		r.stmt(behind(c.Stmt, true))
	case *syntax.ArithmCmd:
		r.arithmetic(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			r.arithmetic(x)
		}
	default:
		r.opaque("it contains a construct that is not known here", offset(c.Pos()), offset(c.End()), c.Pos().Line())
	}
}

// behind returns the statement after a pipe. There bash reads time as the name of a
// program, which has options of its own, and not as a keyword.
func behind(s *syntax.Stmt, pipe bool) *syntax.Stmt {
	c, ok := s.Cmd.(*syntax.TimeClause)
	if !ok || !pipe {
		return s
	}
	at := &syntax.Lit{ValuePos: c.Time, ValueEnd: c.Time, Value: "time"}
	call := &syntax.CallExpr{Args: []*syntax.Word{{Parts: []syntax.WordPart{at}}}}
	if c.PosixFormat {
		call.Args = append(call.Args, &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: c.Time, ValueEnd: c.Time, Value: "-p"}}})
	}
	out := &syntax.Stmt{Cmd: call, Position: s.Position, Redirs: s.Redirs}
	if c.Stmt == nil {
		return out
	}
	out.Redirs = append(out.Redirs, c.Stmt.Redirs...)
	if inner, ok := c.Stmt.Cmd.(*syntax.CallExpr); ok && len(inner.Assigns) == 0 {
		call.Args = append(call.Args, inner.Args...)
		return out
	}
	return s // bash does not know such a command: a keyword cannot follow a program
}

// leftmost returns the first command of a list.
func leftmost(s *syntax.Stmt) *syntax.Stmt {
	for {
		c, ok := s.Cmd.(*syntax.BinaryCmd)
		if !ok {
			return s
		}
		s = c.X
	}
}

// call reads a simple command.
func (r *reader) call(s *syntax.Stmt, c *syntax.CallExpr, redirects []Redirect) {
	from, to := span(s, offset(c.Pos()), offset(c.End()))
	line := c.Pos().Line()
	words := make([]Word, 0, len(c.Args))
	for _, w := range c.Args {
		words = r.words(words, w)
	}
	assigns := r.assigns(c.Assigns)
	if len(words) == 0 {
		for _, a := range assigns {
			if !local(a.Name) {
				r.exports(a.Name)
			}
			r.affects(a.Name, a.Effect) // inAssigns adds an opaque command for a variable that contains code
		}
	}
	at := r.at(from, to, line)
	if len(words) > 0 || len(assigns) > 0 || len(redirects) > 0 {
		r.command(words, append(slices.Clip(r.inherited), assigns...), redirects, r.via, r.slice(from, to), at)
	}
	for _, w := range c.Args {
		r.inWord(w)
	}
	r.inAssigns(c.Assigns)
}

// span returns a command's place, widened to its redirections.
func span(s *syntax.Stmt, from, to int) (int, int) {
	for _, d := range s.Redirs {
		from, to = min(from, offset(d.Pos())), max(to, offset(d.Word.End()))
	}
	return from, to
}

// assigns returns the variables that are set in front of a command.
func (r *wordReader) assigns(all []*syntax.Assign) []Assign {
	var out []Assign
	for _, a := range all {
		if a.Name != nil {
			out = append(out, r.assign(a))
		}
	}
	return out
}

// assign returns one variable that is set in front of a command.
func (r *wordReader) assign(a *syntax.Assign) Assign {
	value := r.word(a.Value)
	one := Assign{Name: a.Name.Value, Value: value, Effect: NoEffect}
	switch {
	case a.Name.Value == "PATH" && a.Append && value.Certainty == Exact && strings.HasPrefix(value.Text, ":"), a.Name.Value == "PATH" && !a.Append && extendsPath(a.Value):
		// An addition at the end of PATH does not matter for programs that were already
		// found before.
	case a.Append || a.Array != nil || a.Index != nil:
		one.Effect = EffectOf(one.Name, unknown)
	default:
		one.Effect = EffectOf(one.Name, value)
	}
	return one
}

// extendsPath reports whether a value of PATH is the old value with directories behind it,
// or with directories of the system in front of it.
func extendsPath(w *syntax.Word) bool {
	if w == nil || len(w.Parts) == 0 {
		return false
	}
	parts := w.Parts
	if q, ok := parts[0].(*syntax.DblQuoted); ok && !q.Dollar {
		parts = slices.Concat(q.Parts, parts[1:])
	}
	if len(parts) == 0 {
		return false
	}
	if lit, ok := parts[0].(*syntax.Lit); ok {
		dirs, found := strings.CutSuffix(lit.Value, ":")
		if !found || !systemPath(dirs) {
			return false
		}
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return false
	}
	p, ok := parts[0].(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Param.Value != "PATH" || p.Excl || p.Length || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Exp != nil || p.NestedParam != nil {
		return false
	}
	if len(parts) == 1 {
		return true
	}
	lit, ok := parts[1].(*syntax.Lit)
	return ok && strings.HasPrefix(lit.Value, ":")
}

// inAssigns reads the commands that run while variables are set.
func (r *reader) inAssigns(all []*syntax.Assign) {
	for _, a := range all {
		r.subscript(a.Index)
		r.inWord(a.Value)
		if a.Array != nil {
			for _, e := range a.Array.Elems {
				r.subscript(e.Index)
				r.inWord(e.Value)
			}
		}
		if a.Name != nil && holdsCode(a.Name.Value) {
			r.opaque(r.affects(a.Name.Value, HoldsCode), offset(a.Pos()), offset(a.End()), a.Pos().Line())
		}
	}
}

// declare reads export, declare and similar commands.
func (r *reader) declare(s *syntax.Stmt, c *syntax.DeclClause, redirects []Redirect) {
	from, to := span(s, offset(c.Pos()), offset(c.End()))
	words := []Word{{Text: c.Variant.Value}}
	numbers, why := false, ""
	for _, a := range c.Args {
		if a.Naked && a.Name == nil {
			for _, w := range r.words(nil, a.Value) {
				words = append(words, w)
				option := strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+")
				switch name, value, valued := strings.Cut(w.Text, "="); {
				case w.Certainty == Exact && option:
					numbers = numbers || strings.ContainsAny(w.Text, "in")
					if strings.HasPrefix(w.Text, "-") && strings.Contains(w.Text, "n") && refers(c.Variant.Value) {
						why = "it gives a variable a second name"
					}
				case w.Certainty == Exact || valued:
					why = cmp.Or(r.sets(strings.TrimSuffix(name, "+"), Word{Text: value, Certainty: w.Certainty}), why)
				default:
					why = r.sets("", unknown)
				}
			}
			continue
		}
		w := Word{Text: a.Name.Value}
		if !a.Naked {
			value := r.word(a.Value)
			w = Word{Text: w.Text + "=" + value.Text, Certainty: value.Certainty}
			if a.Append || a.Array != nil || a.Index != nil {
				w = Word{Text: a.Name.Value, Certainty: One}
			}
		}
		words = append(words, w)
		if name := a.Name.Value; c.Variant.Value == "export" || !local(name) {
			r.exports(name)
		}
		if !a.Naked {
			r.affects(a.Name.Value, r.assign(a).Effect)
		}
	}
	r.emit(Command{Words: words, Via: r.via, Assigns: r.inherited, Redirects: redirects, Opaque: why, Text: r.slice(from, to)}, r.at(from, to, c.Pos().Line()))
	if numbers {
		r.evaluates("it declares a variable that is a number, or that refers to another variable", from, to, c.Pos().Line())
	}
	r.evaluatesWords(words[1:], from, to, c.Pos().Line())
	r.inAssigns(c.Args)
}

// numeric are the operators whose operands bash computes as expressions.
var numeric = []syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}

// test reads [[ ... ]] as a command with that name.
func (r *reader) test(s *syntax.Stmt, c *syntax.TestClause, redirects []Redirect) {
	from, to := span(s, offset(c.Pos()), offset(c.End()))
	words := []Word{{Text: "[["}}
	var walk func(x syntax.TestExpr)
	walk = func(x syntax.TestExpr) {
		switch x := x.(type) {
		case *syntax.BinaryTest:
			walk(x.X)
			words = append(words, Word{Text: x.Op.String()})
			walk(x.Y)
			if slices.Contains(numeric, x.Op) {
				r.evaluates("it compares numbers that are texts", from, to, c.Pos().Line())
			}
		case *syntax.UnaryTest:
			words = append(words, Word{Text: x.Op.String()})
			walk(x.X)
			if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
				r.evaluates("it tests a variable whose name is a text", from, to, c.Pos().Line())
			}
		case *syntax.ParenTest:
			walk(x.X)
		case *syntax.Word:
			words = append(words, r.word(x))
			r.inWord(x)
		}
	}
	i := r.emit(Command{Via: r.via, Assigns: r.inherited, Redirects: redirects, Text: r.slice(from, to)}, r.at(from, to, c.Pos().Line()))
	walk(c.X)
	if i >= 0 {
		r.out.Commands[i].Words = append(words, Word{Text: "]]"})
	}
}

// redirects reads the files that a command opens.
func (r *wordReader) redirects(all []*syntax.Redirect) []Redirect {
	var out []Redirect
	for _, d := range all {
		target := r.word(d.Word)
		if strings.ContainsRune(target.Text, '{') && target.Certainty == Exact && len(d.Word.Parts) == 1 {
			target = Word{Certainty: Any} // the target may contain braces
		}
		text := d.Op == syntax.Hdoc || d.Op == syntax.DashHdoc || d.Op == syntax.WordHdoc
		copies := (d.Op == syntax.DplIn || d.Op == syntax.DplOut) && target.Certainty == Exact && strings.Trim(target.Text, "0123456789-") == ""
		if text || copies {
			continue
		}
		reads := d.Op == syntax.RdrIn || d.Op == syntax.DplIn
		out = append(out, Redirect{Op: d.Op.String(), Target: target, Read: reads || d.Op == syntax.RdrInOut, Write: !reads})
	}
	return out
}

// inRedirects reads the commands that run while files are opened.
func (r *reader) inRedirects(all []*syntax.Redirect) {
	for _, d := range all {
		if d.N != nil {
			if name, ok := strings.CutPrefix(d.N.Value, "{"); ok {
				r.setsAt(strings.TrimSuffix(name, "}"), unknown, offset(d.Pos()), offset(d.Word.End()), d.OpPos.Line())
				if strings.Contains(name, "[") {
					r.evaluates("it keeps a descriptor in an array", offset(d.Pos()), offset(d.Word.End()), d.OpPos.Line())
				}
			}
		}
		r.inWord(d.Word)
		if d.Hdoc != nil {
			r.inQuotes(d.Hdoc.Parts)
		}
	}
}

// loop reads for and select. If the words of a for are known, its body is read once for
// each word: "for f in a b; do cat "$f"; done" runs cat a and cat b.
func (r *reader) loop(c *syntax.ForClause) {
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		if c, ok := c.Loop.(*syntax.CStyleLoop); ok {
			r.arithmetic(c.Init)
			r.arithmetic(c.Cond)
			r.arithmetic(c.Post)
		}
		r.list(c.Do)
		return
	}
	name := iter.Name.Value
	r.setsAt(name, unknown, offset(iter.Pos()), offset(iter.End()), iter.Pos().Line())
	var values []string
	// The shell itself sets some of its variables: $_, and others in capital letters.
	known := !c.Select && iter.InPos.IsValid() && local(name) && name != "_" && !r.freedom().sets(name)
	for _, item := range iter.Items {
		r.inWord(item)
		for _, w := range r.words(nil, item) {
			known = known && w.Certainty == Exact
			values = append(values, w.Text)
		}
	}
	before, rounds := r.loops, max(r.rounds, 1)
	defer func() { r.loops, r.rounds = before, rounds }()
	r.loops = maps.Clone(before)
	delete(r.loops, name)
	if !known || len(values) == 0 || rounds*len(values) > maxRounds {
		r.list(c.Do)
		return
	}
	r.rounds = rounds * len(values)
	for _, v := range values {
		if r.loops == nil { // also if a text that ran in the round before has cleared them
			r.loops = make(map[string]string)
		}
		r.loops[name] = v
		r.list(c.Do)
	}
}
