package outline

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar.dev/internal/order"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/graph"
)

// CharsPerToken is the number of bytes of text that count as one token of a language model.
// Source code in English has about this many bytes per token; the models' own counts
// differ.
const CharsPerToken = 4

const (
	maxLine   = 140 // longest line of a symbol, in bytes
	maxJoined = 8   // lines of a declaration after its first that are read
)

// patience is how many symbols in a row may not fit before no more symbols are tried.
const patience = 50

// Outline is a text with the most important symbols of a project.
type Outline struct {
	Text      string
	Tokens    int // number of tokens of the text, at CharsPerToken bytes each
	Symbols   int // number of symbols in the text
	Left      int // number of symbols that are left out
	FilesLeft int // number of files whose symbols are all left out
}

// Ranked is the functions and types of a project, sorted by how much depends on them, the
// highest first.
type Ranked struct {
	g     *graph.Graph
	files map[string]*code.File
	order []int // indexes of the nodes, sorted
	paths int   // number of files with symbols
}

// Rank ranks the functions and types of a graph of the kind [graph.Full] by their PageRank
// over the links between symbols, from the seeds if there are any. The rank of a symbol
// that other files or packages cannot name is halved. Tests are left out. The links from
// tests have a quarter of the weight of other links, because tests use what a project is
// for, and most of all their own helpers. Rank returns an error only if ctx ends.
func Rank(ctx context.Context, files []*code.File, g *graph.Graph, seeds ...string) (*Ranked, error) {
	ranks, err := ranksOf(ctx, g, seeds)
	if err != nil {
		return nil, err
	}
	r := &Ranked{g: g, files: make(map[string]*code.File, len(files))}
	for _, f := range files {
		r.files[f.Path] = f
	}
	all := make(map[string]bool)
	for i, n := range g.Nodes {
		if (n.Kind == "function" || n.Kind == "type") && !inTest(n) {
			r.order = append(r.order, i)
			all[n.Path] = true
			if !n.Exported {
				ranks[i] /= 2
			}
		}
	}
	r.paths = len(all)
	slices.SortFunc(r.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranks[b], ranks[a]), cmp.Compare(a, b))
	})
	return r, nil
}

// Map writes the first symbols until the text has the allowed number of tokens. The text
// contains each directory once, the files in it, and for each symbol its line and its
// declaration.
func (r *Ranked) Map(tokens int) Outline {
	p := picker{Ranked: r, lines: make(map[string][]string), has: make(map[string]bool), left: tokens*CharsPerToken - len(footer(len(r.order), len(r.files)))}
	for failed, i := 0, 0; i < len(r.order) && failed <= patience; i++ {
		if p.take(r.order[i]) {
			failed = 0
		} else {
			failed++
		}
	}
	shown := make(map[string]bool)
	for _, t := range p.taken {
		shown[r.g.Nodes[t.node].Path] = true
	}
	o := Outline{Symbols: len(p.taken), Left: len(r.order) - len(p.taken), FilesLeft: r.paths - len(shown)}
	o.Text = p.text()
	if last := footer(o.Left, o.FilesLeft); o.Left > 0 && len(o.Text)+len(last) <= tokens*CharsPerToken {
		o.Text += last
	}
	o.Tokens = (len(o.Text) + CharsPerToken - 1) / CharsPerToken
	return o
}

// inTest reports whether a node runs only in tests.
func inTest(n graph.Node) bool { return n.Test || code.IsTest(n.Path) }

// ranksOf returns how much depends on each node.
func ranksOf(ctx context.Context, g *graph.Graph, seeds []string) ([]float64, error) {
	rest := *g
	rest.Links = slices.DeleteFunc(slices.Clone(g.Links), func(l graph.Link) bool { return inTest(g.Nodes[l.From]) })
	ranks := make([]float64, len(g.Nodes))
	for _, part := range []struct {
		*graph.Graph
		weight float64
	}{{&rest, 1}, {g, 0.25}} {
		m, err := part.Measure(ctx, graph.Want{PageRank: true, Seeds: seeds})
		if err == nil && m.PageRank == nil { // no seed names a node
			m, err = part.Measure(ctx, graph.Want{PageRank: true})
		}
		if err != nil {
			return nil, err
		}
		for i, rank := range m.PageRank {
			ranks[i] += part.weight * rank
		}
	}
	return ranks, nil
}

