package cache

import (
	"encoding/binary"

	"belljar.dev/internal/toolkit/code"
)

// encode returns what was read of a file, except its path, language and text, by which the
// entry is found.
func encode(f *code.File) []byte {
	w := writer{make([]byte, 0, 3*len(f.Tokens)+64*len(f.Funcs)+256)}
	w.number(len(f.Tokens))
	end, line := int32(0), int32(0)
	for _, t := range f.Tokens {
		w.number(int(t.Start - end))
		w.number(int(t.End-t.Start)<<4 | int(t.Kind))
		w.number(int(t.Line - line))
		end, line = t.End, t.Line
	}
	w.numbers(f.Lines.Code, f.Lines.Comment, f.Lines.Blank, len(f.Funcs))
	for i := range f.Funcs {
		w.function(&f.Funcs[i])
	}
	for _, all := range [][]code.Symbol{f.Types, f.Vars} {
		w.number(len(all))
		for i := range all {
			w.symbol(&all[i])
		}
	}
	w.number(len(f.Imports))
	for _, im := range f.Imports {
		w.text(im.Path)
		w.text(im.Name)
		w.number(im.Line)
		w.texts(im.Used)
	}
	w.number(len(f.Gaps))
	for _, g := range f.Gaps {
		w.text(g.Path)
		w.text(g.Field)
		w.text(g.Reason)
	}
	w.flag(f.Counted)
	return w.b
}

// decode is the opposite of encode. It reports whether the bytes fit the text of f: tokens,
// functions and symbols lie within the text.
func decode(bytes []byte, f *code.File) bool {
	r := reader{rest: string(bytes), limit: len(f.Text) + 1}
	if n := r.count(); n > 0 {
		f.Tokens = make([]code.Token, n)
	}
	end, line := 0, 0
	for i := range f.Tokens {
		start := end + r.number()
		size := r.number()
		line += r.number()
		end = start + size>>4
		if end > len(f.Text) || line > r.limit || size&15 > int(code.Dedent) {
			return false
		}
		f.Tokens[i] = code.Token{Start: int32(start), End: int32(end), Line: int32(line), Kind: code.Kind(size & 15)}
	}
	f.Lines = code.Lines{Code: r.number(), Comment: r.number(), Blank: r.number()}
	if n := r.count(); n > 0 {
		f.Funcs = make([]code.Func, n)
	}
	for i := range f.Funcs {
		r.function(&f.Funcs[i], len(f.Tokens))
	}
	for _, all := range []*[]code.Symbol{&f.Types, &f.Vars} {
		if n := r.count(); n > 0 {
			*all = make([]code.Symbol, n)
		}
		for i := range *all {
			r.symbol(&(*all)[i])
		}
	}
	if n := r.count(); n > 0 {
		f.Imports = make([]code.Import, n)
	}
	for i := range f.Imports {
		f.Imports[i] = code.Import{Path: r.text(), Name: r.text(), Line: r.number(), Used: r.texts()}
	}
	if n := r.count(); n > 0 {
		f.Gaps = make([]code.Gap, n)
	}
	for i := range f.Gaps {
		f.Gaps[i] = code.Gap{Path: r.text(), Field: r.text(), Reason: r.text()}
	}
	f.Counted = r.number() == 1
	return !r.bad && r.rest == ""
}

// writer appends values in a form that a reader can read.
type writer struct{ b []byte }

// number appends a number. A reader rejects a negative number, which no file has.
func (w *writer) number(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }

func (w *writer) numbers(all ...int) {
	for _, n := range all {
		w.number(n)
	}
}

func (w *writer) text(s string) {
	w.number(len(s))
	w.b = append(w.b, s...)
}

func (w *writer) texts(all []string) {
	w.number(len(all))
	for _, s := range all {
		w.text(s)
	}
}

func (w *writer) flag(is bool) {
	if is {
		w.number(1)
	} else {
		w.number(0)
	}
}

func (w *writer) symbol(s *code.Symbol) {
	w.text(s.Name)
	w.text(s.Owner)
	w.text(s.Kind)
	w.numbers(s.Line, s.First, s.Last)
	w.flag(s.Exported)
	w.texts(s.Bases)
}

func (w *writer) function(fn *code.Func) {
	w.symbol(&fn.Symbol)
	w.text(fn.Label)
	h := fn.Halstead
	w.numbers(fn.Start, fn.End, fn.Params, fn.Nesting, fn.Cyclomatic, fn.Cognitive, h.Operators, h.Operands, h.DistinctOperators, h.DistinctOperands, len(fn.Calls))
	for _, c := range fn.Calls {
		w.text(c.Name)
		w.text(c.Of)
		w.numbers(c.Line, c.Token)
	}
	w.flag(fn.Test)
}

// reader reads what a writer has written. After a mistake it reads zeros.
type reader struct {
	rest  string
	limit int // largest line number: the size of the text in bytes, plus 1
	bad   bool
}

func (r *reader) fail() int {
	r.rest, r.bad = "", true
	return 0
}

// number reads a number, which must be below 1<<40: no file has larger ones.
func (r *reader) number() int {
	const most = 1 << 40
	n := uint64(0)
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		c := r.rest[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if n >= most {
				return r.fail()
			}
			r.rest = r.rest[i+1:]
			return int(n)
		}
	}
	return r.fail()
}

// count reads the length of a list or a text. It is at most the number of bytes that
// remain, since each member takes at least one byte.
func (r *reader) count() int {
	n := r.number()
	if n > len(r.rest) {
		return r.fail()
	}
	return n
}

// text reads a text, which shares the memory of the entry.
func (r *reader) text() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) texts() (all []string) {
	for range r.count() {
		all = append(all, r.text())
	}
	return all
}

// below reads a number that is at most a limit.
func (r *reader) below(limit int) int {
	n := r.number()
	if n > limit {
		return r.fail()
	}
	return n
}

func (r *reader) symbol(s *code.Symbol) {
	s.Name, s.Owner, s.Kind = r.text(), r.text(), r.text()
	s.Line, s.First, s.Last = r.below(r.limit), r.below(r.limit), r.below(r.limit)
	s.Exported = r.number() == 1
	s.Bases = r.texts()
}

func (r *reader) function(fn *code.Func, tokens int) {
	r.symbol(&fn.Symbol)
	fn.Label = r.text()
	fn.Start, fn.End = r.below(tokens), r.below(tokens)
	if fn.Start > fn.End {
		r.fail()
	}
	fn.Params, fn.Nesting, fn.Cyclomatic, fn.Cognitive = r.number(), r.number(), r.number(), r.number()
	fn.Halstead = code.Halstead{Operators: r.number(), Operands: r.number(), DistinctOperators: r.number(), DistinctOperands: r.number()}
	if n := r.count(); n > 0 {
		fn.Calls = make([]code.Call, n)
	}
	for i := range fn.Calls {
		fn.Calls[i] = code.Call{Name: r.text(), Of: r.text(), Line: r.below(r.limit), Token: r.below(max(0, tokens-1))}
	}
	fn.Test = r.number() == 1
}
