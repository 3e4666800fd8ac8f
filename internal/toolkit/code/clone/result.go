package clone

import (
	"cmp"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code"
)

// Place is where a piece of code stands.
type Place struct {
	Path  string `json:"path" jsonschema:"path from project_path"`
	First int    `json:"first" jsonschema:"first line"`
	Last  int    `json:"last" jsonschema:"last line"`
	Func  string `json:"func,omitempty" jsonschema:"of a semantic clone: its function"`
}

// Clone is code that exists at two places or more.
type Clone struct {
	Kind Kind `json:"kind" jsonschema:"exact, renamed, gapped or semantic"`
	// Similarity is the lowest that was measured between the first place and another
	// one, from 0 to 1. Of an exact or a renamed clone it is 1. Of a gapped one it is
	// the share of equal tokens in the longer place, of a semantic one the Jaccard
	// index of the functions' runs of three tokens.
	Similarity float64 `json:"similarity" jsonschema:"0 to 1, the lowest between the first place and another"`
	Tokens     int     `json:"tokens" jsonschema:"of the first place"`
	Places     []Place `json:"places" jsonschema:"two or more"`
	PlacesMore int     `json:"places_more,omitempty" jsonschema:"places beyond those"`
}

// Share is how much of the code one kind of clones has.
type Share struct {
	Kind  Kind `json:"kind" jsonschema:"exact, renamed, gapped or semantic"`
	Lines int  `json:"lines" jsonschema:"lines with code that are part of such a clone, and of none of a stricter kind"`
}

// Duplicated counts the lines with code of a file, and those of them that are part of a
// clone.
type Duplicated struct {
	Path  string `json:"path" jsonschema:"path from project_path"`
	Lines int    `json:"lines" jsonschema:"lines with code that are part of a clone"`
	Code  int    `json:"code" jsonschema:"lines with code"`
}

// match is a clone of two places before places are put together.
type match struct {
	kind       Kind
	a, b       span
	similarity float64
}

// builder makes a result of matches.
type builder struct {
	*row

	minLines  int
	functions []function
	matches   []match
	covered   [][]uint8 // of each file and line, from 1: the rank of the strictest clone that has it
}

// newBuilder makes a builder without matches.
func newBuilder(r *row, minLines int) *builder {
	b := &builder{row: r, minLines: minLines, covered: make([][]uint8, len(r.files))}
	return b
}

// long reports whether both places have enough lines.
func (b *builder) long(x, y span) bool {
	for _, s := range []span{x, y} {
		if first, last := b.lines(s.begin, s.end); first == 0 || last-first+1 < b.minLines {
			return false
		}
	}
	return true
}

// add keeps a match.
func (b *builder) add(m match) {
	b.matches = append(b.matches, m)
	b.cover(m.a, m.kind.rank())
	b.cover(m.b, m.kind.rank())
}

// cover notes the lines of a place of a clone.
func (b *builder) cover(s span, rank uint8) {
	file := b.fileOf(s.begin)
	if b.covered[file] == nil {
		end := b.begin[file+1]
		b.covered[file] = make([]uint8, b.last[end-1]+2)
	}
	first, last := b.lines(s.begin, s.end)
	for line := first; line <= last; line++ {
		if have := b.covered[file][line]; have == 0 || rank < have {
			b.covered[file][line] = rank
		}
	}
}

