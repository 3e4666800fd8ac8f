package lex

import "belljar.dev/internal/toolkit/code"

// script reads the functions and declarations of a file in one pass.
type script struct {
	scriptItems
	frames  []scriptFrame
	start   bool      // a statement can begin here
	operand bool      // the last item ends an operand
	tail    bool      // the next while ends a do
	nest    int       // levels that the next block adds to the nesting
	role    frameKind // kind of the next block, if it is a special one
	first   int       // first modifier of a declaration; -1 without modifiers
	export  bool      // the declaration is exported
	depth   int       // number of functions around the present item
	kind    string    // const, let or var of the statement that declares variables
	names   []string  // names in export lists
}

// scriptFrame is a construct that has begun and not ended: a pair of brackets, or an
// expression or a statement that no bracket ends.
type scriptFrame struct {
	kind   frameKind
	base   frameKind // kind of the innermost pair of brackets
	end    int       // item that closes it; -1 if no bracket closes it
	fn     int       // index of the function around it; -1 outside of functions
	owner  string
	nest   int       // nesting level, for Cognitive
	then   frameKind // kind of frame that follows the closing bracket
	body   int       // for parameters: the item of the function's body
	target int       // item of the name to which a function may be assigned; -1 without a name
	last   op        // logical operator of the present run of operators
	ands   int       // number of runs of && in this expression that Cognitive has counted
	mixed  bool      // the expression contains other operators, too
	back   bool      // for a group: the run of logical operators continues after it
	yes    int       // number of ternaries since the bracket that still need their colon
	list   bool      // the statement declares variables
	decl   bool      // the name or the type of a declared variable comes next
	label  bool      // the next colon ends a case
	fresh  bool      // a parameter, a member or a property begins here
	export bool
}

type frameKind uint8

const (
	frameNone   frameKind = iota
	frameBlock            // statements: a file, a body, a block
	frameTry              // a block that catch or finally may follow
	frameClass            // members
	frameObject           // properties of an object or of a pattern
	frameGroup            // expressions in ( [ or a hole
	frameParams           // parameters

	// No bracket ends a frame of the following kinds.

	frameThen  // the statement of an if
	frameElse  // the statement of an else
	frameLoop  // the statement of a loop
	frameDo    // the statement of a do
	frameYes   // the part of a ternary before its colon
	frameNo    // the part of a ternary after its colon
	frameArrow // the expression of an arrow function
	frameField // the value of a field

	// The following kinds say what comes after a bracket.

	frameCatch
	frameSwitch
	frameWhile // the end of a statement: while (a) after do
	frameDecorator
)

func (s *script) top() *scriptFrame { return &s.frames[len(s.frames)-1] }

// push opens a frame in the function and the type around it.
func (s *script) push(kind frameKind, end int) *scriptFrame {
	around := s.top()
	s.frames = append(s.frames, scriptFrame{
		kind: kind, base: kind, end: end, fn: around.fn, owner: around.owner, nest: around.nest, target: -1,
	})
	top := s.top()
	if end < 0 {
		around = &s.frames[len(s.frames)-2]
		top.base, top.yes = around.base, around.yes
	}
	switch kind {
	case frameYes:
		top.yes++
	case frameObject:
		top.owner, top.fresh = "", true
	}
	return top
}

// fn returns the function around the present item, or nil.
func (s *script) fn() *code.Func {
	if n := s.top().fn; n >= 0 {
		return &s.f.Funcs[n]
	}
	return nil
}

func (s *script) count(cyclomatic, cognitive int) {
	if f := s.fn(); f != nil {
		f.Cyclomatic += cyclomatic
		f.Cognitive += cognitive
	}
}

// deeper increases the nesting of the innermost frame by n.
func (s *script) deeper(n int) {
	top := s.top()
	top.nest += n
	if f := s.fn(); f != nil {
		f.Nesting = max(f.Nesting, top.nest)
	}
}

// pop closes the innermost frame, whose last item is i.
func (s *script) pop(i int) scriptFrame {
	f := s.frames[len(s.frames)-1]
	s.frames = s.frames[:len(s.frames)-1]
	if f.kind == frameArrow {
		fn := &s.f.Funcs[f.fn]
		fn.End = max(s.behind(i), fn.Start+1)
		fn.Last = max(s.lastLine(i), fn.Line)
		s.depth--
	}
	return f
}

// virtual reports whether no bracket ends the frame.
func (f *scriptFrame) virtual() bool { return f.end < 0 }

// expression ends the ternaries and the arrow functions whose last item is i.
func (s *script) expression(i int) {
	for k := s.top().kind; k == frameYes || k == frameNo || k == frameArrow; k = s.top().kind {
		s.pop(i)
	}
	top := s.top()
	top.last, top.ands, top.mixed = opNone, 0, false
}

