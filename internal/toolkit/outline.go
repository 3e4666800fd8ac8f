package toolkit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
)

// perToken is how many characters count as a token: the mean of common tokenizers over
// source code is between three and four.
const perToken = 4

// symbol is a declaration with how much of the project depends on it.
type symbol struct {
	file *code.File
	line int
	text string
	rank float64
}

// outline is the map of a project: its declarations, those first on which most depends,
// as many as fit. Within the map they stand by file and line.
func (r *reading) outline(characters int) (text string, leftOut int) {
	g := r.graphOf(graph.Full)
	if g == nil {
		return "", 0
	}
	done := r.stage("map")
	defer done()
	m, err := g.Measure(r.ctx, graph.Want{PageRank: true})
	if err != nil {
		r.lacks(over("map"))
		return "", 0
	}
	all := symbolsOf(r.files, g, m.PageRank)
	kept, used, dirs := 0, 0, map[*code.File]bool{}
	for _, s := range all {
		cost := utf8.RuneCountInString(s.text) + 1
		if !dirs[s.file] {
			cost += utf8.RuneCountInString(s.file.Path) + 2
		}
		if used+cost > characters {
			break
		}
		dirs[s.file] = true
		used += cost
		kept++
	}
	chosen := all[:kept]
	slices.SortStableFunc(chosen, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.file.Path, b.file.Path), cmp.Compare(a.line, b.line))
	})
	var b strings.Builder
	var last *code.File
	for _, s := range chosen {
		if s.file != last {
			fmt.Fprintf(&b, "%s:\n", shown(s.file.Path))
			last = s.file
		}
		b.WriteString(s.text + "\n")
	}
	return b.String(), len(all) - kept
}

// symbolsOf are the functions and types outside of tests, the highest rank first.
func symbolsOf(files []*code.File, g *graph.Graph, ranks []float64) (all []symbol) {
	type place struct {
		path string
		line int
	}
	rank := make(map[place]float64, len(ranks))
	for i, v := range ranks {
		rank[place{g.Nodes[i].Path, g.Nodes[i].Line}] += v
	}
	for _, f := range files {
		for i := range f.Funcs {
			fn := &f.Funcs[i]
			if !fn.Test && !isTest(f.Path) {
				all = append(all, symbol{f, fn.First, fmt.Sprintf(" %d %s", fn.First, signature(f, fn)), rank[place{f.Path, fn.Line}]})
			}
		}
		for _, t := range f.Types {
			if !isTest(f.Path) {
				all = append(all, symbol{f, t.First, fmt.Sprintf(" %d %s %s", t.First, cmp.Or(t.Kind, "type"), shown(t.Name)), rank[place{f.Path, t.Line}]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.file.Path, b.file.Path), cmp.Compare(a.line, b.line))
	})
	return all
}

// isTest reports whether a file runs only in tests, by its name.
func isTest(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "test_") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.")
}

// maxSignature is how many bytes of a function's head a map has.
const maxSignature = 120

// signature is the head of a function on one line: what stands before its body.
func signature(f *code.File, fn *code.Func) string {
	if fn.Start >= fn.End || fn.End > len(f.Tokens) {
		return shown(fn.Label)
	}
	from := int(f.Tokens[fn.Start].Start)
	head := f.Text[from:min(len(f.Text), from+maxSignature+1)]
	for i, t := range f.Tokens[fn.Start:fn.End] {
		if i > 0 && int(t.Start) >= from+len(head) {
			break
		}
		if s := f.Of(t); s == "{" || s == ":" && f.Language == code.Python && f.Tokens[fn.Start+i].Line == f.Tokens[fn.Start].Line && depth(f, fn.Start, fn.Start+i) == 0 {
			head = f.Text[from:t.Start]
			break
		}
	}
	head = strings.Join(strings.Fields(head), " ")
	if len(head) > maxSignature {
		head = clip(head, maxSignature)
	}
	return shown(head)
}

// depth is how many brackets are open at a token.
func depth(f *code.File, from, at int) (open int) {
	for _, t := range f.Tokens[from:at] {
		switch f.Of(t) {
		case "(", "[", "{":
			open++
		case ")", "]", "}":
			open--
		}
	}
	return open
}
