package lex

import "belljar.dev/internal/toolkit/code"

// parseRust reads Rust.
//
// Cyclomatic starts at 1 and counts if, while, for, loop, the else of a let, each arm of a
// match except a bare _, the guard of an arm, &&, || and ?. rust-code-analysis counts in
// the same way (src/metrics/cyclomatic.rs), except that it also counts the arm _. That arm
// decides nothing, just as default decides nothing in a switch. Cognitive follows
// SonarSource's paper "Cognitive Complexity", version 1.7: if, match and the loops count by
// their nesting; else, a jump to a label and each run of the same logical operator count
// one; a closure is one level deeper. As in SonarSource's own analyzers, recursion does not
// count, and neither does ?.
//
// A closure belongs to the function around it. The arguments of a macro count as code; the
// rules of a macro do not.
func parseRust(f *code.File) { readRust(f).free() }

// readRust does the work of parseRust, and returns the reader for tests.
func readRust(f *code.File) *braces {
	b := newBraces(f)
	splitRust(b)
	b.finish()
	functions := 0
	for i := range b.items {
		if b.items[i].op == kwFn {
			functions++
		}
	}
	if functions > 0 {
		f.Funcs = make([]code.Func, 0, min(functions, 1000))
	}
	r := &rust{braces: b}
	r.read()
	r.decl().join()
	return b
}

// rust reads the items of a file in one pass.
type rust struct {
	*braces
	scopes  []rustScope
	pending []rustPending
	test    bool // an attribute marks the next declaration as a test
	depth   int  // number of functions around the present item
}

// rustScope is a pair of brackets, or the body of a closure without braces.
type rustScope struct {
	kind    rustKind
	end     int    // item that closes it
	fn      int    // index of the function around it; -1 outside of functions
	owner   string // type or module around it
	nest    int    // nesting level, for Cognitive
	last    op     // logical operator of the present run of operators
	back    bool   // for a group: the run of logical operators continues after it
	pattern bool   // the reader is in the pattern of a match arm; groups and blocks in the pattern inherit it
	arm     bool   // it is the body of an arm
	test    bool
	shared  bool // it is an implementation of a trait, or a trait that others can name
}

type rustKind uint8

const (
	rustGroup rustKind = iota // ( or [
	rustItems                 // a file, a module, or extern
	rustImpl                  // an implementation or a trait
	rustBody                  // the body of a function
	rustBlock
	rustMatch
	rustClosure // the body of a closure without braces
)

// rustPending is a keyword whose braces have not been read.
type rustPending struct {
	scopes int // number of open scopes at the keyword
	kind   rustKind
	nest   int // levels that its block adds to the nesting
}

func (r *rust) read() {
	r.scopes = append(r.scopes, rustScope{kind: rustItems, end: len(r.items), fn: -1})
	for i := 0; i < len(r.items); {
		r.steps++
		r.leave(i)
		i = r.next(i)
	}
}

// leave closes the scopes that end with item i.
func (r *rust) leave(i int) {
	o := r.op(i)
	if closes(o) {
		// Brackets without a partner end with the brackets around them.
		for n, low := len(r.scopes)-1, max(0, len(r.scopes)-recovery); n > low; n-- {
			r.steps++
			if r.scopes[n].end == i {
				for len(r.scopes) > n+1 && r.top().kind != rustClosure {
					r.pop()
				}
				break
			}
		}
	}
	for len(r.scopes) > 1 {
		kind, end := r.top().kind, r.top().end
		if end > i && (kind != rustClosure || o != ',' && o != ';') {
			return
		}
		r.pop()
		if kind != rustClosure {
			return // the bracket around a closure ends at the same item as the closure
		}
	}
}

// pop closes the innermost scope.
func (r *rust) pop() {
	s := *r.top()
	r.scopes = r.scopes[:len(r.scopes)-1]
	if s.kind == rustBody {
		r.depth--
	}
	if s.back {
		r.top().last = s.last
	}
	if s.arm {
		r.top().pattern = true
	}
	for n := len(r.pending); n > 0 && r.pending[n-1].scopes > len(r.scopes); n-- {
		r.pending = r.pending[:n-1]
	}
}

