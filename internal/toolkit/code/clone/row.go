package clone

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"belljar.dev/internal/toolkit/code"
)

// maxTokens is the maximum number of tokens that are compared. Files beyond it are left
// out, with a gap.
const maxTokens = 1 << 24

// maxPlain is the maximum length of a token, in bytes, that is hashed as a whole. Of a
// longer one, for example a table in a string, only its beginning, its end and its length
// are hashed. Exact matches compare the texts in addition.
const maxPlain = 1 << 12

// Canonical tokens. The other tokens are hashes with the highest bit set.
const (
	anyName    uint32 = 1
	anyLiteral uint32 = 2
	indent     uint32 = 3
	dedent     uint32 = 4
)

// span contains the tokens [begin, end) of a row.
type span struct{ begin, end int }

// pair is a run of n tokens of a row that occurs twice, first at a and later at b.
type pair struct{ a, b, n int }

// row contains the tokens of all files one after another, without comments and line ends.
// The slices from plain to last have an element for each token.
type row struct {
	files []*code.File
	begin []int    // index of each file's first token in the row, and at the end the number of tokens
	plain []uint32 // hashes of the texts
	canon []uint32 // same as plain, but all names are one token, and all literals are one token
	token []int32  // index in the tokens of the file
	line  []int32  // line on which the token begins
	last  []int32  // line on which the token ends

	anchored sync.Once
	anchors  []uint32 // for each token: hash of the anchor that begins at it; set by anchored
}

// newRow reads the tokens of files, in up to workers goroutines.
func newRow(ctx context.Context, files []*code.File, workers int) (*row, []code.Gap) {
	r := &row{begin: []int{0}}
	var gaps []code.Gap
	total := 0
	for _, f := range files {
		n := 0
		for i := range f.Tokens {
			if counts(f.Tokens[i].Kind) {
				n++
			}
		}
		if total+n > maxTokens {
			gaps = append(gaps, code.Gap{Path: f.Path, Field: "clones", Reason: "there are more tokens than can be compared at once; name fewer files"})
			continue
		}
		total += n
		r.files = append(r.files, f)
		r.begin = append(r.begin, total)
	}
	r.plain = make([]uint32, total)
	r.canon = make([]uint32, total)
	r.token = make([]int32, total)
	r.line = make([]int32, total)
	r.last = make([]int32, total)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, min(workers, len(r.files))) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(r.files) || ctx.Err() != nil {
					return
				}
				r.read(i)
			}
		})
	}
	wg.Wait()
	return r, gaps
}

// counts reports whether a token is part of the row. Indents are part of it, because a
// Python program without them is another program.
func counts(k code.Kind) bool { return k != code.Comment && k != code.Newline }

// read fills the part of the row that belongs to a file.
func (r *row) read(file int) {
	f, at := r.files[file], r.begin[file]
	salt := family(f.Language)
	for i, t := range f.Tokens {
		if !counts(t.Kind) {
			continue
		}
		r.token[at], r.line[at], r.last[at] = int32(i), t.Line, t.Line
		text := f.Of(t)
		switch t.Kind {
		case code.Indent:
			r.plain[at], r.canon[at] = indent, indent
		case code.Dedent:
			r.plain[at], r.canon[at] = dedent, dedent
		case code.Name:
			r.plain[at], r.canon[at] = hash(text, salt), anyName
		case code.Number, code.String:
			r.plain[at], r.canon[at] = hash(text, salt), anyLiteral
			if t.Kind == code.String && len(text) > 1 {
				r.last[at] += int32(strings.Count(text, "\n"))
			}
		case code.Operator, code.Keyword, code.Comment, code.Newline: // comments and newlines do not reach this case
			h := hash(text, salt)
			r.plain[at], r.canon[at] = h, h
		}
		at++
	}
}

// family returns a number that keeps tokens of different languages apart. Languages that
// share their syntax share a family.
func family(l code.Language) uint32 {
	switch l {
	case code.JavaScript, code.TypeScript, code.TSX:
		l = code.JavaScript
	case code.C, code.CPP:
		l = code.C
	case code.Go, code.Rust, code.Python, code.Java, code.Shell, code.Other:
	}
	return hash(string(l), 0)
}

// hash returns a hash of a text after FNV-1a, with the highest bit set.
func hash(text string, salt uint32) uint32 {
	h := 2166136261 ^ salt
	if len(text) > maxPlain {
		h ^= uint32(len(text))
		h = hash(text[:maxPlain/2], h)
		text = text[len(text)-maxPlain/2:]
	}
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h ^ h>>15 | 1<<31
}

// text returns the text of the token at an index of the row. file is the file of the token.
func (r *row) text(file, at int) string {
	f := r.files[file]
	return f.Of(f.Tokens[r.token[at]])
}

// fileOf returns the index of the file that a token of the row belongs to.
func (r *row) fileOf(at int) int {
	low, high := 0, len(r.files)
	for high-low > 1 {
		if middle := (low + high) / 2; r.begin[middle] <= at {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// lines returns the first and the last line of tokens of the row, or 0, 0 if they are only
// indents. Indents at either end are skipped, because they stand on lines of other code.
func (r *row) lines(begin, end int) (first, last int) {
	for begin < end && (r.canon[begin] == indent || r.canon[begin] == dedent) {
		begin++
	}
	for begin < end && (r.canon[end-1] == indent || r.canon[end-1] == dedent) {
		end--
	}
	if begin >= end {
		return 0, 0
	}
	return int(r.line[begin]), int(r.last[end-1])
}

// equalTexts returns how many tokens from the beginning of a pair have the same text,
// not only the same hash.
func (r *row) equalTexts(p pair) int {
	fa, fb := r.fileOf(p.a), r.fileOf(p.b)
	for i := range p.n {
		if r.plain[p.a+i] != r.plain[p.b+i] || r.text(fa, p.a+i) != r.text(fb, p.b+i) {
			return i
		}
	}
	return p.n
}

// hasMostOf reports whether s contains at least four fifths of t.
func hasMostOf(s, t span) bool {
	return 5*(min(s.end, t.end)-max(s.begin, t.begin)) >= 4*(t.end-t.begin)
}
