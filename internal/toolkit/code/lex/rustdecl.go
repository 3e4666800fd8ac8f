package lex

import (
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// rustDecl reads items: functions, types, modules and imports.
type rustDecl struct{ *rust }

func (r *rust) decl() rustDecl { return rustDecl{r} }

// item reads a keyword that can begin a declaration.
func (r rustDecl) item(i int, o op) int {
	switch o {
	case kwFn:
		if r.op(i+1) == opName {
			return r.function(i)
		}
	case kwUse:
		if r.start(i - 1) {
			return r.use(i)
		}
	case kwMod:
		return r.module(i)
	case kwImpl:
		if r.start(i - 1) {
			return r.implementation(i)
		}
	case kwTrait:
		if r.op(i+1) == opName {
			return r.trait(i)
		}
	case kwStruct, kwEnum:
		if r.op(i+1) == opName {
			return r.typed(i, r.word(i))
		}
	case kwType:
		if r.op(i+1) == opName && r.top().kind == rustItems {
			return r.typed(i, "type")
		}
	case kwConst, kwStatic:
		r.variable(i)
	case kwExtern:
		r.external(i)
	}
	return i + 1
}

// header returns the item that ends the header of a declaration: the brace of its body, its
// semicolon, or an item that cannot belong to a header.
func (r rustDecl) header(i int) int {
	angle := 0
	for ; i < len(r.items); i++ {
		r.steps++
		switch o := r.op(i); o {
		case '<':
			angle++
		case '>':
			angle--
		case opShr:
			angle -= 2
		case '(', '[':
			i = r.match(i)
		case '{':
			if before := r.op(i - 1); angle <= 0 || before != '<' && before != ',' && before != '=' {
				return i
			}
			i = r.match(i)
		case ';', '}', ')', ']', kwStruct, kwTrait, kwUse, kwMod, kwLet:
			return i
		case kwFn:
			if r.op(i+1) == opName {
				return i
			}
		}
	}
	return len(r.items)
}

// symbol describes a declaration whose keyword is item i, whose name is item name and
// which ends with item last.
func (r rustDecl) symbol(i, name, last int, kind string) code.Symbol {
	first := r.first(i)
	return code.Symbol{
		Name:     strings.TrimPrefix(r.word(name), "r#"),
		Owner:    r.top().owner,
		Kind:     kind,
		Line:     r.lineOf(name),
		First:    r.lineOf(first),
		Last:     r.lastLine(last),
		Exported: r.op(first) == kwPub,
	}
}

// function reads a function with a body, and enters it.
func (r rustDecl) function(i int) int {
	body := r.header(i + 2)
	test := r.test
	r.test = false
	if r.op(body) == ';' {
		return body + 1
	}
	if r.op(body) != '{' || r.match(body) >= len(r.items) {
		return body
	}
	end := r.match(body)
	if r.depth >= MaxFuncDepth {
		r.push(rustBlock, end)
		return body + 1
	}
	fn := code.Func{
		Symbol:     r.symbol(i, i+1, end, "fn"),
		Start:      r.tokenOf(r.first(i)),
		End:        r.behind(end),
		Params:     r.params(i + 2),
		Cyclomatic: 1,
		Test:       test || r.top().test,
	}
	if top := r.top(); top.kind == rustImpl {
		fn.Kind, fn.Exported = "method", fn.Exported || top.shared
	}
	fn.Label = fn.Name
	if fn.Owner != "" {
		fn.Label = fn.Owner + "::" + fn.Name
	}
	r.f.Funcs = append(r.f.Funcs, fn)
	s := r.push(rustBody, end)
	s.fn, s.nest, s.owner, s.test = len(r.f.Funcs)-1, 0, "", fn.Test
	r.depth++
	return body + 1
}

// params counts the parameters after a function's name, without self.
func (r rustDecl) params(i int) (n int) {
	if r.op(i) == '<' {
		i = r.angles(i, 1<<20)
	}
	if r.op(i) != '(' {
		return 0
	}
	angle, some := 0, false
	end := r.match(i)
	for j := i + 1; j < end; j++ {
		r.steps++
		switch o := r.op(j); {
		case o == '<':
			angle++
		case o == '>':
			angle--
		case o == opShr:
			angle -= 2
		case o == ',' && angle <= 0:
			some = false
			continue
		case opens(o):
			j = r.match(j)
		case o == kwSelf && n == 1 && j < i+6 && r.word(j) == "self" && r.op(j-1) != ':' && r.op(j+1) != opColons:
			n = 0
		}
		if !some {
			some = true
			if r.op(j) != kwSelf || r.word(j) != "self" {
				n++
			}
		}
	}
	return n
}

// typed reads a structure, an enumeration, a union or an alias.
func (r rustDecl) typed(i int, kind string) int {
	end := r.header(i + 2)
	next := end
	if o := r.op(end); o == '{' {
		end = r.match(end)
		next = end + 1
	}
	if end < len(r.items) {
		r.f.Types = append(r.f.Types, r.symbol(i, i+1, end, kind))
	}
	r.test = false
	return next
}

// trait reads a trait, and enters it.
func (r rustDecl) trait(i int) int {
	body := r.header(i + 2)
	if r.op(body) != '{' || r.match(body) >= len(r.items) {
		return body
	}
	s := r.symbol(i, i+1, r.match(body), "trait")
	from := i + 2
	if r.op(from) == '<' {
		from = r.angles(from, body-from)
	}
	if r.op(from) == ':' {
		s.Bases = r.bounds(from+1, body)
	}
	r.f.Types = append(r.f.Types, s)
	r.enter(rustImpl, body, s.Name)
	r.top().shared = s.Exported
	return body + 1
}

// bounds returns the names of the traits between two items.
func (r rustDecl) bounds(i, end int) (all []string) {
	for i < end && r.op(i) != kwWhere {
		name, after := r.path(i, end)
		if name != "" {
			all = append(all, name)
		}
		for i = max(after, i+1); i < end && r.op(i-1) != '+' && r.op(i) != kwWhere; i++ {
			r.steps++
			if opens(r.op(i)) {
				i = r.match(i)
			}
		}
	}
	return all
}

// path returns the last name of a path that begins at item i, and the item after the path
// and its type arguments.
func (r rustDecl) path(i, end int) (name string, after int) {
	for ; i < end; i++ {
		r.steps++
		switch o := r.op(i); o {
		case opName, kwSelf:
			name = r.word(i)
		case '<':
			if name == "" { // the path begins with a type: <T as U>::V
				continue
			}
			i = r.angles(i, end-i) - 1
		case opColons, '&', '*', '?', '!', opLabel, kwOther, kwMove, kwConst:
		default:
			if opens(o) && name == "" { // it is a tuple or a slice
				return r.word(i), r.match(i) + 1
			}
			return name, i
		}
		if next := r.op(i + 1); name != "" && r.op(i) != opColons && next != opColons && next != '<' {
			return name, i + 1
		}
	}
	return name, i
}

// implementation reads an impl, and enters it.
func (r rustDecl) implementation(i int) int {
	body := r.header(i + 1)
	if r.op(body) != '{' || r.match(body) >= len(r.items) {
		return body
	}
	from := i + 1
	if r.op(from) == '<' {
		from = r.angles(from, body-from)
	}
	owner, after := r.path(from, body)
	if r.op(after) == '(' && owner != "" && r.match(after) < body { // such as Fn(A)
		after = r.match(after) + 1
	}
	for ; after < body && r.op(after) != kwFor && r.op(after) != kwWhere; after++ {
		r.steps++
	}
	if r.op(after) == kwFor {
		base := owner
		owner, _ = r.path(after+1, body)
		s := r.symbol(i, i, r.match(body), "impl")
		s.Name, s.Bases = owner, []string{base}
		r.f.Types = append(r.f.Types, s)
	}
	r.enter(rustImpl, body, owner)
	r.top().shared = r.op(after) == kwFor // code that knows the trait can call the methods
	return body + 1
}

// module reads a module. A module with its body in this file is entered; any other module
// is an import.
func (r rustDecl) module(i int) int {
	if r.op(i+1) != opName {
		return i + 1
	}
	name := r.word(i + 1)
	switch r.op(i + 2) {
	case ';':
		r.f.Imports = append(r.f.Imports, code.Import{Path: "self::" + name, Line: r.lineOf(i)})
		r.test = false
		return i + 3
	case '{':
		if owner := r.top().owner; owner != "" && len(owner) < maxName {
			name = owner + "::" + name
		}
		r.enter(rustItems, i+2, name)
		return i + 3
	}
	return i + 2
}

// external reads extern: an extern crate is an import, an extern block is like a module.
func (r rustDecl) external(i int) {
	if r.word(i+1) == "crate" && r.op(i+2) == opName {
		name := ""
		if r.word(i+3) == "as" {
			name = r.word(i + 4)
		}
		r.f.Imports = append(r.f.Imports, code.Import{Path: r.word(i + 2), Name: name, Line: r.lineOf(i)})
	}
}

// variable records a constant or a static variable outside of functions.
func (r rustDecl) variable(i int) {
	name := i + 1
	if r.op(name) == kwMove {
		name++
	}
	top := r.top()
	if r.op(name) != opName || r.op(name+1) != ':' || top.fn >= 0 || top.kind != rustItems && top.kind != rustImpl || r.op(r.first(i)-1) == '*' {
		return
	}
	if r.word(name) == "_" {
		return
	}
	end := name
	for n := 0; n < 4096 && end < len(r.items) && r.op(end) != ';' && !closes(r.op(end)); n++ {
		r.steps++
		if opens(r.op(end)) {
			end = r.match(end)
		}
		end++
	}
	r.f.Vars = append(r.f.Vars, r.symbol(i, name, end, r.word(i)))
	r.test = false
}

// use reads the tree of a use. Each leaf of the tree is an import of a whole path.
func (r rustDecl) use(i int) int {
	line := r.lineOf(i)
	var prefixes []string
	prefix, path, name := "", "", ""
	leaf := func() {
		if path != "" && len(r.f.Imports) < maxImports {
			whole := strings.TrimSuffix(prefix+path, "::")
			whole = strings.TrimSuffix(whole, "::self")
			r.f.Imports = append(r.f.Imports, code.Import{Path: whole, Name: name, Line: line})
		}
		path, name = "", ""
	}
	for i++; i < len(r.items); i++ {
		r.steps++
		switch o := r.op(i); o {
		case opName, kwSelf, '*':
			if r.word(i-1) == "as" {
				name = r.word(i)
			} else if len(prefix)+len(path) < maxName {
				path += r.word(i)
			}
		case opColons:
			if path != "" {
				path += "::"
			}
		case '{':
			if len(prefixes) >= 32 {
				return r.match(i)
			}
			prefixes = append(prefixes, prefix)
			prefix += path
			path = ""
		case ',':
			leaf()
		case '}':
			leaf()
			if len(prefixes) == 0 {
				return i
			}
			prefix = prefixes[len(prefixes)-1]
			prefixes = prefixes[:len(prefixes)-1]
		case ';':
			leaf()
			return i + 1
		case kwOther: // the keyword is as
		default:
			return i
		}
	}
	return i
}

// join adds the traits that a type of this file implements to the bases of the type, and
// removes the entries of their impls.
func (r rustDecl) join() {
	at := make(map[string]int)
	for i, t := range r.f.Types {
		if _, ok := at[t.Name]; !ok && (t.Kind == "struct" || t.Kind == "enum" || t.Kind == "union") {
			at[t.Name] = i
		}
	}
	for i, t := range r.f.Types {
		if n, ok := at[t.Name]; ok && t.Kind == "impl" {
			r.f.Types[n].Bases = append(r.f.Types[n].Bases, t.Bases...)
			r.f.Types[i].Kind = ""
		}
	}
	r.f.Types = slices.DeleteFunc(r.f.Types, func(t code.Symbol) bool { return t.Kind == "" })
}