// next reads the item i, and returns the item to read next.
func (r *rust) next(i int) int {
	top := r.top()
	switch o := r.op(i); o {
	case '#':
		return r.attribute(i)
	case '(', '[':
		last, pattern := top.last, top.pattern
		group := r.push(rustGroup, r.match(i))
		group.pattern = pattern
		if !r.operand(i-1) && r.op(i-1) != '!' {
			group.last, group.back = last, true
		}
	case '{':
		r.brace(i)
	case ';':
		top.last = opNone
		for n := len(r.pending); n > 0 && r.pending[n-1].scopes >= len(r.scopes); n-- {
			r.pending = r.pending[:n-1]
		}
	case ',':
		top.last = opNone
		if top.kind == rustMatch {
			top.pattern = true
		}
	case '=':
		top.last = opNone
	case opFatArrow:
		r.arm(i)
	case opAnd, opOr:
		if r.operand(i-1) && !top.pattern {
			r.count(1, 0)
			if top.last != o {
				r.count(0, 1)
				top.last = o
			}
		} else if o == opOr && !top.pattern {
			return r.closure(i, i+1)
		}
	case '|':
		if !r.operand(i-1) && !top.pattern {
			return r.closure(i, r.parametersEnd(i+1))
		}
	case '?':
		if r.operand(i - 1) {
			r.count(1, 0)
		}
	case opName:
		return r.name(i)
	case kwSelf:
		if r.op(i+1) == '(' {
			r.call(i)
		}
	default:
		if keyword(o) {
			return r.keyword(i, o)
		}
	}
	return i + 1
}

// operand reports whether item i ends an operand, so that an operator after it has two
// operands.
func (r *rust) operand(i int) bool {
	switch r.op(i) {
	case opName, opNumber, opString, ')', ']', '}', '?', kwValue, kwSelf, kwAwait:
		return true
	}
	return false
}

// attribute skips an attribute, and records whether the declaration after it is a test.
func (r *rust) attribute(i int) int {
	open := i + 1
	if r.op(open) == '!' {
		open++
	}
	if r.op(open) != '[' {
		return i + 1
	}
	end := r.match(open)
	marked := false
	for j := open + 1; j < end && j < open+32; j++ {
		switch r.word(j) {
		case "test", "rstest", "bench", "test_case":
			marked = true
		case "not", "cfg_attr":
			end = min(end, j) // the words after not and cfg_attr do not mark a test
		}
	}
	r.test = r.test || marked && open == i+1
	return r.match(open) + 1
}

// brace opens the scope of a brace.
func (r *rust) brace(i int) {
	s := r.push(rustBlock, r.match(i))
	around := &r.scopes[len(r.scopes)-2]
	if n := len(r.pending); n > 0 && r.pending[n-1].scopes == len(r.scopes)-1 {
		p := r.pending[n-1]
		around.last = opNone
		r.pending = r.pending[:n-1]
		s.kind = p.kind
		s.pattern = p.kind == rustMatch
		s.nest += p.nest
		if f := r.fn(); f != nil {
			f.Nesting = max(f.Nesting, s.nest)
		}
		return
	}
	s.pattern = around.pattern
	s.arm = r.op(i-1) == opFatArrow && around.kind == rustMatch
}

// arm reads the => of a match.
func (r *rust) arm(i int) {
	top := r.top()
	top.last = opNone
	if top.kind != rustMatch {
		return
	}
	top.pattern = false
	if r.word(i-1) == "_" {
		switch r.op(i - 2) {
		case '{', '}', ',', ']', opNone:
			return // _ matches every other value, so it decides nothing
		}
	}
	r.count(1, 0)
}

// parametersEnd returns the item of the bar that ends the parameters of a closure, which
// begin at i; -1 if there is no such bar.
func (r *rust) parametersEnd(i int) int {
	for range 4096 {
		r.steps++
		switch o := r.op(i); {
		case o == '|':
			return i
		case o == opNone || closes(o) || o == ';':
			return -1
		case opens(o):
			i = r.match(i)
		}
		i++
	}
	return -1
}

