package lex

import "belljar.dev/internal/toolkit/code"

// scriptDecl reads declarations.
type scriptDecl struct{ *script }

func (s *script) decl() scriptDecl { return scriptDecl{s} }

// function reads the keyword function at item i.
func (s scriptDecl) function(i int) int {
	first, then := i, frameNone
	if s.op(i-1) == opName && s.word(i-1) == "async" {
		first = i - 1
	}
	if s.start {
		then = frameBlock
	}
	name, params := -1, i+1
	if s.op(params) == '*' {
		params++
	}
	if o := s.op(params); o == opName || keyword(o) {
		name = params
		params++
	} else if before := s.op(first - 1); before == '=' || before == ':' {
		name = s.top().target
	}
	if s.op(params) == '<' {
		params = s.argumentsEnd(params, len(s.items))
	}
	if s.op(params) != '(' {
		s.operand, s.start = true, false
		return params
	}
	body := s.bodyOf(params)
	if body == 0 {
		return s.signature(params)
	}
	if s.depth >= MaxFuncDepth {
		return s.tooDeep(body, then)
	}
	s.begin(first, name, params, body, "function").then = then
	return params + 1
}

// signature skips the parameters and the type of a function without a body.
func (s scriptDecl) signature(params int) int {
	after := s.match(params) + 1
	if s.op(after) == ':' {
		after = s.typeEnd(after+1, len(s.items))
	}
	s.operand, s.start, s.export, s.first = true, false, false, -1
	return after
}

// tooDeep makes the body of a function a block of the function around it.
func (s scriptDecl) tooDeep(body int, then frameKind) int {
	b := s.push(frameBlock, s.match(body))
	b.then, b.fresh = then, true
	if then == frameNone {
		b.then = frameGroup
	}
	s.start, s.operand = true, false
	return body + 1
}

// arrowFunction opens the arrow function whose first item is i and whose body is item body.
// Its parameters are the brackets that open at item params, or the single name there.
func (s scriptDecl) arrowFunction(i, params, body int) int {
	if s.depth >= MaxFuncDepth {
		if s.op(body) == '{' {
			return s.tooDeep(body, frameNone)
		}
		s.operand, s.start = false, false
		return body
	}
	name := -1
	if before := s.op(i - 1); before == '=' || before == ':' && s.top().kind == frameObject {
		name = s.top().target
	}
	if s.op(params) == '(' {
		s.begin(i, name, params, body, "arrow function")
		return params + 1
	}
	s.begin(i, name, -1, body, "arrow function")
	s.f.Funcs[len(s.f.Funcs)-1].Params = 1
	return s.inside(s.pop(params))
}

// class reads the keyword class at item i.
func (s scriptDecl) class(i int) int {
	first, then := i, frameNone
	if s.start {
		then = frameBlock
		if s.first >= 0 {
			first = s.first
		}
	}
	t := code.Symbol{Kind: "class", Owner: s.top().owner, Exported: s.export, Line: s.lineOf(i), First: s.lineOf(first)}
	j := i + 1
	if s.op(j) == opName && s.word(j) != "implements" {
		t.Name, t.Line = s.word(j), s.lineOf(j)
		j++
	} else if s.op(i-1) == '=' && s.top().target >= 0 {
		t.Name = s.nameOf(s.top().target)
	}
	body, call := s.heritage(j, &t)
	if s.op(body) != '{' {
		s.operand, s.start = true, false
		return body
	}
	t.Last = s.lastLine(s.match(body))
	if t.Name != "" {
		s.f.Types = append(s.f.Types, t)
	}
	c := s.push(frameClass, s.match(body))
	c.owner, c.then, c.fresh, c.export, c.fn = t.Name, then, true, t.Exported, -1
	s.export, s.start, s.operand, s.first = false, false, false, -1
	if call > 0 {
		around := s.frames[len(s.frames)-2]
		g := s.push(frameGroup, body)
		g.fn, g.owner, g.then = around.fn, around.owner, frameClass
		s.operand = true
		return call
	}
	return body + 1
}

