package lex

// operator reads an item that is neither a word nor a bracket.
func (s *script) operator(i int, o op) int {
	top := s.top()
	start := s.start
	s.start = false
	switch o {
	case opNumber, opString, opText, opRegex, opJSX:
		s.operand = true
	case ';':
		if top.base == frameGroup {
			s.expression(i - 1)
			s.top().decl, s.top().list = false, false
			s.operand = false
			return i + 1
		}
		s.expression(i - 1)
		s.statement(i)
	case ',':
		s.expression(i - 1)
		top = s.top()
		top.decl = top.list || top.kind == frameParams
		top.fresh = true
		s.operand = false
	case '=':
		s.assignment(i)
	case opAnd, opOr, opNullish:
		s.logical(o)
	case opAndSet, opOrSet, opNullSet:
		s.count(1, 0)
		s.operand = false
	case opOptional:
		s.count(1, 0)
	case '?':
		return s.question(i)
	case ':':
		return s.colon(i)
	case '<':
		return s.less(i)
	case opInc, opDec:
	case '!':
		s.operand = s.operand && s.typed && !start
	case '#':
	default:
		s.operand = false
	}
	return i + 1
}

// assignment reads an =, which in a pattern or after a parameter begins a default value.
func (s *script) assignment(i int) {
	top := s.top()
	target := i - 1
	if o := s.op(target); o == '}' || o == ']' {
		target = s.match(target)
	}
	before := s.op(target - 1)
	switch {
	case top.kind == frameParams:
		if top.decl {
			s.count(1, 0)
		}
	case top.kind == frameObject && before == ':':
		s.count(1, 0)
	case top.kind == frameGroup && top.end < len(s.items) && s.op(top.end) == ']' && (before == '[' || before == ','):
		s.count(1, 0)
	}
	if s.op(i-1) == opName && !top.decl {
		top.target = i - 1
	}
	top.decl = false
	top.last, top.ands, top.mixed, top.back = opNone, 0, false, false
	s.operand = false
}

func (s *script) logical(o op) {
	top := s.top()
	cognitive := 0
	if o == opAnd {
		if top.last != opAnd {
			cognitive = 1
			top.ands++
		}
	} else {
		top.mixed = true
	}
	top.last = o
	s.count(1, cognitive)
	s.operand = false
}

// question reads a ?, which begins a ternary or marks a parameter.
func (s *script) question(i int) int {
	top := s.top()
	if top.kind == frameParams && top.decl || s.typed && top.decl {
		switch s.op(i + 1) {
		case ':', ',', ')', '=':
			return i + 1
		}
	}
	top.mixed, top.last = true, opNone
	s.count(1, top.nest+1)
	s.push(frameYes, -1)
	s.deeper(1)
	s.operand = false
	return i + 1
}

// colon reads a : that belongs to a ternary, a case, a property or a type.
func (s *script) colon(i int) int {
	if s.top().yes > 0 {
		for s.top().kind != frameYes {
			s.pop(i - 1)
		}
		s.pop(i - 1)
		s.push(frameNo, -1)
		s.deeper(1)
		s.operand = false
		return i + 1
	}
	top := s.top()
	if s.typed && (top.decl && top.kind != frameObject || top.then == frameCatch) {
		s.operand = true
		return s.typeEnd(i+1, len(s.items))
	}
	s.expression(i - 1)
	top = s.top()
	s.operand = false
	if top.label {
		top.label = false
		s.start = true
	}
	return i + 1
}

// less reads a <, which compares or opens type arguments.
func (s *script) less(i int) int {
	if s.operand {
		end := s.callArguments(i)
		if s.top().then == frameClass { // the base of a class
			end = s.argumentsEnd(i, ahead)
		}
		s.operand = end > i
		return max(end, i+1)
	}
	if !s.typed {
		return i + 1
	}
	end := s.argumentsEnd(i, ahead)
	if s.op(end) == '(' && end > i {
		if body := s.arrow(end, false); body > 0 {
			return s.decl().arrowFunction(i, end, body)
		}
	}
	s.operand = false
	return max(end, i+1) // a type assertion
}