// clones puts matches with the same first place together, and sorts the clones: the ones
// with the most tokens in all their later places first.
func (b *builder) clones() []Clone {
	slices.SortFunc(b.matches, func(x, y match) int {
		return cmp.Or(cmp.Compare(x.kind.rank(), y.kind.rank()), cmp.Compare(x.a.begin, y.a.begin), cmp.Compare(x.a.end, y.a.end), cmp.Compare(x.b.begin, y.b.begin), cmp.Compare(x.b.end, y.b.end))
	})
	var all []Clone
	for i, m := range b.matches {
		if i == 0 || b.matches[i-1].kind != m.kind || b.matches[i-1].a != m.a {
			all = append(all, Clone{Kind: m.kind, Similarity: m.similarity, Tokens: m.a.end - m.a.begin, Places: []Place{b.place(m.kind, m.a)}})
		}
		c := &all[len(all)-1]
		c.Similarity = min(c.Similarity, m.similarity)
		if p := b.place(m.kind, m.b); !c.overlaps(p) {
			c.Places = append(c.Places, p)
		}
	}
	order := make([]*Clone, 0, len(all)) // a clone is large to move
	for i := range all {
		if len(all[i].Places) > 1 {
			order = append(order, &all[i])
		}
	}
	slices.SortStableFunc(order, func(x, y *Clone) int {
		p, q := &x.Places[0], &y.Places[0]
		return cmp.Or(
			cmp.Compare(y.Tokens*(len(y.Places)-1), x.Tokens*(len(x.Places)-1)),
			strings.Compare(p.Path, q.Path), cmp.Compare(p.First, q.First), cmp.Compare(p.Last, q.Last),
			strings.Compare(string(x.Kind), string(y.Kind)),
		)
	})
	sorted := make([]Clone, len(order))
	for i, c := range order {
		sorted[i] = *c
	}
	return sorted
}

// overlaps reports whether lines of a place are part of another place of the clone: code
// that repeats itself is a clone of itself at each step, and each of these places would
// say the same.
func (c *Clone) overlaps(p Place) bool {
	for _, have := range []Place{c.Places[0], c.Places[len(c.Places)-1]} {
		if have.Path == p.Path && have.First <= p.Last && p.First <= have.Last {
			return true
		}
	}
	return false
}

// place describes tokens of the row.
func (b *builder) place(kind Kind, s span) Place {
	first, last := b.lines(s.begin, s.end)
	p := Place{Path: b.files[b.fileOf(s.begin)].Path, First: first, Last: last}
	if kind == Semantic {
		if i, ok := slices.BinarySearchFunc(b.functions, s, func(f function, s span) int {
			return cmp.Or(cmp.Compare(f.begin, s.begin), cmp.Compare(s.end, f.end))
		}); ok {
			p.Func = b.functions[i].label
		}
	}
	return p
}

// duplicated returns the files that have a part in a clone, and counts the lines with
// code of all files, and those of each rank.
func (b *builder) duplicated() (files []Duplicated, lines, total int, ranks [5]int) {
	var has []bool
	for i, f := range b.files {
		begin, end := b.begin[i], b.begin[i+1]
		if begin == end {
			continue
		}
		has = slices.Grow(has[:0], int(b.last[end-1])+2)[:int(b.last[end-1])+2]
		clear(has)
		for at := begin; at < end; at++ {
			if b.canon[at] == indent || b.canon[at] == dedent {
				continue
			}
			for line := b.line[at]; line <= b.last[at]; line++ {
				has[line] = true
			}
		}
		d := Duplicated{Path: f.Path}
		for line, counted := range has {
			if !counted {
				continue
			}
			d.Code++
			if b.covered[i] == nil {
				continue
			}
			if rank := b.covered[i][line]; rank > 0 {
				d.Lines++
				ranks[rank]++
			}
		}
		lines += d.Lines
		total += d.Code
		if d.Lines > 0 {
			files = append(files, d)
		}
	}
	slices.SortStableFunc(files, func(x, y Duplicated) int {
		return cmp.Or(cmp.Compare(y.Lines, x.Lines), strings.Compare(x.Path, y.Path))
	})
	return files, lines, total, ranks
}

// cutList keeps the first clones of a list that is too long.
func cutList(all []Clone) ([]Clone, []code.Gap) {
	if len(all) <= maxClones {
		return all, nil
	}
	return all[:maxClones:maxClones], []code.Gap{{Field: "clones", Reason: "there are more than are listed: the largest ones are, and all are counted in the lines"}}
}
