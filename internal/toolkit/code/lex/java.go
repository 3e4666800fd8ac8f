package lex

import (
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// parseJava reads Java.
//
// Cyclomatic is McCabe's number as checkstyle's CyclomaticComplexity counts it: 1, plus one
// for each if, loop, case, catch, ternary, && and ||. Cognitive follows SonarSource's paper
// "Cognitive Complexity", version 1.7: if, the loops, switch, catch and a ternary count by
// their nesting; else, a jump to a label and each run of the same logical operator count
// one. A lambda belongs to the method around it and is one level deeper; the methods of a
// local or an anonymous class count by themselves. As in SonarSource's own analyzers,
// recursion does not count.
func parseJava(f *code.File) { readJava(f).free() }

// readJava does the work of parseJava, and returns the reader for tests.
func readJava(f *code.File) *braces {
	b := newBraces(f)
	splitJava(b)
	b.finish()
	j := &java{}
	j.braces, j.flow.java = b, true
	j.frames = append(j.frames, flowFrame{kind: flowScope, end: len(j.items), fn: -1})
	for i := 0; i < len(j.items); {
		j.steps++
		i = max(j.read(i), i+1)
	}
	return b
}

// splitJava splits a text into tokens.
func splitJava(b *braces) {
	for b.blanks() {
		c := b.text[b.at]
		switch {
		case b.comment():
		case startsName(c) || c == '$':
			end := b.at
			for end < len(b.text) && (inName(b.text[end]) || b.text[end] == '$') {
				end++
			}
			if o := javaKeyword(b.text[b.at:end]); o != opNone {
				b.short(code.Keyword, o, end)
			} else {
				b.short(code.Name, opName, end)
			}
		case isDigit(c) || c == '.' && isDigit(b.peek(1)):
			b.short(code.Number, opNumber, b.number(b.at))
		case c == '"' && b.has(`"""`):
			b.long(opString, b.textBlock())
		case c == '"' || c == '\'':
			b.long(opString, b.quoted(b.at, false))
		default:
			b.operator(javaOperator(b.text[b.at:]))
		}
	}
}

// textBlock returns the end of a text block.
func (b *braces) textBlock() int {
	for i := b.at + 3; i < len(b.text); i++ {
		switch {
		case b.text[i] == '\\':
			i++
		case b.text[i] == '"' && strings.HasPrefix(b.text[i:], `"""`):
			return i + 3
		}
	}
	return len(b.text)
}

func javaOperator(t string) int {
	if len(t) >= 4 && t[:4] == ">>>=" {
		return 4
	}
	if len(t) >= 3 {
		switch t[:3] {
		case "...", "<<=", ">>=", ">>>":
			return 3
		}
	}
	if len(t) >= 2 {
		switch t[:2] {
		case "->", "::", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<<", ">>", "++", "--":
			return 2
		}
	}
	return 1
}

func javaKeyword(word string) op {
	switch word {
	case "abstract", "final", "native", "private", "protected", "public", "strictfp", "transient", "volatile":
		return kwModifier
	case "static":
		return kwStatic
	case "synchronized":
		return kwAsync
	case "boolean", "byte", "char", "double", "float", "int", "long", "short", "void", "instanceof", "assert":
		return kwOther
	case "this", "super", "true", "false", "null":
		return kwValue
	case "break":
		return kwBreak
	case "case":
		return kwCase
	case "catch":
		return kwCatch
	case "class":
		return kwClass
	case "continue":
		return kwContinue
	case "default":
		return kwDefault
	case "do":
		return kwDo
	case "else":
		return kwElse
	case "enum":
		return kwEnum
	case "extends":
		return kwExtends
	case "finally":
		return kwFinally
	case "for":
		return kwFor
	case "if":
		return kwIf
	case "implements":
		return kwImplements
	case "import":
		return kwImport
	case "interface":
		return kwInterface
	case "new":
		return kwNew
	case "package":
		return kwPackage
	case "return":
		return kwReturn
	case "switch":
		return kwSwitch
	case "throw":
		return kwThrow
	case "throws":
		return kwThrows
	case "try":
		return kwTry
	case "while":
		return kwWhile
	}
	return opNone
}

// java reads the declarations of a file.
type java struct {
	flow
}

// read reads the item i, and returns the item to read next.
func (j *java) read(i int) int {
	o := j.op(i)
	if closes(o) {
		return j.closed(i)
	}
	switch top := j.top(); {
	case top.kind == flowScope:
		return j.member(i)
	case top.kind == flowConst:
		return j.constant(i)
	case o == kwNew && j.op(i-1) != opColons:
		return j.created(i)
	case o == '@' && j.start:
		return j.annotation(i)
	case j.start && (o == kwClass || o == kwInterface || o == kwEnum || o == opName && j.record(i)):
		return j.typed(i, i, flowBlock)
	case j.start && (o == kwModifier || o == kwStatic):
		return i + 1
	case o == kwAsync: // the keyword is synchronized
		if j.op(i+1) == '(' {
			return j.header(i+1, flowTryBlock)
		}
	case o == kwClass: // as in a.class
		j.start = false
		return i + 1
	}
	return j.next(i)
}

// record reports whether the name at item i declares a record.
func (j *java) record(i int) bool {
	return j.word(i) == "record" && j.op(i+1) == opName && (j.op(i+2) == '(' || j.op(i+2) == '<')
}

// annotation returns the item after the annotation that begins at item i.
func (j *java) annotation(i int) int {
	i++
	for j.op(i) == opName && j.op(i+1) == '.' {
		j.steps++
		i += 2
	}
	i++
	if j.op(i) == '(' {
		return j.match(i) + 1
	}
	return i
}

// angles returns the item after the type arguments that < opens at i. It returns i if < is
// a comparison.
func (j *java) angles(i int) int {
	depth := 0
	for k, n := i, 0; n < 96; n++ {
		j.steps++
		switch o := j.op(k); o {
		case '<':
			depth++
		case '>':
			depth--
		case opShr:
			depth -= 2
		case opShr3:
			depth -= 3
		case '[', '(':
			k = j.match(k)
		case opName, '.', ',', '?', '&', '@', kwExtends, kwOther, kwValue:
		default:
			return i
		}
		k++
		if depth <= 0 {
			return k
		}
	}
	return i
}

// created reads new. An anonymous class that follows has members.
func (j *java) created(i int) int {
	j.start = false
	k := i + 1
	name := k
	for range 64 {
		j.steps++
		switch o := j.op(k); o {
		case '@':
			k = j.annotation(k)
		case opName:
			name = k
			k++
		case '.', kwOther:
			k++
		case '<':
			end := j.angles(k)
			if end == k {
				return i + 1
			}
			k = end
		case '(':
			if f := j.fn(); f != nil && j.op(name) == opName {
				f.Calls = append(f.Calls, code.Call{Name: j.word(name), Of: j.of(name), Line: j.lineOf(name), Token: j.tokenOf(name)})
			}
			if body := j.match(k) + 1; j.op(body) == '{' {
				// The arguments come first, then the members.
				owner := j.word(name)
				j.scope(body, owner, kwClass)
				g := j.push(flowGroup, j.match(k))
				around := j.frames[len(j.frames)-3]
				g.fn, g.nest, g.owner, g.then = around.fn, around.nest, around.owner, flowScope
				j.start = false
				return k + 1
			}
			return k
		default:
			return max(k, i+1)
		}
	}
	return k
}

// member reads a declaration of a type or a file that begins at item i.
func (j *java) member(i int) int {
	if j.op(i) == '{' && j.match(i) == j.top().end {
		return i + 1 // the brace after the arguments of an anonymous class
	}
	first := -1 // first item after the annotations
	for k := i; k < len(j.items); k++ {
		j.steps++
		o := j.op(k)
		if o == '@' && j.op(k+1) != kwInterface {
			k = j.annotation(k) - 1
			continue
		}
		if first < 0 {
			first = k
		}
		switch o {
		case ';':
			return k + 1
		case '{':
			if j.op(k-1) == opName && k > first && j.op(k-1) != kwStatic && j.top().tag == kwExtends {
				return j.method(first, k-1, 0, k) // the compact constructor of a record
			}
			// This is an initialiser, which belongs to no function.
			b := j.push(flowBlock, j.match(k))
			b.fn, b.nest, b.body = -1, 0, false
			b.then = flowLambda
			j.start = true
			return k + 1
		case '}', ')', ']':
			return k
		case kwImport, kwPackage:
			return j.imported(k)
		case kwClass, kwInterface, kwEnum:
			return j.typed(first, k, flowNone)
		case '<':
			if end := j.angles(k); end > k {
				k = end - 1
			}
		case '[':
			k = j.match(k)
		case '=':
			j.field(first, k)
			return k + 1
		case '(':
			if j.op(k-1) != opName {
				k = j.match(k)
				continue
			}
			return j.methodOrNot(first, k)
		case opName:
			if j.record(k) {
				return j.typed(first, k, flowNone)
			}
			if next := j.op(k + 1); (next == ';' || next == ',') && j.top().owner != "" {
				j.variable(first, k)
			}
		}
	}
	return len(j.items)
}

// field opens the value of a field, whose = is item i.
func (j *java) field(first, i int) {
	if j.op(i-1) == opName {
		j.variable(first, i-1)
	}
	f := j.push(flowField, -1)
	f.fn, f.nest = -1, 0
	j.start = false
}

// variable records the constant at item i.
func (j *java) variable(first, i int) {
	static, final, exported := j.top().tag == kwInterface, j.top().tag == kwInterface, j.top().tag == kwInterface
	for k := first; k < i; k++ {
		switch j.word(k) {
		case "static":
			static = true
		case "final":
			final = true
		case "public":
			exported = true
		}
	}
	if !static {
		return // each object has such a variable of its own
	}
	kind := "variable"
	if final {
		kind = "constant"
	}
	j.f.Vars = append(j.f.Vars, code.Symbol{
		Name: j.word(i), Owner: j.top().owner, Kind: kind,
		Line: j.lineOf(i), First: j.lineOf(first), Last: j.lineOf(i), Exported: exported,
	})
}

// methodOrNot reads a declaration with parameters, which the bracket i opens.
func (j *java) methodOrNot(first, i int) int {
	after := j.match(i) + 1
	for range 256 {
		j.steps++
		switch o := j.op(after); o {
		case '{':
			return j.method(first, i-1, i, after)
		case kwThrows, opName, ',', '.', '[', ']':
			after++
			continue
		case '@':
			after = j.annotation(after)
			continue
		case ';':
			return after + 1
		case kwDefault: // default value of an annotation's element
			for j.op(after) != ';' && !closes(j.op(after)) && j.op(after) != opNone {
				j.steps++
				if opens(j.op(after)) {
					after = j.match(after)
				}
				after++
			}
			return after
		}
		break
	}
	return after
}

// method records a method and opens its body. Its name is item name, the bracket params
// opens its parameters, and the brace i opens its body.
func (j *java) method(first, name, params, i int) int {
	end := j.match(i)
	if end >= len(j.items) {
		return i + 1
	}
	if j.depth >= MaxFuncDepth {
		j.push(flowBlock, end).then = flowLambda
		j.start = true
		return i + 1
	}
	owner := j.top().owner
	f := code.Func{
		Symbol: code.Symbol{
			Name: j.word(name), Owner: owner, Kind: "method",
			Line: j.lineOf(name), First: j.lineOf(first), Last: j.lastLine(end), Exported: j.top().tag == kwInterface,
		},
		Label: j.word(name),
		Start: j.tokenOf(first),
		End:   j.behind(end),
	}
	if owner != "" {
		f.Label = owner + "." + f.Name
	}
	for k := first; k < name; k++ {
		f.Exported = f.Exported || j.word(k) == "public"
	}
	if name == first || j.op(name-1) == kwModifier || j.op(name-1) == '>' && j.op(first) == '<' {
		f.Kind = "constructor"
	}
	if params > 0 {
		f.Params = j.params(params)
	}
	j.enter(f, i)
	return i + 1
}

// params counts the parameters that the bracket i opens.
func (j *java) params(i int) (n int) {
	end := j.match(i)
	if end <= i+1 {
		return 0
	}
	n = 1
	for k := i + 1; k < end; k++ {
		j.steps++
		switch o := j.op(k); {
		case o == ',':
			n++
		case o == '<':
			if at := j.angles(k); at > k {
				k = at - 1
			}
		case opens(o):
			k = j.match(k)
		}
	}
	return n
}

// imported reads an import.
func (j *java) imported(i int) int {
	m := code.Import{Line: j.lineOf(i)}
	k := i + 1
	if j.op(k) == kwStatic {
		k++
	}
	from := k
	for j.op(k) == opName || j.op(k) == '.' || j.op(k) == '*' {
		j.steps++
		k++
	}
	if j.op(i) == kwImport && k > from && len(j.f.Imports) < maxImports {
		m.Path = j.span(from, k-1)
		j.f.Imports = append(j.f.Imports, m)
	}
	return k
}

// typed records the type whose keyword is item i, and opens it.
func (j *java) typed(first, i int, then flowKind) int {
	t := code.Symbol{Kind: j.word(i), Owner: j.top().owner, Exported: j.top().tag == kwInterface, First: j.lineOf(first)}
	if j.op(i-1) == '@' {
		t.Kind = "annotation"
	}
	for k := first; k < i; k++ {
		t.Exported = t.Exported || j.word(k) == "public"
	}
	tag := j.op(i)
	if tag == opName { // it is a record
		tag = kwExtends
	}
	if j.op(i+1) != opName {
		j.start = false
		return i + 1
	}
	t.Name, t.Line = j.word(i+1), j.lineOf(i+1)
	base := false
	k := i + 2
	for ; k < len(j.items) && j.op(k) != '{'; k++ {
		j.steps++
		switch o := j.op(k); {
		case o == kwExtends || o == kwImplements || o == ',' && base:
			base = true
			continue
		case o == opName && j.word(k) == "permits" && k > i+2:
			for j.op(k) != '{' && j.op(k) != opNone && j.op(k) != ';' && !closes(j.op(k)) {
				j.steps++
				k++
			}
			k--
		case o == '@':
			k = j.annotation(k) - 1
		case o == '<':
			if end := j.angles(k); end > k {
				k = end - 1
			}
		case o == opName && base:
			if j.op(k+1) != '.' {
				t.Bases = append(t.Bases, j.word(k))
				base = false
			}
		case o == '(':
			k = j.match(k)
		case o == ';' || closes(o):
			return k
		}
	}
	if k >= len(j.items) || j.match(k) >= len(j.items) {
		return k
	}
	t.Last = j.lastLine(j.match(k))
	j.f.Types = append(j.f.Types, t)
	owner := t.Owner
	if owner != "" && len(owner) < maxName {
		owner += "."
	}
	j.scope(k, owner+t.Name, tag)
	j.top().then = then
	if tag == kwEnum {
		c := j.push(flowConst, j.match(k))
		c.then = flowConst
	}
	return k + 1
}

// constant reads an item between the constants of an enumeration.
func (j *java) constant(i int) int {
	j.start = false
	switch o := j.op(i); o {
	case '@':
		return j.annotation(i)
	case ';':
		j.pop() // the members follow
		j.start = true
	case '(':
		g := j.push(flowGroup, j.match(i))
		g.then = flowScope
	case '{':
		owner := j.top().owner
		j.scope(i, owner, kwClass)
	}
	return i + 1
}
