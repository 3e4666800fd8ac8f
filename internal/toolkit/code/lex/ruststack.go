package lex

import (
	"belljar.dev/internal/toolkit/code"
)

// top returns the innermost scope.
func (r *rust) top() *rustScope { return &r.scopes[len(r.scopes)-1] }

// push opens a scope like the one around it, which ends with item end.
func (r *rust) push(kind rustKind, end int) *rustScope {
	s := *r.top()
	s.kind, s.end, s.last, s.back, s.pattern, s.arm = kind, end, opNone, false, false, false
	r.scopes = append(r.scopes, s)
	return r.top()
}

// fn returns the function around the present item, or nil.
func (r *rust) fn() *code.Func {
	if n := r.top().fn; n >= 0 {
		return &r.f.Funcs[n]
	}
	return nil
}

// count adds to the metrics of the function around the present item.
func (r *rust) count(cyclomatic, cognitive int) {
	if f := r.fn(); f != nil {
		f.Cyclomatic += cyclomatic
		f.Cognitive += cognitive
	}
}

// first returns the first item of a declaration whose keyword is item i. The modifiers
// before the keyword belong to the declaration, its attributes do not.
func (r *rust) first(i int) int {
	for range 10 {
		switch r.op(i - 1) {
		case kwPub, kwConst, kwAsync, kwUnsafe, kwExtern:
			i--
			continue
		case opString:
			if r.op(i-2) == kwExtern {
				i -= 2
				continue
			}
		case ')':
			if open := r.match(i - 1); open > 0 && r.op(open-1) == kwPub {
				i = open - 1
				continue
			}
		case opName:
			if word := r.word(i - 1); (word == "default" || word == "auto") && r.start(i-2) {
				i--
				continue
			}
		}
		break
	}
	return i
}

// start reports whether a declaration can begin after item i.
func (r *rust) start(i int) bool {
	switch r.op(i) {
	case opNone, ';', '{', '}', ']', ')', kwPub, kwUnsafe, opString, kwExtern:
		return true
	}
	return r.word(i) == "default" || r.word(i) == "auto"
}

// angles returns the item after the angle brackets that open at i. It examines n items at
// most.
func (r *rust) angles(i, n int) int {
	depth := 0
	for ; n > 0; n-- {
		r.steps++
		switch o := r.op(i); {
		case o == '<':
			depth++
		case o == '>':
			depth--
		case o == opShr:
			depth -= 2
		case opens(o):
			i = r.match(i)
		case o == opNone || o == ';' || closes(o):
			return i
		}
		i++
		if depth <= 0 {
			return i
		}
	}
	return i
}

// enter opens the scope of declarations whose brace is item i.
func (r *rust) enter(kind rustKind, i int, owner string) {
	s := r.push(kind, r.match(i))
	s.owner = owner
	s.test = s.test || r.test
	r.test = false
}
