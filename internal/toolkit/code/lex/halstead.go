package lex

import (
	"hash/maphash"
	"slices"
	"sync"

	"belljar.dev/internal/toolkit/code"
)

// overlap is how often a token may be counted on average. A token is counted for each of
// the functions around it.
const overlap = MaxFuncDepth

// Halstead counts the operators and operands of each function of a file by its tokens:
// names, numbers and strings are operands; keywords, operators and brackets are operators.
// A pair of brackets is one operator. Two operators or operands are the same if their texts
// are equal. Halstead takes a quarter of the time of Parse, and few analyses need it.
func Halstead(f *code.File) {
	if f.Counted {
		return
	}
	f.Counted = true
	if len(f.Funcs) == 0 || f.Language == code.Shell {
		return
	}
	w, ok := allWords.Get().(*words)
	if !ok {
		w = &words{operands: newWordTable(), operators: newWordTable()}
	}
	w.number(f)
	left := overlap * len(f.Tokens)
	for i := range f.Funcs {
		fn := &f.Funcs[i]
		if left -= fn.End - fn.Start; left < 0 {
			gap(f, "halstead", "too many functions are nested in each other")
			break
		}
		fn.Halstead = w.count(int32(i)+1, fn.Start, fn.End)
	}
	if w.operands.reusable() && w.operators.reusable() && cap(w.of) <= maxScratch {
		allWords.Put(w)
	}
}

// allWords contains counters that no file uses now, for reuse.
var allWords sync.Pool // contains *words

// words numbers the distinct words of a file, so that no function needs a table of
// its own.
type words struct {
	of                  []int32 // for each token of a function: n for operand n, -n for operator n, 0 for other tokens
	operands, operators wordTable
	single              [256]int32 // numbers of the operators of one byte, which most operators are
}

// number gives each distinct word of the file's functions a number.
func (w *words) number(f *code.File) {
	w.of = slices.Grow(w.of[:0], len(f.Tokens))[:len(f.Tokens)]
	w.operands.begin()
	w.operators.begin()
	clear(w.single[:])
	start, end := 0, 0 // range of the tokens of the functions so far
	for i := range f.Funcs {
		fn := &f.Funcs[i]
		if fn.Start < start {
			end = fn.Start
		}
		w.numberIn(f, max(fn.Start, end), fn.End)
		start, end = fn.Start, max(end, fn.End)
	}
	w.operands.end()
	w.operators.end()
}

// numberIn gives numbers to the words of the tokens from start to end.
func (w *words) numberIn(f *code.File, start, end int) {
	for i := start; i < end; i++ {
		t := f.Tokens[i]
		n := int32(0)
		switch t.Kind {
		case code.Name, code.Number, code.String:
			n = w.operands.number(f.Text, t)
		case code.Operator, code.Keyword:
			if t.End-t.Start > 1 {
				n = -w.operators.number(f.Text, t)
				break
			}
			switch first := f.Text[t.Start:t.End]; first {
			case ")", "]", "}", "":
			default:
				if n = w.single[first[0]]; n == 0 {
					n = -w.operators.number(f.Text, t)
					w.single[first[0]] = n
				}
			}
		case code.Comment, code.Newline, code.Indent, code.Dedent:
		}
		w.of[i] = n
	}
}

// count counts the words of the tokens from start to end, which belong to the function with
// a number.
func (w *words) count(function int32, start, end int) (h code.Halstead) {
	operands, operators := w.operands.last, w.operators.last
	for _, n := range w.of[start:end] {
		switch {
		case n > 0:
			h.Operands++
			if operands[n] != function {
				operands[n] = function
				h.DistinctOperands++
			}
		case n < 0:
			h.Operators++
			if operators[-n] != function {
				operators[-n] = function
				h.DistinctOperators++
			}
		}
	}
	return h
}

// wordTable numbers the words of one file after another. The numbers continue from file to
// file, so that no slot has to be cleared: a slot with the number of an earlier file is
// free.
type wordTable struct {
	seed  maphash.Seed
	slots []wordSlot // the length is a power of two; half of the slots are free
	base  int32      // last number of the earlier files
	top   int32      // last number of all files
	last  []int32    // for each number after base: the last function in which it was counted
}

// wordSlot is a word of the text.
type wordSlot struct {
	hash       uint32
	start, end int32
	number     int32
}

// maxWordSlots is the size of the largest table that is reused, and maxWords the largest
// number in it.
const (
	maxWordSlots = 1 << 14
	maxWords     = 1 << 30
)

func newWordTable() wordTable {
	return wordTable{seed: maphash.MakeSeed(), slots: make([]wordSlot, 1<<10)}
}

// reusable reports whether the table may be used for another file.
func (t *wordTable) reusable() bool { return len(t.slots) <= maxWordSlots && t.top < maxWords }

// begin prepares the table for the words of another file.
func (t *wordTable) begin() { t.base = t.top }

// end prepares the table for counting the words that have numbers.
func (t *wordTable) end() {
	n := int(t.top-t.base) + 1
	t.last = slices.Grow(t.last[:0], n)[:n]
	clear(t.last)
}

// number returns the number of a token's word, from 1.
func (t *wordTable) number(text string, of code.Token) int32 {
	word := text[of.Start:of.End]
	h := uint32(maphash.String(t.seed, word))
	s := t.find(h, word, text)
	if s.number <= t.base {
		if 2*int(t.top-t.base) >= len(t.slots) {
			t.grow(text)
			s = t.find(h, word, text)
		}
		t.top++
		*s = wordSlot{h, of.Start, of.End, t.top}
	}
	return s.number - t.base
}

// find returns the slot of a word, or the free slot where the word belongs.
func (t *wordTable) find(h uint32, word, text string) *wordSlot {
	mask := uint32(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.number <= t.base || s.hash == h && text[s.start:s.end] == word {
			return s
		}
	}
}

// grow doubles the number of slots.
func (t *wordTable) grow(text string) {
	old := t.slots
	t.slots = make([]wordSlot, 2*len(old))
	for _, s := range old {
		if s.number > t.base {
			*t.find(s.hash, text[s.start:s.end], text) = s
		}
	}
}