// heritage reads the items between the name of a class or an interface and its body, and
// records its bases. It returns the item of the body's brace, and the item of the first (
// before the brace. The latter is 0 without a (.
func (s scriptDecl) heritage(i int, t *code.Symbol) (body, call int) {
	base := false
	for ; i < len(s.items); i++ {
		s.steps++
		o := s.op(i)
		switch {
		case o == '{' && s.op(i-1) != kwExtends:
			return i, call
		case o == kwExtends || o == ',' || o == opName && s.word(i) == "implements":
			base = true
			continue
		case o == '<':
			end := s.argumentsEnd(i, len(s.items)-i)
			if end == i {
				return i, call
			}
			i = end - 1
		case o == opName && base:
			name := s.word(i)
			for s.op(i+1) == '.' && s.op(i+2) == opName && len(name) < maxName {
				s.steps++
				name += "." + s.word(i+2)
				i += 2
			}
			t.Bases = append(t.Bases, name)
			base = false
		case opens(o):
			if o == '(' && call == 0 {
				call = i
			}
			i = s.match(i)
		case o == ';' || closes(o):
			return i, call
		}
	}
	return i, call
}

// member reads an item between the members of a class.
func (s scriptDecl) member(i int) int {
	s.operand, s.start = false, false
	m := i
	for s.modifier(m) {
		s.steps++
		m++
	}
	if s.op(m) == '*' {
		m++
	}
	if s.op(m) == '{' && m > i { // a static block
		b := s.push(frameBlock, s.match(m))
		b.fn, b.nest, b.then, b.fresh = -1, 0, frameClass, true
		s.start = true
		return m + 1
	}
	key, after := s.key(m)
	if after == m {
		if opens(s.op(m)) {
			return s.match(m) + 1
		}
		return max(m, i+1)
	}
	if o := s.op(after); o == '?' || o == '!' {
		after++
	}
	if s.op(after) == '<' {
		after = s.argumentsEnd(after, len(s.items))
	}
	switch s.op(after) {
	case '(':
		body := s.bodyOf(after)
		if body == 0 {
			return s.signature(after)
		}
		if s.depth >= MaxFuncDepth {
			return s.tooDeep(body, frameClass)
		}
		s.export = s.top().export
		s.begin(i, key, after, body, "method").then = frameClass
		return after + 1
	case ':':
		after = s.typeEnd(after+1, len(s.items))
	}
	if s.op(after) == '=' {
		f := s.push(frameField, -1)
		f.fn, f.nest, f.target = -1, 0, key
		return after + 1
	}
	return after
}

// modifier reports whether item i is a modifier of a member, and not its name.
func (s scriptDecl) modifier(i int) bool {
	switch s.op(i + 1) {
	case '(', '=', ';', ':', ',', '}', '?', '!', '<', opNone:
		return false
	}
	switch s.word(i) {
	case "public", "private", "protected", "static", "readonly", "abstract", "override", "declare", "async", "accessor", "get", "set":
		return s.op(i) != opString
	}
	return false
}

// key returns the item that names the member or property that begins at i, and the item
// after it; i twice if no name begins at i.
func (s scriptDecl) key(i int) (name, after int) {
	switch o := s.op(i); {
	case o == '[':
		return s.match(i), min(s.match(i)+1, len(s.items))
	case o == opName || o == opString || o == opNumber || keyword(o):
		return i, i + 1
	}
	return i, i
}

// property reads the beginning of a property of an object. It returns i if an expression
// begins there.
func (s scriptDecl) property(i int) int {
	top := s.top()
	top.fresh = false
	m := i
	for range 2 {
		switch w := s.word(m); {
		case s.op(m) == opName && (w == "async" || w == "get" || w == "set"):
			switch s.op(m + 1) {
			case '(', ':', ',', '}', '=', '<', opNone:
			default:
				m++
			}
		case s.op(m) == '*':
			m++
		}
	}
	key, after := s.key(m)
	if after == m {
		return i
	}
	top.target = key
	open := after
	if s.op(after) == '<' {
		open = s.argumentsEnd(after, ahead)
	}
	if s.op(open) == '(' {
		if body := s.bodyOf(open); body > 0 {
			if s.depth >= MaxFuncDepth {
				return s.tooDeep(body, frameNone)
			}
			s.begin(i, key, open, body, "method").then = frameObject
			return open + 1
		}
	}
	switch s.op(after) {
	case ':':
		s.operand = false
		return after + 1
	case '=':
		s.count(1, 0)
		s.operand = false
		return after + 1
	case ',', '}':
		s.operand = true
		return after
	}
	return i
}

