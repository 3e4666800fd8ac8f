package lex

import "belljar.dev/internal/toolkit/code"

// parseScript reads TypeScript and JavaScript, including JSX except in plain TypeScript.
//
// Cyclomatic is what eslint's rule complexity counts (lib/rules/complexity.js of eslint 9):
// 1, plus one for each if, loop, case, catch, ternary, &&, || and ??, for the assignments
// &&=, ||= and ??=, for each ?. and for each default of a parameter or a pattern. Cognitive
// is what the rule cognitive-complexity of eslint-plugin-sonarjs 4.2.2 compares with its
// threshold: if, the loops, switch, catch and a ternary count by their nesting; else, a
// jump to a label and each run of && count one. It does not count || and ??, because they
// often are defaults, and not the && of one child of JSX.
//
// Each function counts by itself, even if it lies within another one: arrow functions,
// function expressions and the methods of objects, too. The initial value of a field of a
// class belongs to no function.
func parseScript(f *code.File) { readScript(f).free() }

// readScript does the work of parseScript, and returns the reader for tests.
func readScript(f *code.File) *braces {
	b := newBraces(f)
	splitScript(b)
	b.finish()
	s := &script{first: -1, start: true}
	s.braces, s.typed = b, f.Language != code.JavaScript
	s.frames = append(s.frames, scriptFrame{kind: frameBlock, base: frameBlock, end: len(s.items), fn: -1, target: -1, fresh: true})
	for i := 0; i < len(s.items); {
		s.steps++
		i = max(s.next(i), i+1)
	}
	s.statement(len(s.items) - 1)
	for len(s.frames) > 1 {
		s.pop(len(s.items) - 1)
	}
	s.decl().shared()
	return b
}

// next reads the item i, and returns the item to read next.
func (s *script) next(i int) int {
	o := s.op(i)
	if closes(o) {
		return s.closed(i)
	}
	top := s.top()
	if !s.start && (top.base == frameBlock || top.base == frameTry || top.base == frameClass) && top.kind != frameClass && s.breaks(i) {
		s.statement(i - 1)
		top = s.top()
	}
	if o == '@' {
		return s.decorator(i)
	}
	if o == '{' && top.kind == frameGroup && top.then == frameClass && top.end == i {
		s.pop(i)
		s.operand = false
		return i + 1
	}
	switch {
	case top.kind == frameClass:
		if o == ';' {
			return i + 1
		}
		return s.decl().member(i)
	case top.kind == frameObject && top.fresh:
		if next := s.decl().property(i); next > i {
			return next
		}
	case top.kind == frameParams && top.fresh:
		top.fresh = false
		if s.word(i) != "this" || s.op(i+1) != ':' {
			s.fn().Params++
		}
	}
	switch {
	case o == opName:
		return s.name(i)
	case keyword(o):
		return s.keyword(i, o)
	case opens(o):
		return s.opened(i, o)
	}
	return s.operator(i, o)
}

// decorator skips the @ and the name of a decorator. Its arguments are read.
func (s *script) decorator(i int) int {
	j := i + 1
	for s.op(j) == opName || s.op(j) == '.' {
		s.steps++
		j++
	}
	if s.op(j) == '(' {
		start := s.start
		g := s.push(frameGroup, s.match(j))
		g.then, g.fresh = frameDecorator, start
		s.start, s.operand = false, false
		return j + 1
	}
	return j
}

// opened reads an open bracket.
func (s *script) opened(i int, o op) int {
	around := s.top()
	start, operand := s.start, s.operand
	s.start, s.operand = false, false
	switch o {
	case '{':
		if start {
			kind := frameBlock
			if s.role == frameTry {
				kind = frameTry
			}
			b := s.push(kind, s.match(i))
			b.fresh = true
			if around = &s.frames[len(s.frames)-2]; around.fn < 0 {
				b.owner = around.owner
			}
			s.deeper(s.nest)
			s.nest, s.role, s.start = 0, frameNone, true
			return i + 1
		}
		decl := around.decl
		s.push(frameObject, s.match(i)).decl = decl
	case '(':
		if !operand {
			if body := s.arrow(i, around.yes > 0); body > 0 {
				return s.decl().arrowFunction(i, i, body)
			}
		}
		last := around.last
		g := s.push(frameGroup, s.match(i))
		if !operand && s.op(i-1) != '!' {
			g.back, g.last = true, last
		}
	default:
		s.push(frameGroup, s.match(i))
	}
	return i + 1
}