// footer returns the last line of an outline that is not complete.
func footer(symbols, files int) string {
	return fmt.Sprintf("(%d more symbols; %d more files)\n", symbols, files)
}

// picker picks symbols as long as they fit.
type picker struct {
	*Ranked

	lines map[string][]string // lines of each file that has been read
	has   map[string]bool     // directories and files that the text contains
	left  int                 // number of bytes that are left
	taken []taken
}

// taken is a symbol with its line of text.
type taken struct {
	node int
	line string
}

// take picks a symbol if the symbol, its file and its directory fit.
func (p *picker) take(i int) bool {
	n := p.g.Nodes[i]
	line := "    " + fmt.Sprint(n.Line, " ", p.declaration(n)) + "\n"
	dir, file := heads(n.Path)
	size := len(line)
	if !p.has[n.Path] {
		size += len(file)
	}
	if d := path.Dir(n.Path) + "/"; !p.has[d] {
		size += len(dir)
	}
	if size > p.left {
		return false
	}
	p.left -= size
	p.has[n.Path], p.has[path.Dir(n.Path)+"/"] = true, true
	p.taken = append(p.taken, taken{i, line})
	return true
}

// heads returns the line of a directory and the line of a file in it.
func heads(name string) (dir, file string) {
	return plain(path.Dir(name), maxLine) + "/\n", "  " + plain(path.Base(name), maxLine) + "\n"
}

// declaration returns the source that declares a symbol. The owner of a method stands
// before the source, unless the source contains the owner's name. If the source is not
// known, declaration returns the kind and the name.
func (p *picker) declaration(n graph.Node) string {
	text := ""
	if lines := p.linesOf(n.Path); n.Line >= 1 && n.Line <= len(lines) {
		text = strings.TrimSpace(lines[n.Line-1])
		for _, next := range lines[n.Line:min(len(lines), n.Line+maxJoined)] {
			if text == "" || len(text) > maxLine || !strings.ContainsAny(text[len(text)-1:], "([<,=") {
				break
			}
			if next = strings.TrimSpace(next); strings.HasPrefix(next, "//") {
				continue
			}
			if strings.ContainsAny(text[len(text)-1:], ",=") {
				text += " "
			}
			text += next
		}
		text = strings.ReplaceAll(text, ", )", ")")
		if i := strings.LastIndex(text, "{"); i > 0 && strings.TrimSpace(text[i:]) == "{" {
			text = strings.TrimSpace(text[:i])
		}
	}
	if text == "" {
		return plain(n.Kind+" "+n.Name, maxLine)
	}
	if owner := strings.Trim(n.Name[:max(0, strings.LastIndexAny(n.Name, ".:"))], "(*):"); !strings.Contains(text, owner) {
		text = owner + ": " + text
	}
	return plain(text, maxLine)
}

// linesOf returns the lines of a file; nil for a file that was not read.
func (p *picker) linesOf(name string) []string {
	lines, known := p.lines[name]
	if f := p.files[name]; !known && f != nil {
		lines = strings.Split(f.Text, "\n")
		p.lines[name] = lines
	}
	return lines
}

// text returns the picked symbols, by path and line.
func (p *picker) text() string {
	order.By(p.taken, func(a, b *taken) int {
		x, y := &p.g.Nodes[a.node], &p.g.Nodes[b.node]
		return cmp.Or(cmp.Compare(path.Dir(x.Path), path.Dir(y.Path)), cmp.Compare(x.Path, y.Path), cmp.Compare(x.Line, y.Line), cmp.Compare(a.node, b.node))
	})
	var out strings.Builder
	dir, file := "", ""
	for _, t := range p.taken {
		n := p.g.Nodes[t.node]
		inDir, inFile := heads(n.Path)
		if d := path.Dir(n.Path) + "/"; d != dir {
			out.WriteString(inDir)
			dir = d
		}
		if n.Path != file {
			out.WriteString(inFile)
			file = n.Path
		}
		out.WriteString(t.line)
	}
	return out.String()
}
