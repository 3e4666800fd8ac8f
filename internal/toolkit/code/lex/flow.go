package lex

import "belljar.dev/internal/toolkit/code"

// flow reads the statements of C, C++ and Java, which these languages have in common. The
// reader of each language finds the declarations.
type flow struct {
	*braces
	frames  []flowFrame
	start   bool  // a statement can begin here
	tail    bool  // the next while ends a do
	nest    int   // levels that the next block adds to the nesting
	lambdas []int // items of the opening braces of lambdas that have not been read
	depth   int   // number of functions around the present item
	java    bool
}

// flowFrame is a construct that has begun and not ended, such as a block or an expression.
type flowFrame struct {
	kind  flowKind
	end   int    // item that closes it; -1 if no bracket closes it
	fn    int    // index of the function around it; -1 outside of functions
	owner string // type or namespace around it
	nest  int    // nesting level, for Cognitive
	then  flowKind
	last  op   // logical operator of the present run of operators
	back  bool // for a group: the run of logical operators continues after it
	yes   int  // number of ternaries since the bracket that still need their colon
	label bool // the next colon or arrow ends a case
	body  bool // it is the body of a function
	test  bool
	tag   op // for a type: the keyword that begins it
}

type flowKind uint8

const (
	flowNone  flowKind = iota
	flowScope          // declarations: a file, a namespace, a type
	flowBlock          // statements
	flowTry            // a block that catch or finally may follow
	flowGroup          // an expression in parentheses
	flowConst          // the constants of an enumeration of Java

	// No bracket ends a frame of the following kinds.

	flowThen
	flowElse
	flowLoop
	flowDo
	flowYes
	flowNo
	flowLambda // a lambda whose body is an expression
	flowField  // the value of a field

	// The following kinds state what comes after a bracket.

	flowSwitch
	flowCatch
	flowWhile
	flowTryBlock // the block of a try, which comes after its resources
)

func (s *flow) top() *flowFrame { return &s.frames[len(s.frames)-1] }

// push opens a frame in the function and the type around it.
func (s *flow) push(kind flowKind, end int) *flowFrame {
	around := s.top()
	f := flowFrame{kind: kind, end: end, fn: around.fn, owner: around.owner, nest: around.nest, test: around.test}
	if end < 0 {
		f.yes = around.yes
	}
	if kind == flowYes {
		f.yes++
	}
	s.frames = append(s.frames, f)
	return s.top()
}

func (s *flow) fn() *code.Func {
	if n := s.top().fn; n >= 0 {
		return &s.f.Funcs[n]
	}
	return nil
}

func (s *flow) count(cyclomatic, cognitive int) {
	if f := s.fn(); f != nil {
		f.Cyclomatic += cyclomatic
		f.Cognitive += cognitive
	}
}

// deeper increases the nesting of the innermost frame by n.
func (s *flow) deeper(n int) {
	top := s.top()
	top.nest += n
	if f := s.fn(); f != nil {
		f.Nesting = max(f.Nesting, top.nest)
	}
}

func (s *flow) pop() flowFrame {
	f := s.frames[len(s.frames)-1]
	s.frames = s.frames[:len(s.frames)-1]
	return f
}

// expression ends the ternaries and the lambdas here.
func (s *flow) expression() {
	for k := s.top().kind; k == flowYes || k == flowNo || k == flowLambda; k = s.top().kind {
		s.pop()
	}
	s.top().last = opNone
}

// statement ends the statement whose last item is i, and the statements that end with it.
func (s *flow) statement(i int) {
	s.expression()
	s.start = true
	for s.top().end < 0 {
		switch s.pop().kind {
		case flowThen:
			if s.op(i+1) == kwElse {
				return
			}
		case flowDo:
			if s.op(i+1) == kwWhile {
				s.tail = true
				return
			}
		}
		s.expression()
	}
	s.nest = 0
	s.top().label = false
}

// enter opens the body of a function whose brace is item i.
func (s *flow) enter(fn code.Func, i int) {
	fn.Cyclomatic = 1
	s.f.Funcs = append(s.f.Funcs, fn)
	b := s.push(flowBlock, s.match(i))
	b.fn, b.nest, b.owner, b.body = len(s.f.Funcs)-1, 0, "", true
	s.depth++
	s.start, s.tail, s.nest = true, false, 0
}

// scope opens the declarations of a type or a namespace whose brace is item i.
func (s *flow) scope(i int, owner string, tag op) {
	f := s.push(flowScope, s.match(i))
	f.owner, f.fn, f.nest, f.tag = owner, -1, 0, tag
	s.start = true
}