// closed reads a closing bracket.
func (s *script) closed(i int) int {
	n := len(s.frames) - 1
	for n > 0 && s.frames[n].virtual() {
		s.steps++
		n--
	}
	for m, low := n, max(0, n-recovery); m > low; m-- {
		s.steps++
		if s.frames[m].end == i {
			for len(s.frames) > m+1 {
				s.pop(i - 1)
			}
			n = m
			break
		}
	}
	if n == 0 || s.frames[n].end != i {
		return i + 1 // the bracket closes nothing
	}
	if s.top().virtual() && (s.top().base == frameBlock || s.top().base == frameTry || s.top().base == frameClass) {
		s.statement(i - 1)
	}
	for s.top().virtual() {
		s.pop(i - 1)
	}
	f := s.pop(i)
	s.start, s.operand = false, true
	switch f.kind {
	case frameParams:
		return s.inside(f)
	case frameGroup:
		s.group(i, f)
	case frameClass:
		if f.then == frameBlock {
			s.statement(i)
		}
	case frameBlock, frameTry:
		s.block(i, f)
	}
	return i + 1
}

// group reads the end of brackets.
func (s *script) group(i int, f scriptFrame) {
	switch f.then {
	case frameThen, frameLoop:
		s.push(f.then, -1)
		s.deeper(1)
		s.start, s.operand = true, false
	case frameSwitch:
		s.nest = 1
		s.start, s.operand = true, false
	case frameCatch:
		s.nest, s.role = 1, frameTry
		s.start, s.operand = true, false
	case frameWhile:
		if s.op(i+1) != ';' {
			s.statement(i)
		}
	case frameDecorator:
		s.start, s.operand = f.fresh, false
	default:
		open := s.match(i)
		if s.op(open) == opHole && s.word(open) == "{" && s.op(open+1) != opDots && f.ands == 1 && !f.mixed {
			s.count(0, -1)
		}
		top := s.top()
		switch s.op(i + 1) {
		case '.', '(', '[', opOptional:
		default:
			if f.back {
				top.last = f.last
				top.ands += f.ands
				top.mixed = top.mixed || f.mixed
			}
		}
	}
}

// block reads the end of a block.
func (s *script) block(i int, f scriptFrame) {
	if f.body > 0 {
		s.depth--
	}
	switch {
	case f.body > 0 && f.then == frameNone, f.then == frameObject, f.then == frameGroup:
	case f.then == frameClass:
		s.operand = false
		s.top().fresh = true
	case f.kind == frameTry && (s.op(i+1) == kwCatch || s.op(i+1) == kwFinally):
		s.start, s.operand = true, false
	default:
		s.statement(i)
	}
}

// name reads a name. The name can be a word of the language, depending on its place.
func (s *script) name(i int) int {
	start, next := s.start, s.op(i+1)
	s.start = false
	word := s.word(i)
	if start {
		if next == ':' && s.top().base != frameObject {
			s.start = true
			return i + 2
		}
		if word == "let" && (next == opName || next == '{' || next == '[') {
			s.decl().variables(word)
			return i + 1
		}
		if s.typed {
			s.start = true
			if j := s.decl().declaration(i); j > i {
				return j
			}
			s.start = false
		}
	}
	switch {
	case next == opFatArrow:
		return s.decl().arrowFunction(i, i, i+2)
	case s.operand && s.typed && (word == "as" || word == "satisfies") && next != '=':
		if end := s.typeEnd(i+1, len(s.items)); end > i+1 {
			s.operand = true
			return end
		}
	case s.operand && word == "of":
		s.operand = false
		s.top().decl = false
		return i + 1
	case word == "async" && s.lineOf(i) == s.lineOf(i+1):
		if next == kwFunction {
			s.start = start
			return s.decl().function(i + 1)
		}
		if j := s.async(i); j > 0 {
			return j
		}
	case word == "let" && (next == opName || next == '{' || next == '[') && s.op(i-1) == '(':
		s.decl().variables(word)
		return i + 1
	case word == "await" && (next == opName || next == '(' || next == kwNew || next == kwValue || next == kwImport || next == '[' || next == opText):
		s.operand = false
		return i + 1
	}
	top := s.top()
	if top.decl && !s.operand && (top.kind == frameBlock || top.kind == frameTry || top.kind == frameGroup) {
		s.decl().variable(i)
	}
	s.operand = true
	switch next {
	case '(':
		s.call(i)
	case opOptional:
		if s.op(i+2) == '(' {
			s.call(i)
		}
	case '<':
		if end := s.callArguments(i + 1); end > i+1 {
			if s.op(end) == '(' {
				s.call(i)
			}
			return end
		} else if s.top().then != frameClass {
			s.operand = false // the < compares
			return i + 2
		}
	}
	return i + 1
}

