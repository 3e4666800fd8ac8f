package lex

import "belljar.dev/internal/toolkit/code"

// parseC reads C and C++.
//
// Cyclomatic is what pmccabe 2.8 prints as the traditional McCabe number: 1, plus one for
// each if, loop, case, ternary, && and ||; a do with its while counts once. A catch counts,
// too. Cognitive follows SonarSource's paper "Cognitive Complexity", version 1.7: if, the
// loops, switch, catch and a ternary count by their nesting; else, goto and each run of the
// same logical operator count one. A lambda belongs to the function around it and is one
// level deeper. As in SonarSource's own analyzers, recursion does not count.
//
// No preprocessor runs: a macro is read as the code that it looks like. In a function of C,
// and if the brackets of a branch are not balanced, only the first branch of an #if counts.
func parseC(f *code.File) { readC(f).free() }

// readC does the work of parseC, and returns the reader for tests.
func readC(f *code.File) *braces {
	b := newBraces(f)
	cpp := f.Language == code.CPP
	splitC(b, cpp)
	b.finish()
	c := &clang{cpp: cpp}
	c.braces = b
	c.frames = append(c.frames, flowFrame{kind: flowScope, end: len(c.items), fn: -1})
	for i := 0; i < len(c.items); {
		c.steps++
		i = max(c.read(i), i+1)
	}
	return b
}

// clang reads the declarations of a file.
type clang struct {
	flow
	cpp bool
}

// read reads the item i, and returns the item to read next.
func (c *clang) read(i int) int {
	o := c.op(i)
	switch {
	case closes(o):
		return c.closed(i)
	case c.top().kind == flowScope:
		return c.declaration(i)
	case c.cpp && o == '[' && !c.operand(i-1):
		c.lambda(i)
	case c.cpp && c.start && (o == kwStruct || o == kwClass || o == kwUnion):
		d := cDeclaration{start: i, tag: i}
		if body := c.typeBody(i); body > 0 {
			c.typed(d, body)
			c.top().then = flowBlock
			return body + 1
		}
	}
	return c.next(i)
}

// lambda records the body of the lambda whose captures the bracket i opens.
func (c *clang) lambda(i int) {
	j := c.match(i) + 1
	if c.op(j) == '<' {
		j = c.angles(j)
	}
	if c.op(j) == '(' {
		j = c.match(j) + 1
	}
	for range 64 {
		c.steps++
		switch o := c.op(j); o {
		case '{':
			c.lambdas = append(c.lambdas, j)
			return
		case opName, kwModifier, opArrow, opColons, '*', '&', kwOther, kwThrow, opAnd:
		case '(':
			j = c.match(j)
		case '<':
			if end := c.angles(j); end > j {
				j = end - 1
			}
		default:
			return
		}
		j++
	}
}

// typeBody returns the opening brace of the type within a function whose keyword is item i;
// 0 if it has no body.
func (c *clang) typeBody(i int) int {
	for j := i + 1; j < i+32; j++ {
		c.steps++
		switch o := c.op(j); o {
		case '{':
			return j
		case opName, ':', ',', opColons, kwImplements, kwModifier:
		case '<':
			end := c.angles(j)
			if end == j {
				return 0
			}
			j = end - 1
		default:
			return 0
		}
	}
	return 0
}

// cDeclaration is what is known of a declaration. The fields up to params are items. Such a
// field is 0 if its item has not been read; tag is -1 then.
type cDeclaration struct {
	start  int
	tag    int // keyword struct, class, union or enum
	name   int // last item of its name
	named  int // first item of its name
	params int
	value  bool // an = has been read
	alias  bool // it is a typedef or begins with using
	outer  bool // it is a namespace
	types  int  // number of items of the type before the name
}