// closure opens the body of a closure whose first bar is item i. last is the bar that ends
// its parameters, or i+1 if item i is ||; a negative last means that this is not a closure.
func (r *rust) closure(i, last int) int {
	if last < 0 {
		return i + 1
	}
	if r.op(i) == '|' {
		last++
	}
	nest := r.top().nest + 1
	if r.op(last) == opArrow {
		for last++; r.op(last) != '{' && r.op(last) != opNone && !closes(r.op(last)) && r.op(last) != ';'; last++ {
			r.steps++
			if opens(r.op(last)) {
				last = r.match(last)
			}
		}
	}
	if r.op(last) == '{' {
		s := r.push(rustBlock, r.match(last))
		s.nest = nest
		return last + 1
	}
	end := r.top().end
	s := r.push(rustClosure, end)
	s.nest = nest
	return last
}

// name reads a name: a call, a macro, or a word that is a keyword only in this place.
func (r *rust) name(i int) int {
	switch r.op(i + 1) {
	case '(':
		r.call(i)
	case '!':
		if o := r.op(i + 2); opens(o) {
			return i + 2 // a call of a macro, not of a function
		} else if o == opName && r.word(i) == "macro_rules" && opens(r.op(i+3)) {
			return r.match(i+3) + 1
		}
	case opColons:
		if r.op(i+2) == '<' {
			if end := r.angles(i+2, 64); r.op(end) == '(' {
				r.call(i)
			}
		}
	case opName:
		switch {
		case r.word(i) == "union" && r.start(i-1):
			return r.decl().typed(i, "union")
		case r.word(i) == "macro" && r.start(i-1):
			return r.decl().header(i+2) + 1
		}
	}
	return i + 1
}

// call adds a call of item i.
func (r *rust) call(i int) {
	f := r.fn()
	if f == nil || r.top().pattern {
		return
	}
	name := r.word(i)
	switch name {
	case "Some", "Ok", "Err":
		return // constructors of values, not calls of the project's functions
	}
	if f.Calls == nil {
		f.Calls = make([]code.Call, 0, 8)
	}
	f.Calls = append(f.Calls, code.Call{Name: name, Of: r.of(i), Line: r.lineOf(i), Token: r.tokenOf(i)})
}

// keyword reads a keyword.
func (r *rust) keyword(i int, o op) int {
	top := r.top()
	nest := top.nest
	switch o {
	case kwIf:
		switch {
		case top.kind == rustMatch && top.pattern:
			r.count(1, 0)
			top.pattern = false // an || in the guard is a logical operator
			return i + 1
		case r.op(i-1) == kwElse:
			r.count(1, 0)
		default:
			r.count(1, nest+1)
		}
		r.wait(rustBlock, 1)
	case kwElse:
		r.count(0, 1)
		if r.op(i-1) != '}' {
			r.count(1, 0) // the else belongs to a let
		}
		if r.op(i+1) == '{' {
			r.wait(rustBlock, 1)
		}
	case kwWhile, kwLoop:
		r.count(1, nest+1)
		r.wait(rustBlock, 1)
	case kwFor:
		if r.op(i+1) != '<' {
			r.count(1, nest+1)
			r.wait(rustBlock, 1)
		}
	case kwMatch:
		r.count(0, nest+1)
		r.wait(rustMatch, 1)
	case kwBreak, kwContinue:
		if r.op(i+1) == opLabel {
			r.count(0, 1)
		}
	case kwUnsafe, kwAsync:
		if next := r.op(i + 1); next == '{' || next == kwMove && r.op(i+2) == '{' {
			r.wait(rustBlock, 0)
		}
	default:
		return r.decl().item(i, o)
	}
	top.last = opNone
	return i + 1
}

// wait records the kind of the next brace in this scope.
func (r *rust) wait(kind rustKind, nest int) {
	r.pending = append(r.pending, rustPending{scopes: len(r.scopes), kind: kind, nest: nest})
}

// maxImports is the largest number of imports that are read from a file.
const maxImports = 10_000
