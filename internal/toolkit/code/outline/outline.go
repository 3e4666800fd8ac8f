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

// CharsPerToken is how many bytes of text count as one token of a language model. For
// source in English it is about that many; the models' own counts differ.
const CharsPerToken = 4

const (
	maxLine   = 140 // bytes of the line of a symbol
	maxJoined = 8   // lines of a declaration beyond its first
)

// patience is how many symbols in turn may not fit until no more are tried.
const patience = 50

// Outline is a text with the symbols of a project that matter most.
type Outline struct {
	Text      string
	Tokens    int // of the text, at CharsPerToken bytes each
	Symbols   int // that the text has
	Left      int // symbols that it leaves out
	FilesLeft int // files whose symbols it leaves out
}

// Ranked is the functions and types of a project, those that the most depend on first.
type Ranked struct {
	g     *graph.Graph
	files map[string]*code.File
	order []int // nodes
	paths int   // files with symbols
}

// Rank ranks the functions and types of a graph of the kind [graph.Full]. How much depends
// on a symbol is its PageRank over the links between symbols, from the seeds if there are
// any; half of it where other files or packages cannot name the symbol. Tests are left out,
// and what depends on a symbol in them counts a quarter: they use what a project is for, and
// their own helpers most of all. An error is one of ctx.
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

// Map writes the first symbols until the text has as many tokens as are allowed. The text has
// each directory once, the files in it, and of each symbol its line and how it is declared.
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

// ranksOf is how much depends on each node.
func ranksOf(ctx context.Context, g *graph.Graph, seeds []string) ([]float64, error) {
	rest := *g
	rest.Links = slices.DeleteFunc(slices.Clone(g.Links), func(l graph.Link) bool { return inTest(g.Nodes[l.From]) })
	ranks := make([]float64, len(g.Nodes))
	for _, part := range []struct {
		*graph.Graph
		weight float64
	}{{&rest, 1}, {g, 0.25}} {
		m, err := part.Measure(ctx, graph.Want{PageRank: true, Seeds: seeds})
		if err == nil && m.PageRank == nil { // no seed is a node
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

// footer is the last line of an outline that is not complete.
func footer(symbols, files int) string {
	return fmt.Sprintf("(%d more symbols; %d more files)\n", symbols, files)
}

// picker picks symbols as long as there is room.
type picker struct {
	*Ranked

	lines map[string][]string // of each file that was needed
	has   map[string]bool     // directories and files whose line is written
	left  int                 // bytes
	taken []taken
}

// taken is a symbol with its line of text.
type taken struct {
	node int
	line string
}

// take picks a symbol if there is room for it, its file and its directory.
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

// heads are the lines of a directory and of a file in it.
func heads(name string) (dir, file string) {
	return plain(path.Dir(name), maxLine) + "/\n", "  " + plain(path.Base(name), maxLine) + "\n"
}

// declaration returns the source that declares a symbol. The owner of a method stands before
// it, unless the source names the owner. Without source it returns the kind and the name.
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

// linesOf returns the lines of a file; none for one that was not read.
func (p *picker) linesOf(name string) []string {
	lines, known := p.lines[name]
	if f := p.files[name]; !known && f != nil {
		lines = strings.Split(f.Text, "\n")
		p.lines[name] = lines
	}
	return lines
}

// text writes what was picked, by path and line.
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