// closed reads a closing bracket.
func (s *flow) closed(i int) int {
	n := len(s.frames) - 1
	for n > 0 && s.frames[n].end < 0 {
		s.steps++
		n--
	}
	for low := max(0, n-recovery); n > low && s.frames[n].end != i; n-- {
		s.steps++
	}
	if n <= 0 || s.frames[n].end != i {
		return i + 1 // the bracket closes nothing
	}
	s.frames = s.frames[:n+1]
	f := s.pop()
	if f.kind == flowConst {
		f = s.pop() // the enumeration itself ends here, too
	}
	s.start = false
	switch f.kind {
	case flowGroup:
		s.group(i, f)
	case flowScope:
		s.start = s.top().kind == flowScope
		if f.then == flowBlock {
			s.statement(i)
		}
	case flowBlock, flowTry:
		if f.body {
			s.depth--
		}
		switch next := s.op(i + 1); {
		case f.then == flowLambda:
		case f.kind == flowTry && (next == kwCatch || next == kwFinally):
			s.start = true
		case f.body:
			s.start = true
		default:
			s.statement(i)
		}
	}
	return i + 1
}

// group reads the end of brackets around an expression.
func (s *flow) group(i int, f flowFrame) {
	switch f.then {
	case flowThen, flowLoop:
		s.push(f.then, -1)
		s.deeper(1)
		s.start = true
	case flowSwitch, flowCatch:
		s.nest = 1
		s.start = true
	case flowTryBlock:
		s.start = true
	case flowWhile:
		if s.op(i+1) != ';' {
			s.statement(i)
		}
	default:
		if f.back {
			s.top().last = f.last
		}
	}
}

// next reads the item i of a function, and returns the item to read next.
func (s *flow) next(i int) int {
	o := s.op(i)
	top := s.top()
	start := s.start
	s.start = false
	switch {
	case keyword(o):
		return s.keyword(i, o, start)
	case o == opName:
		if start && s.op(i+1) == ':' {
			s.start = true
			return i + 2
		}
		s.call(i)
	case o == '(' || o == '[':
		last := top.last
		g := s.push(flowGroup, s.match(i))
		if !s.operand(i-1) && s.op(i-1) != '!' {
			g.back, g.last = true, last
		}
	case o == '{':
		s.brace(i, start)
	case o == ';':
		if top.kind == flowGroup {
			s.expression()
			return i + 1
		}
		s.statement(i)
	case o == ',':
		s.expression()
	case o == '=':
		top.last, top.back = opNone, false
	case o == opAnd || o == opOr:
		if s.logical(i, o) {
			cognitive := 0
			if top.last != o {
				cognitive = 1
			}
			top.last = o
			s.count(1, cognitive)
		}
	case o == '?':
		if s.java && s.wildcard(i) {
			return i + 1
		}
		top.last = opNone
		s.count(1, top.nest+1)
		s.push(flowYes, -1)
		s.deeper(1)
	case o == ':':
		s.colon()
	case o == opArrow && s.java:
		s.arrow(i)
	}
	return i + 1
}

// operand reports whether item i ends an operand.
func (s *flow) operand(i int) bool {
	switch s.op(i) {
	case opName, opNumber, opString, kwValue, ')', ']', '}':
		return true
	}
	return false
}

// logical reports whether the && or || at item i has two operands: in C++, && also declares
// references.
func (s *flow) logical(i int, o op) bool {
	if s.java || o == opOr {
		return true
	}
	if !s.operand(i - 1) {
		return s.op(i-1) == '>' && s.op(i+1) != '>' && s.op(i+1) != ')' && s.op(i+1) != ','
	}
	switch s.op(i + 1) {
	case '>', ')', ',', opDots, '=':
		return false
	case opName:
		if s.op(i-1) == opName {
			switch s.op(i - 2) {
			case ';', '{', '}':
				return s.op(i+2) != '=' && s.op(i+2) != ';'
			}
		}
	}
	return true
}

// wildcard reports whether the ? at item i stands for a type.
func (s *flow) wildcard(i int) bool {
	switch s.op(i + 1) {
	case '>', ',', kwExtends, opShr, opShr3:
		return true
	}
	return s.op(i-1) == '<' || s.word(i+1) == "super" && s.op(i+2) != '.'
}

// colon reads a : that belongs to a ternary or a case.
func (s *flow) colon() {
	if s.top().yes > 0 {
		for s.top().kind != flowYes {
			s.pop()
		}
		s.pop()
		s.push(flowNo, -1)
		s.deeper(1)
		return
	}
	s.expression()
	if top := s.top(); top.label {
		top.label = false
		s.start = true
	}
}

