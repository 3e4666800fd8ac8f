package clone

import (
	"cmp"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
)

// Place is the position of a piece of code.
type Place struct {
	Path  string `json:"path" jsonschema:"path from project_path"`
	First int    `json:"first" jsonschema:"first line"`
	Last  int    `json:"last" jsonschema:"last line"`
	Func  string `json:"func,omitempty" jsonschema:"function, if the clone is semantic"`
}

// Clone is code that exists at two or more places.
type Clone struct {
	Kind Kind `json:"kind" jsonschema:"exact, renamed, gapped or semantic"`
	// Similarity is the lowest similarity between the first place and another one, from 0
	// to 1. It is 1 for an exact or a renamed clone. For a gapped clone it is the share of
	// equal tokens in the longer place, and for a semantic clone the Jaccard index of the
	// functions' runs of three tokens.
	Similarity float64 `json:"similarity" jsonschema:"0 to 1; the lowest between the first place and another one"`
	Tokens     int     `json:"tokens" jsonschema:"number of tokens of the first place"`
	Places     []Place `json:"places" jsonschema:"two or more places with this code"`
	PlacesMore int     `json:"places_more,omitempty" jsonschema:"number of further places"`
}

// Share is the part of the code that one kind of clones has.
type Share struct {
	Kind  Kind `json:"kind" jsonschema:"exact, renamed, gapped or semantic"`
	Lines int  `json:"lines" jsonschema:"lines with code that are part of a clone of this kind, and not of a stricter kind"`
}

// Duplicated counts the lines with code of a file, and those of them that are part of a
// clone.
type Duplicated struct {
	Path  string `json:"path" jsonschema:"path from project_path"`
	Lines int    `json:"lines" jsonschema:"lines with code that are part of a clone"`
	Code  int    `json:"code" jsonschema:"lines with code"`
}

// match is a clone of two places, before matches with the same first place are put
// together.
type match struct {
	a, b       span
	similarity float64
}

// builder makes clones of one kind from matches.
type builder struct {
	*row

	kind      Kind
	minLines  int
	functions []function
	matches   []match
	covered   [][]bool // whether a line is part of a match, by file and line from 1
}

// newBuilder returns a builder without matches.
func newBuilder(r *row, kind Kind, minLines int) *builder {
	return &builder{row: r, kind: kind, minLines: minLines, covered: make([][]bool, len(r.files))}
}

// long reports whether both places have enough lines.
func (b *builder) long(x, y span) bool {
	for _, s := range [2]span{x, y} {
		if first, last := b.lines(s.begin, s.end); first == 0 || last-first+1 < b.minLines {
			return false
		}
	}
	return true
}

// keep adds a match if both its places have enough lines.
func (b *builder) keep(x, y span, similarity float64) {
	if b.long(x, y) {
		b.matches = append(b.matches, match{x, y, similarity})
		b.cover(x)
		b.cover(y)
	}
}

// cover records that the lines of a place are part of a match.
func (b *builder) cover(s span) {
	file := b.fileOf(s.begin)
	if b.covered[file] == nil {
		b.covered[file] = make([]bool, b.last[b.begin[file+1]-1]+2)
	}
	first, last := b.lines(s.begin, s.end)
	for line := range b.covered[file][first : last+1] {
		b.covered[file][first+line] = true
	}
}

// clones returns the clones. Matches with the same first place become one clone.
func (b *builder) clones() (all []Clone) {
	slices.SortFunc(b.matches, func(x, y match) int {
		if x.a.begin != y.a.begin {
			return cmp.Compare(x.a.begin, y.a.begin)
		}
		return cmp.Or(cmp.Compare(x.a.end, y.a.end), cmp.Compare(x.b.begin, y.b.begin), cmp.Compare(x.b.end, y.b.end))
	})
	for rest := b.matches; len(rest) > 0; {
		a := rest[0].a
		c := Clone{Kind: b.kind, Similarity: rest[0].similarity, Tokens: a.end - a.begin, Places: []Place{b.place(a)}}
		for ; len(rest) > 0 && rest[0].a == a; rest = rest[1:] {
			c.Similarity = min(c.Similarity, rest[0].similarity)
			if p := b.place(rest[0].b); !c.meets(p) {
				c.Places = append(c.Places, p)
			}
		}
		if len(c.Places) > 1 {
			all = append(all, c)
		}
	}
	return all
}