// async opens the asynchronous arrow function at item i, or returns 0.
func (s *script) async(i int) int {
	params := i + 1
	if s.op(params) == '<' {
		params = s.argumentsEnd(params, ahead)
	}
	switch s.op(params) {
	case '(':
		if body := s.arrow(params, s.top().yes > 0); body > 0 {
			return s.decl().arrowFunction(i, params, body)
		}
	case opName:
		if s.op(params+1) == opFatArrow {
			return s.decl().arrowFunction(i, params, params+2)
		}
	}
	return 0
}

// call records a call of item i.
func (s *script) call(i int) {
	f := s.fn()
	if f == nil {
		return
	}
	f.Calls = append(f.Calls, code.Call{Name: s.word(i), Of: s.of(i), Line: s.lineOf(i), Token: s.tokenOf(i)})
}

// header opens the brackets after a keyword that ends before item i, and returns the item
// to read next.
func (s *script) header(i int, then frameKind) int {
	s.start, s.operand = false, false
	if s.op(i) != '(' {
		return i
	}
	g := s.push(frameGroup, s.match(i))
	g.then = then
	return i + 1
}

// keyword reads a keyword.
func (s *script) keyword(i int, o op) int {
	top := s.top()
	start := s.start
	s.start = false
	switch o {
	case kwIf:
		if s.op(i-1) == kwElse {
			s.count(1, 1)
		} else {
			s.count(1, top.nest+1)
		}
		return s.header(i+1, frameThen)
	case kwElse:
		s.push(frameElse, -1)
		if s.op(i+1) != kwIf {
			s.deeper(1)
			s.count(0, 1)
		}
		s.start, s.operand = true, false
	case kwFor:
		s.count(1, top.nest+1)
		if s.op(i+1) == opName {
			i++ // skips await
		}
		return s.header(i+1, frameLoop)
	case kwWhile:
		if s.tail {
			s.tail = false
			return s.header(i+1, frameWhile)
		}
		s.count(1, top.nest+1)
		return s.header(i+1, frameLoop)
	case kwDo:
		s.count(1, top.nest+1)
		s.push(frameDo, -1)
		s.deeper(1)
		s.start, s.operand = true, false
	case kwSwitch:
		s.count(0, top.nest+1)
		return s.header(i+1, frameSwitch)
	case kwCase:
		s.count(1, 0)
		top.label = true
		s.operand = false
	case kwTry:
		s.role, s.start, s.operand = frameTry, true, false
	case kwCatch:
		s.count(1, top.nest+1)
		if s.op(i+1) == '(' {
			return s.header(i+1, frameCatch)
		}
		s.nest, s.role, s.start, s.operand = 1, frameTry, true, false
	case kwFinally:
		s.start, s.operand = true, false
	case kwBreak, kwContinue:
		if s.op(i+1) == opName && s.lineOf(i) == s.lineOf(i+1) {
			s.count(0, 1)
		}
		s.operand = false
	case kwConst, kwVar:
		if s.op(i+1) == kwEnum {
			return s.decl().enum(i + 1)
		}
		s.decl().variables(s.word(i))
	case kwFunction:
		s.start = start
		return s.decl().function(i)
	case kwClass:
		s.start = start
		return s.decl().class(i)
	case kwEnum:
		return s.decl().enum(i)
	case kwValue:
		s.operand = true
		if s.word(i) == "super" && s.op(i+1) == '(' {
			s.call(i)
		}
	case kwImport:
		if next := s.op(i + 1); start && next != '(' && next != '.' {
			return s.decl().imports(i)
		}
		s.operand = true
		if s.op(i+1) == '(' && s.op(i+2) == opString {
			s.f.Imports = append(s.f.Imports, code.Import{Path: s.nameOf(i + 2), Line: s.lineOf(i)})
		}
	case kwExport:
		s.start = start
		return s.decl().exported(i)
	case kwDefault:
		s.operand = false
		if s.op(i+1) == ':' {
			s.start = true
			return i + 2
		}
	default:
		s.operand = false
	}
	return i + 1
}
