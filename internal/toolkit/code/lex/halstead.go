package lex

import "belljar.dev/internal/toolkit/code"

// overlap is how often a token may be counted on average, for it belongs to each of
// the functions around it.
const overlap = MaxFuncDepth

// countHalstead counts the operators and operands of each function of a file by its
// tokens: names, numbers and strings are operands; keywords, operators and brackets
// are operators. A pair of brackets is one operator. Two are the same where their
// texts are.
func countHalstead(f *code.File) {
	if len(f.Funcs) == 0 {
		return
	}
	w := &words{of: make([]int32, len(f.Tokens))}
	w.number(f)
	left := overlap * len(f.Tokens)
	for i := range f.Funcs {
		fn := &f.Funcs[i]
		if left -= fn.End - fn.Start; left < 0 {
			gap(f, "halstead", "too many functions are nested in each other")
			return
		}
		fn.Halstead = w.count(int32(i)+1, fn.Start, fn.End)
	}
}

// words numbers the distinct words of a file, so that no function needs a table of
// its own.
type words struct {
	of        []int32 // for each token: n for operand n, -n for operator n, 0 for neither
	operands  []int32 // for each operand: the last function in which it was counted
	operators []int32
}

// numbers are those of the words so far.
type numbers struct {
	operands, operators map[string]int32
	single              [256]int32 // operators of one byte, which are most of them
}

// number gives each distinct word of the file's functions a number.
func (w *words) number(f *code.File) {
	n := numbers{operands: make(map[string]int32), operators: make(map[string]int32)}
	start, end := 0, 0 // of the functions so far, which begin one behind the other
	for i := range f.Funcs {
		fn := &f.Funcs[i]
		if fn.Start < start {
			end = fn.Start
		}
		w.numberIn(f, max(fn.Start, end), fn.End, &n)
		start, end = fn.Start, max(end, fn.End)
	}
	w.operands, w.operators = make([]int32, len(n.operands)+1), make([]int32, len(n.operators)+1)
}

// numberIn gives the words of some tokens their numbers.
func (w *words) numberIn(f *code.File, start, end int, of *numbers) {
	for i := start; i < end; i++ {
		t := f.Tokens[i]
		switch t.Kind {
		case code.Name, code.Number, code.String:
			word := f.Of(t)
			n, ok := of.operands[word]
			if !ok {
				n = int32(len(of.operands)) + 1
				of.operands[word] = n
			}
			w.of[i] = n
		case code.Operator, code.Keyword:
			var first byte
			if t.End-t.Start == 1 {
				if first = f.Text[t.Start]; first == ')' || first == ']' || first == '}' {
					continue
				}
				if of.single[first] != 0 {
					w.of[i] = -of.single[first]
					continue
				}
			}
			word := f.Of(t)
			n, ok := of.operators[word]
			if !ok {
				n = int32(len(of.operators)) + 1
				of.operators[word] = n
			}
			if t.End-t.Start == 1 {
				of.single[first] = n
			}
			w.of[i] = -n
		case code.Comment, code.Newline, code.Indent, code.Dedent:
		}
	}
}

// count counts the words of the tokens from start to end, which belong to a function
// with a number of its own.
func (w *words) count(function int32, start, end int) (h code.Halstead) {
	for _, n := range w.of[start:end] {
		switch {
		case n > 0:
			h.Operands++
			if w.operands[n] != function {
				w.operands[n] = function
				h.DistinctOperands++
			}
		case n < 0:
			h.Operators++
			if w.operators[-n] != function {
				w.operators[-n] = function
				h.DistinctOperators++
			}
		}
	}
	return h
}