// bySize sorts clones, those with the most tokens in all their later places first, and
// returns them.
func bySize(all []Clone) []Clone {
	size := func(c *Clone) int { return c.Tokens * (len(c.Places) - 1) }
	order.By(all, func(c, d *Clone) int {
		if x, y := size(c), size(d); x != y {
			return cmp.Compare(y, x)
		}
		p, q := &c.Places[0], &d.Places[0]
		return cmp.Or(
			strings.Compare(p.Path, q.Path), cmp.Compare(p.First, q.First), cmp.Compare(p.Last, q.Last),
			strings.Compare(string(c.Kind), string(d.Kind)),
		)
	})
	return all
}

// meets reports whether a place shares lines with the first or the last place of the clone.
// Code that repeats itself is a clone of itself at each step, and each of these places
// would report the same.
func (c *Clone) meets(p Place) bool {
	for _, have := range []Place{c.Places[0], c.Places[len(c.Places)-1]} {
		if have.Path == p.Path && have.First <= p.Last && p.First <= have.Last {
			return true
		}
	}
	return false
}

// place returns the place of tokens of the row.
func (b *builder) place(s span) Place {
	first, last := b.lines(s.begin, s.end)
	p := Place{Path: b.files[b.fileOf(s.begin)].Path, First: first, Last: last}
	if b.kind == Semantic {
		if i, ok := slices.BinarySearchFunc(b.functions, s, func(f function, s span) int {
			return cmp.Or(cmp.Compare(f.begin, s.begin), cmp.Compare(s.end, f.end))
		}); ok {
			p.Func = b.functions[i].label
		}
	}
	return p
}

// duplicated returns the files with lines in a clone, and the numbers of these lines, of
// all lines with code, and for each kind of the lines that no stricter kind has.
func (r *row) duplicated(of []*builder) (files []Duplicated, lines, total int, shares []int) {
	shares = make([]int, len(of))
	var has []bool
	for i, f := range r.files {
		begin, end := r.begin[i], r.begin[i+1]
		if begin == end {
			continue
		}
		has = slices.Grow(has[:0], int(r.last[end-1])+2)[:int(r.last[end-1])+2]
		clear(has)
		for at := begin; at < end; at++ {
			if r.canon[at] == indent || r.canon[at] == dedent {
				continue
			}
			for line := r.line[at]; line <= r.last[at]; line++ {
				has[line] = true
			}
		}
		d := Duplicated{Path: f.Path}
		for line, counted := range has {
			if !counted {
				continue
			}
			d.Code++
			if kind := slices.IndexFunc(of, func(b *builder) bool { return b.covered[i] != nil && b.covered[i][line] }); kind >= 0 {
				d.Lines++
				shares[kind]++
			}
		}
		lines += d.Lines
		total += d.Code
		if d.Lines > 0 {
			files = append(files, d)
		}
	}
	order.By(files, func(x, y *Duplicated) int {
		return cmp.Or(cmp.Compare(y.Lines, x.Lines), strings.Compare(x.Path, y.Path))
	})
	return files, lines, total, shares
}

// cutList returns the first maxClones clones of a list, with a gap if there are more.
func cutList(all []Clone) ([]Clone, []code.Gap) {
	if len(all) <= maxClones {
		return all, nil
	}
	return all[:maxClones:maxClones], []code.Gap{{Field: "clones", Reason: "there are more clones than are listed; the largest ones are listed, and the numbers of lines count all"}}
}