// declaration reads a declaration that begins with a word of TypeScript at item i. It
// returns i if the word is a plain name.
func (s scriptDecl) declaration(i int) int {
	next := s.op(i + 1)
	sameLine := s.lineOf(i) == s.lineOf(i+1)
	switch s.word(i) {
	case "type":
		if next == opName && sameLine && (s.op(i+2) == '=' || s.op(i+2) == '<') {
			return s.alias(i)
		}
	case "interface":
		if next == opName && sameLine {
			t := code.Symbol{Name: s.word(i + 1), Kind: "interface", Owner: s.top().owner, Exported: s.export, Line: s.lineOf(i + 1), First: s.lineOf(i)}
			body, _ := s.heritage(i+2, &t)
			if s.op(body) == '{' {
				t.Last = s.lastLine(s.match(body))
				s.f.Types = append(s.f.Types, t)
				body = min(s.match(body), len(s.items)-1)
			} else {
				body--
			}
			s.statement(body)
			return body + 1
		}
	case "namespace", "module", "global":
		j := i + 1
		name := ""
		for s.op(j) == opName || s.op(j) == '.' || s.op(j) == opString {
			s.steps++
			if len(name) < maxName {
				name += s.nameOf(j)
			}
			j++
		}
		if s.op(j) == '{' && (sameLine || s.word(i) == "global") && (j > i+1 || s.word(i) == "global") {
			b := s.push(frameBlock, s.match(j))
			if s.word(i) != "global" {
				b.owner = name
			}
			b.fresh, s.start, s.operand, s.export = true, true, false, false
			return j + 1
		}
	case "declare", "abstract":
		if (next == opName || keyword(next)) && sameLine {
			if s.first < 0 {
				s.first = i
			}
			return i + 1
		}
	}
	return i
}

// alias reads type A = B.
func (s scriptDecl) alias(i int) int {
	t := code.Symbol{Name: s.word(i + 1), Kind: "type", Owner: s.top().owner, Exported: s.export, Line: s.lineOf(i + 1), First: s.lineOf(i)}
	j := i + 2
	if s.op(j) == '<' {
		j = s.argumentsEnd(j, len(s.items))
	}
	if s.op(j) != '=' {
		s.start, s.operand = false, true
		return max(j, i+2)
	}
	j = s.typeEnd(j+1, len(s.items))
	t.Last = s.lastLine(j - 1)
	s.f.Types = append(s.f.Types, t)
	s.start, s.operand = false, true
	return j
}

// enum reads the keyword enum at item i.
func (s scriptDecl) enum(i int) int {
	s.start, s.operand = false, false
	if s.op(i+1) != opName || s.op(i+2) != '{' {
		return i + 1
	}
	end := min(s.match(i+2), len(s.items)-1)
	s.f.Types = append(s.f.Types, code.Symbol{
		Name: s.word(i + 1), Kind: "enum", Owner: s.top().owner, Exported: s.export,
		Line: s.lineOf(i + 1), First: s.lineOf(i), Last: s.lastLine(end),
	})
	s.statement(end)
	return end + 1
}

