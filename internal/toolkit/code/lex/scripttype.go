package lex

// scriptItems looks ahead in the items of a script.
type scriptItems struct {
	*braces
	typed bool // the text is TypeScript
}

// ahead is how many items may be examined to find out what a text is. A longer type, or a
// longer list of type arguments, is read as an expression.
const ahead = 96

// typeEnd returns the item after the type that begins at i, or i if no type begins there.
// It examines n items at most.
func (s *scriptItems) typeEnd(i, n int) int {
	first := i
	conditions, branches := 0, 0
	for want := true; n > 0; n-- {
		s.steps++
		o := s.op(i)
		if want {
			switch {
			case o == '(':
				i = s.match(i)
				want = s.op(i+1) == opFatArrow
				if want {
					i++
				}
			case o == '[' || o == '{':
				i = s.match(i)
				want = false
			case o == '<':
				end := s.argumentsEnd(i, n)
				if end == i {
					return first
				}
				i = end - 1
			case o == opText:
				for s.op(i+1) == opText || s.op(i+1) == opHole {
					s.steps++
					i++
					if s.op(i) == opHole {
						i = s.match(i)
					}
				}
				want = false
			case o == '|' || o == '&' || o == '-' || o == kwNew || o == kwImport && s.op(i+1) != '(':
			case o == kwOther && s.word(i) == "typeof":
			case o == opName && s.prefix(i):
			case o == kwImport:
				i = s.match(i + 1)
				want = false
			case o == opName || o == opString || o == opNumber || o == kwValue || keyword(o):
				want = false
			default:
				return i
			}
			i++
			continue
		}
		switch {
		case o == '.':
			i++
			if s.op(i) == opName || keyword(s.op(i)) {
				i++
			}
		case o == '[' && s.lineOf(i) == s.lastLine(i-1):
			i = s.match(i) + 1
		case o == '<':
			end := s.argumentsEnd(i, n)
			if end == i {
				return i
			}
			i = end
		case o == '|' || o == '&':
			i++
			want = true
		case o == kwExtends && s.op(i-1) != opNone:
			conditions++
			i++
			want = true
		case o == '?' && conditions > 0:
			conditions--
			branches++
			i++
			want = true
		case o == ':' && branches > 0:
			branches--
			i++
			want = true
		case o == opName && s.word(i) == "is" && s.lineOf(i) == s.lastLine(i-1):
			i++
			want = true
		default:
			return i
		}
	}
	return i
}

// prefix reports whether the name i is an operator that stands before a type.
func (s *scriptItems) prefix(i int) bool {
	switch s.word(i) {
	case "keyof", "readonly", "unique", "infer", "asserts", "abstract":
		o := s.op(i + 1)
		return o == opName && s.word(i+1) != "is" && s.lineOf(i+1) == s.lineOf(i) || o == '(' || o == '[' || o == '{' || o == kwNew || o == kwValue || o == kwOther
	}
	return false
}

// argumentsEnd returns the item after the type arguments or parameters that < opens at i,
// or i if they do not end within n items.
func (s *scriptItems) argumentsEnd(i, n int) int {
	depth := 0
	for j := i; n > 0; n-- {
		s.steps++
		switch o := s.op(j); {
		case o == '<':
			depth++
		case o == opShl:
			depth += 2
		case o == '>':
			depth--
		case o == opShr:
			depth -= 2
		case o == opShr3:
			depth -= 3
		case o == opGE:
			depth--
		case o == ')' || o == ']' || o == '}' || o == ';' || o == opNone:
			return i
		case opens(o):
			j = s.match(j)
		case o == opAnd || o == opOr || o == opInc || o == opDec || o == opNullish || o == '+' || o == '/' || o == '*' || o == '!':
			return i // a type cannot contain these operators
		case o == opText || o == opFatArrow || o == '.':
		}
		j++
		if depth <= 0 {
			return j
		}
	}
	return i
}

// callArguments returns the item after the type arguments of a call that < opens at i, or i
// if < is a comparison.
func (s *scriptItems) callArguments(i int) int {
	if !s.typed {
		return i
	}
	end := s.argumentsEnd(i, ahead)
	if end == i {
		return i
	}
	switch s.op(end) {
	case '(', opText, ')', ']', ',', ';', ':', '}', '.', opOptional, opNone, opEqual, opNullish, opAnd, opOr:
		return end
	}
	if s.lineOf(end) > s.lastLine(end-1) {
		return end
	}
	return i
}

// arrow returns the item of the body of the arrow function whose parameters the bracket i
// opens; 0 if it opens no such parameters. In a ternary, a colon after the brackets is
// taken for the colon of the ternary.
func (s *scriptItems) arrow(i int, ternary bool) int {
	after := s.match(i) + 1
	switch s.op(after) {
	case opFatArrow:
		return after + 1
	case ':':
		if !s.typed {
			return 0
		}
		end := s.typeEnd(after+1, ahead)
		if s.op(end) != opFatArrow || end == after+1 {
			return 0
		}
		if ternary && !s.colonBehind(end+1) {
			return 0
		}
		return end + 1
	}
	return 0
}

// colonBehind reports whether a colon follows the expression that begins at i.
func (s *scriptItems) colonBehind(i int) bool {
	questions := 0
	for range ahead {
		s.steps++
		switch o := s.op(i); {
		case o == opNone || o == ',' || o == ';' || closes(o):
			return false
		case o == '?':
			questions++
		case o == ':':
			if questions == 0 {
				return true
			}
			questions--
		case opens(o):
			i = s.match(i)
		}
		i++
	}
	return false
}

// bodyOf returns the item of the brace of the function whose parameters the bracket i
// opens; 0 for a function without a body.
func (s *scriptItems) bodyOf(i int) int {
	after := s.match(i) + 1
	if s.op(after) == ':' && s.typed {
		after = s.typeEnd(after+1, len(s.items))
	}
	if s.op(after) == '{' && s.match(after) < len(s.items) {
		return after
	}
	return 0
}