// declaration reads a declaration that begins at item i.
func (c *clang) declaration(i int) int {
	d := cDeclaration{start: i, tag: -1}
	for j := i; j < len(c.items); j++ {
		c.steps++
		switch o := c.op(j); o {
		case '(':
			c.bracket(j, &d)
			j = c.match(j)
		case '[':
			j = c.match(j)
		case '<':
			if end := c.angles(j); c.cpp && end > j && c.op(j-1) != kwOperator {
				j = end - 1
			}
		case '=':
			d.value = d.value || c.op(j-1) != kwOperator
		case ',':
		case ';':
			if d.params > 0 && !d.value && !c.cpp {
				if body := c.oldStyle(d.params, j); body > 0 {
					return c.function(d, body)
				}
			}
			c.variable(d, j)
			return j + 1
		case ')', ']':
			return j + 1
		case '}':
			return j
		case ':':
			switch {
			case d.params > 0 && d.params > d.tag:
				if body := c.initialisers(j + 1); c.op(body) == '{' {
					return c.function(d, body)
				} else if body > j {
					j = body - 1
				}
			case c.op(j-1) == kwImplements || c.op(j-2) == kwImplements:
				return j + 1
			}
		case '{':
			return c.body(d, j)
		case kwTemplate:
			if c.op(j-1) == opColons || c.op(j-1) == '.' || c.op(j-1) == opArrow {
				continue // such as a::template b<c>
			}
			j = c.template(j)
			if d.params == 0 || d.types == 0 {
				d = cDeclaration{start: j + 1, tag: -1}
			}
		case kwExtern:
			if c.op(j+1) == opString {
				if c.op(j+2) == '{' {
					c.inside(j+2, c.top().owner)
					return j + 3
				}
				j++
				if d.start == j-1 {
					d.start = j + 1
				}
			}
		case kwPub: // friend
			if d.start == j {
				d.start = j + 1
			}
		case kwNamespace:
			if !d.alias {
				d = cDeclaration{start: j, tag: -1, outer: true} // the items before may be a macro
			}
		case kwUsing, kwTypedef:
			d.alias = true
		case kwStruct, kwUnion, kwClass, kwEnum:
			if c.cpp && d.params > 0 && d.types == 0 && c.op(d.name) == opName && c.lineOf(j) > c.lastLine(c.match(d.params)) {
				d = cDeclaration{start: j, tag: -1} // the items before are a macro
			}
			if d.tag < 0 && d.params == 0 {
				d.tag = j
				if c.op(j+1) == kwClass || c.op(j+1) == kwStruct {
					j++
				}
			}
		case kwOperator:
			if d.params == 0 {
				j = c.operatorName(j, &d)
			}
		}
	}
	return len(c.items)
}

// inside opens the declarations of a namespace whose brace is item i.
func (c *clang) inside(i int, owner string) {
	c.scope(i, owner, kwNamespace)
}

// body decides what the brace at item j belongs to.
func (c *clang) body(d cDeclaration, j int) int {
	end := c.match(j)
	if d.params > 0 && d.tag >= 0 && d.tag < d.params {
		// A macro may stand between the keyword and the name: struct EXPORT(x) name {
		after := c.match(d.params) + 1
		if c.op(after) == opName && (after+1 == j || c.op(after+1) == ':') {
			d.params = 0
		}
	}
	switch {
	case d.value:
		return c.declarationEnd(end + 1)
	case d.outer: // its brackets belong to a macro: namespace std EXPORTED(default) {
		owner := c.top().owner
		for k := d.start; k < j; k++ {
			if c.op(k) == opName && len(owner) < maxName && c.op(k+1) != '(' {
				owner = joined(owner, c.word(k))
			}
		}
		c.inside(j, owner)
		return j + 1
	case d.params > 0:
		return c.function(d, j)
	case d.tag >= 0:
		if c.op(d.tag) == kwEnum {
			c.typed(d, j)
			c.pop()
			return min(end+1, len(c.items))
		}
		c.typed(d, j)
		return j + 1
	}
	return min(end+1, len(c.items))
}

// joined returns a name that is qualified with the name of its owner.
func joined(owner, name string) string {
	if owner == "" {
		return name
	}
	return owner + "::" + name
}

// typed records the type whose brace is item j, and opens it.
func (c *clang) typed(d cDeclaration, j int) {
	name, base := d.tag, false
	t := code.Symbol{Kind: c.word(d.tag), Owner: c.top().owner, Exported: true}
	for k := d.tag + 1; k < j; k++ {
		c.steps++
		switch o := c.op(k); {
		case o == opName && !base && c.word(k) != "final" && c.op(k+1) != '(':
			t.Name, name = c.word(k), k
		case o == opName && base && c.op(k+1) != opColons:
			t.Bases = append(t.Bases, c.word(k))
		case o == ':' && c.op(d.tag) != kwEnum:
			base = true
		case o == ':':
			k = j
		case o == '<':
			if end := c.angles(k); end > k {
				k = end - 1
			}
		case opens(o):
			k = c.match(k)
		}
	}
	end := min(c.match(j), len(c.items)-1)
	if t.Name == "" && d.alias && c.op(end+1) == opName {
		t.Name, name = c.word(end+1), end+1
	}
	t.Line, t.First, t.Last = c.lineOf(name), c.lineOf(d.start), c.lastLine(end)
	if t.Name != "" {
		if name > end {
			t.Last = t.Line
		}
		c.f.Types = append(c.f.Types, t)
	}
	owner := c.top().owner
	if t.Name != "" && len(owner) < maxName {
		owner = joined(owner, t.Name)
	}
	c.scope(j, owner, c.op(d.tag))
}