// imports reads an import at item i: the names, and the path after from.
func (s scriptDecl) imports(i int) int {
	j := i + 1
	m := code.Import{Line: s.lineOf(i)}
	if s.op(j) == opName && s.word(j) == "type" && (s.op(j+1) == opName && s.word(j+1) != "from" || s.op(j+1) == '{' || s.op(j+1) == '*') {
		j++
	}
	for ; j < len(s.items); j++ {
		s.steps++
		switch o := s.op(j); {
		case o == opString:
			m.Path = s.nameOf(j)
			s.f.Imports = append(s.f.Imports, m)
			s.start, s.operand, s.export = false, true, false
			if s.op(j+1) == kwOther || s.op(j+1) == opName && s.word(j+1) == "assert" { // such as with { type: "json" }
				if s.op(j+2) == '{' {
					j = s.match(j + 2)
				}
			}
			return min(j+1, len(s.items))
		case o == '{':
			end := s.match(j)
			m.Used = s.listed(j+1, end)
			j = end
		case o == '(' && s.op(j-1) == opName: // such as import a = require("b")
		case o == ')' || o == ',' || o == '*' || o == '=' || o == '.':
		case o == opName && (s.word(j) == "as" || s.word(j) == "from"):
		case o == opName && s.word(j) == "require":
		case o == opName && m.Name == "":
			m.Name = s.word(j)
		case o == opName:
		default:
			s.start, s.operand = true, false
			return j
		}
	}
	return j
}

// listed returns the names in a list of imports or exports between two items. For an
// entry of the form a as b, it returns a.
func (s scriptDecl) listed(i, end int) (all []string) {
	fresh := true
	for ; i < end; i++ {
		s.steps++
		o := s.op(i)
		if o == ',' {
			fresh = true
			continue
		}
		next := s.op(i + 1)
		if s.word(i) == "type" && next != ',' && next != '}' && s.word(i+1) != "as" {
			continue
		}
		if fresh && (o == opName || o == opString || keyword(o)) {
			all = append(all, s.nameOf(i))
			fresh = false
		}
	}
	return all
}

// exported reads an export at item i.
func (s scriptDecl) exported(i int) int {
	j := i + 1
	if s.op(j) == opName && s.word(j) == "type" && (s.op(j+1) == '{' || s.op(j+1) == '*') {
		j++
	}
	switch s.op(j) {
	case '{':
		end := s.match(j)
		if s.op(end+1) == opName && s.word(end+1) == "from" && s.op(end+2) == opString {
			s.f.Imports = append(s.f.Imports, code.Import{Path: s.nameOf(end + 2), Line: s.lineOf(i), Used: s.listed(j+1, end)})
			s.start, s.operand = false, true
			return end + 3
		}
		s.names = append(s.names, s.listed(j+1, end)...)
		s.start, s.operand = false, true
		return min(end+1, len(s.items))
	case '*':
		return s.imports(j)
	case kwDefault:
		if s.op(j+1) == opName && (s.op(j+2) == ';' || s.op(j+2) == opNone) {
			s.names = append(s.names, s.word(j+1))
		}
		s.export = true
		switch s.op(j + 1) {
		case kwFunction, kwClass:
		default:
			if w := s.word(j + 1); w != "async" && w != "abstract" && w != "interface" {
				s.start, s.operand = false, false
			}
		}
		return j + 1
	case '=':
		s.start, s.operand = false, false
		return j + 1
	}
	s.export = true
	return j
}

// shared marks the declarations in export lists as exported.
func (s scriptDecl) shared() {
	if len(s.names) == 0 {
		return
	}
	names := make(map[string]bool, len(s.names))
	for _, name := range s.names {
		names[name] = true
	}
	for i := range s.f.Funcs {
		if f := &s.f.Funcs[i]; f.Owner == "" && f.Kind != "method" {
			f.Exported = f.Exported || names[f.Name]
		}
	}
	for _, list := range [][]code.Symbol{s.f.Types, s.f.Vars} {
		for i := range list {
			list[i].Exported = list[i].Exported || names[list[i].Name]
		}
	}
}

// variables begins a declaration of variables of a kind: const, let or var.
func (s scriptDecl) variables(kind string) {
	top := s.top()
	s.kind = kind
	top.decl, top.list = true, true
	s.start, s.operand = false, false
}

// variable records a variable that is declared at item i.
func (s scriptDecl) variable(i int) {
	top := s.top()
	top.target = i
	if top.fn >= 0 || top.kind != frameBlock || len(s.frames) > 1 && top.owner == "" {
		return
	}
	s.f.Vars = append(s.f.Vars, code.Symbol{
		Name: s.word(i), Kind: s.kind, Owner: top.owner, Exported: s.export, Line: s.lineOf(i), First: s.lineOf(i),
	})
}