// arrow reads the -> of a case or of a lambda of Java.
func (s *flow) arrow(i int) {
	if s.top().yes == 0 {
		n := len(s.frames) - 1
		if top := &s.frames[n]; top.label {
			s.expression()
			s.top().label = false
			s.start = true
			return
		}
	}
	if s.op(i+1) == '{' {
		s.lambdas = append(s.lambdas, i+1)
		return
	}
	s.push(flowLambda, -1)
	s.deeper(1)
}

// brace opens a block, the body of a lambda, or a list of values.
func (s *flow) brace(i int, start bool) {
	if n := len(s.lambdas); n > 0 && s.lambdas[n-1] <= i {
		lambda := s.lambdas[n-1] == i
		s.lambdas = s.lambdas[:n-1]
		if lambda {
			s.push(flowBlock, s.match(i)).then = flowLambda
			s.deeper(1)
			s.start = true
			return
		}
	}
	macro := false
	if s.op(i-1) == ')' && !s.java {
		open := s.match(i - 1)
		macro = s.op(open-1) == opName // a block after a macro such as for_each(...)
	}
	switch {
	case start || macro:
		kind := flowBlock
		if s.op(i-1) == kwTry || s.nest > 0 || s.tryBlock(i-1) {
			kind = flowTry
		}
		s.push(kind, s.match(i))
		s.deeper(s.nest)
		s.nest = 0
		s.start = true
	case s.op(i-1) == '(': // a block that is an expression in GNU C
		s.push(flowBlock, s.match(i)).then = flowLambda
		s.start = true
	default:
		s.push(flowGroup, s.match(i))
	}
}

// tryBlock reports whether item i ends the resources of a try.
func (s *flow) tryBlock(i int) bool {
	return s.op(i) == ')' && s.match(i) > 0 && s.match(i) < i && s.op(s.match(i)-1) == kwTry
}

// call records a call of item i.
func (s *flow) call(i int) {
	if s.op(i+1) != '(' || s.op(i-1) == opName {
		return
	}
	if f := s.fn(); f != nil {
		f.Calls = append(f.Calls, code.Call{Name: s.word(i), Of: s.of(i), Line: s.lineOf(i), Token: s.tokenOf(i)})
	}
}

// header opens the brackets at item i, which stand after a keyword.
func (s *flow) header(i int, then flowKind) int {
	if s.op(i) != '(' {
		s.start = then == flowThen || then == flowTryBlock
		return i
	}
	s.push(flowGroup, s.match(i)).then = then
	return i + 1
}

// keyword reads a keyword of a statement.
func (s *flow) keyword(i int, o op, start bool) int {
	top := s.top()
	switch o {
	case kwIf:
		if s.op(i-1) == kwElse {
			s.count(1, 1)
		} else {
			s.count(1, top.nest+1)
		}
		if s.word(i+1) == "constexpr" {
			i++
		}
		return s.header(i+1, flowThen)
	case kwElse:
		s.push(flowElse, -1)
		if s.op(i+1) != kwIf {
			s.deeper(1)
			s.count(0, 1)
		}
		s.start = true
	case kwFor:
		s.count(1, top.nest+1)
		return s.header(i+1, flowLoop)
	case kwWhile:
		if s.tail {
			s.tail = false
			return s.header(i+1, flowWhile)
		}
		s.count(1, top.nest+1)
		return s.header(i+1, flowLoop)
	case kwDo:
		s.count(1, top.nest+1)
		s.push(flowDo, -1)
		s.deeper(1)
		s.start = true
	case kwSwitch:
		s.count(0, top.nest+1)
		return s.header(i+1, flowSwitch)
	case kwCase:
		s.count(1, 0)
		top.label = true
	case kwDefault:
		switch s.op(i + 1) {
		case ':':
			s.start = true
			return i + 2
		case opArrow:
			top.label = true
		}
	case kwTry:
		return s.header(i+1, flowTryBlock)
	case kwCatch:
		s.count(1, top.nest+1)
		return s.header(i+1, flowCatch)
	case kwFinally:
		s.start = true
	case kwGoto:
		s.count(0, 1)
	case kwBreak, kwContinue:
		if s.op(i+1) == opName {
			s.count(0, 1)
		}
	case kwValue:
		if s.op(i+1) == '(' {
			s.call(i)
		}
	default:
		s.start = start && o == kwModifier
	}
	return i + 1
}