// function records the function whose brace is item j, and opens its body.
func (c *clang) function(d cDeclaration, j int) int {
	end := c.match(j)
	if end >= len(c.items) {
		return j + 1
	}
	if c.depth >= MaxFuncDepth {
		c.push(flowBlock, end).then = flowLambda
		c.start = true
		return j + 1
	}
	c.behindMacros(&d)
	owner := c.top().owner
	first := d.named
	name := ""
	for k := d.name; k >= d.named; k-- { // finds the part after the last ::
		if c.op(k) == opColons {
			break
		}
		first = k
	}
	for k := d.named; k < first-1 && len(owner) < maxName; k++ {
		if c.op(k) == opName && (k == d.named || c.op(k-1) == opColons) {
			owner = joined(owner, c.word(k))
		}
	}
	name = c.span(first, d.name)
	if c.op(first) == kwOperator && (c.op(first+1) == opName || keyword(c.op(first+1))) {
		name = "operator " + c.span(first+1, d.name)
	}
	f := code.Func{
		Symbol: code.Symbol{
			Name: name, Owner: owner, Kind: "function",
			Line: c.lineOf(d.name), First: c.lineOf(d.start), Last: c.lastLine(end), Exported: true,
		},
		Label:  joined(owner, name),
		Start:  c.tokenOf(d.start),
		End:    c.behind(end),
		Params: c.params(d.params),
	}
	for k := d.start; k < d.named; k++ {
		if c.word(k) == "static" && c.top().tag != kwClass && c.top().tag != kwStruct {
			f.Exported = false
		}
	}
	if first > d.named || c.top().tag != kwNamespace && c.top().tag != opNone {
		f.Kind = "method"
	}
	c.enter(f, j)
	return j + 1
}

// behindMacros moves the start of a function past names in capitals that stand on lines of
// their own: these are macros for attributes.
func (c *clang) behindMacros(d *cDeclaration) {
	i := d.start
	for i < d.named && c.op(i) == opName && capitals(c.word(i)) {
		c.steps++
		i++
	}
	if i > d.start && i < d.named && c.lineOf(i) > c.lineOf(i-1) {
		d.start = i
	}
}

// capitals reports whether a name contains no lower-case letters.
func capitals(name string) bool {
	for i := range len(name) {
		if 'a' <= name[i] && name[i] <= 'z' {
			return false
		}
	}
	return true
}

// params counts the parameters that the bracket i opens.
func (c *clang) params(i int) (n int) {
	end := c.match(i)
	if end == i+1 || end == i+2 && c.word(i+1) == "void" {
		return 0
	}
	n = 1
	for j := i + 1; j < end; j++ {
		c.steps++
		switch o := c.op(j); {
		case o == ',':
			n++
		case o == '<' && c.cpp:
			if at := c.angles(j); at > j {
				j = at - 1
			}
		case opens(o):
			j = c.match(j)
		}
	}
	return n
}

// variable records a variable outside of functions, or a name for a type. Its declaration
// ends at item j.
func (c *clang) variable(d cDeclaration, j int) {
	if d.params > 0 || c.top().tag == kwClass || c.top().tag == kwStruct || c.top().tag == kwUnion {
		return
	}
	name := 0
	for k := d.start; k < j; k++ {
		c.steps++
		o := c.op(k)
		if o == '=' || o == ':' {
			break
		}
		if o == opName && c.op(k+1) != '(' {
			name = k
		}
		if o == '(' || o == '[' || o == '{' {
			k = c.match(k)
		}
	}
	if name <= d.start && (name != d.start || j <= name+1) || c.op(d.start) == kwExtern || d.tag >= 0 && c.op(d.tag) == kwEnum && name == d.tag+1 {
		return
	}
	s := code.Symbol{Name: c.word(name), Owner: c.top().owner, Kind: "variable", Line: c.lineOf(name), First: c.lineOf(d.start), Last: c.lastLine(j), Exported: c.word(d.start) != "static"}
	switch {
	case d.alias && c.word(d.start+1) == "namespace":
	case d.alias:
		if c.op(d.start) == kwUsing && c.op(d.start+2) != '=' {
			return
		}
		s.Kind = "type"
		c.f.Types = append(c.f.Types, s)
	case d.tag >= 0 && name <= d.tag+1:
		// A declaration of a type without its body is not recorded.
	default:
		c.f.Vars = append(c.f.Vars, s)
	}
}