// statement ends the statement whose last item is i, and the statements that end with it.
func (s *script) statement(i int) {
	s.expression(i)
	s.start, s.operand = true, false
	top := s.top()
	for top.virtual() {
		kind := s.pop(i).kind
		top = s.top()
		if kind == frameThen && s.op(i+1) == kwElse {
			return
		}
		if kind == frameDo && s.op(i+1) == kwWhile {
			s.tail = true
			return
		}
		if kind == frameField {
			break
		}
		if top.kind == frameYes || top.kind == frameNo || top.kind == frameArrow {
			s.expression(i)
			top = s.top()
		}
	}
	top.list, top.decl, top.label, top.target, top.fresh, top.last = false, false, false, -1, true, opNone
	for n := len(s.f.Vars) - 1; n >= 0 && s.f.Vars[n].Last == 0; n-- {
		s.f.Vars[n].Last = s.lastLine(i)
	}
	s.export, s.first = false, -1
	s.role, s.nest = frameNone, 0
}

// breaks reports whether a statement ends with the line before item i, without a semicolon.
func (s *script) breaks(i int) bool {
	if s.lineOf(i) == s.lastLine(i-1) {
		return false
	}
	switch s.op(i - 1) {
	case kwReturn, kwBreak, kwContinue:
		return true
	}
	if !s.operand {
		return false
	}
	switch o := s.op(i); o {
	case opName:
		switch s.word(i) {
		case "as", "satisfies", "of":
			return false
		}
		return true
	case opNumber, opString, kwValue, opInc, opDec, '{', '@', '}', '#', '!', '~':
		return true
	case kwOther:
		return s.word(i) != "instanceof"
	case kwIn, kwExtends, kwCatch, kwFinally:
		return false
	default:
		return keyword(o)
	}
}

// begin adds a function whose first item is i. Item name is the name that it declares; a
// negative name means that it declares no name. begin opens the frame of its parameters,
// which the bracket params opens. The function's body is the item body.
func (s *script) begin(i, name, params, body int, kind string) *scriptFrame {
	around := s.top()
	owner := around.owner
	f := code.Func{
		Symbol: code.Symbol{
			Owner:    owner,
			Kind:     kind,
			Line:     s.lineOf(i),
			First:    s.lineOf(i),
			Exported: s.export || around.export,
		},
		Label:      "anonymous",
		Start:      s.tokenOf(i),
		Cyclomatic: 1,
	}
	if name >= 0 {
		f.Name = s.nameOf(name)
		f.Label = f.Name
		if name >= i {
			f.Line = s.lineOf(name)
		} else if n := len(s.f.Vars) - 1; n >= 0 && s.f.Vars[n].Name == f.Name && s.f.Vars[n].Line == s.lineOf(name) {
			f.Exported = s.f.Vars[n].Exported
			s.f.Vars = s.f.Vars[:n] // the name belongs to a function, not to a variable
		}
	}
	if owner != "" {
		f.Label = owner + "." + f.Label
	}
	f.End, f.Last = f.Start+1, f.Line
	s.f.Funcs = append(s.f.Funcs, f)
	s.depth++
	p := s.push(frameParams, 0)
	p.fn, p.nest, p.owner, p.body, p.fresh, p.decl = len(s.f.Funcs)-1, 0, "", body, true, true
	if params >= 0 {
		p.end = s.match(params)
	}
	s.export, s.start, s.operand, s.first = false, false, false, -1
	return p
}

// nameOf returns the name at item i, without the quotes of a string. For a computed name,
// it returns the expression in the brackets.
func (s *script) nameOf(i int) string {
	switch s.op(i) {
	case opString:
		if w := s.word(i); len(w) >= 2 {
			return w[1 : len(w)-1]
		}
	case ']':
		if open := s.match(i); open >= 0 && open < i {
			return s.span(open, min(i, open+16))
		}
	}
	return s.word(i)
}

// inside opens the body of the function whose parameters were the frame p, and returns the
// item to read next.
func (s *script) inside(p scriptFrame) int {
	f := &s.f.Funcs[p.fn]
	kind := frameArrow
	end := -1
	if s.op(p.body) == '{' {
		kind, end = frameBlock, s.match(p.body)
		f.End = s.behind(end)
		f.Last = max(s.lastLine(end), f.Line)
	}
	b := s.push(kind, end)
	b.fn, b.nest, b.owner, b.body = p.fn, 0, "", p.body
	b.fresh = true
	b.then = p.then
	s.start, s.operand = end >= 0, false
	if end >= 0 {
		return p.body + 1
	}
	return p.body
}
