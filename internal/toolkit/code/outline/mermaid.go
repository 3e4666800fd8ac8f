package outline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"belljar.dev/internal/toolkit/code/graph"
)

// Limits of a diagram. Mermaid itself refuses more than 500 links and 50,000 characters.
const (
	MaxDiagramNodes = 200
	maxDiagramLinks = 500
	maxDiagram      = 48_000
	maxLabel        = 80
)

// Diagram is a graph as text for Mermaid.
type Diagram struct {
	Text      string
	Nodes     int // number of nodes in the diagram
	NodesLeft int // number of nodes that are left out
	Links     int // number of links in the diagram
	LinksLeft int // number of links of the graph that are left out
}

// Mermaid draws the nodes of a graph with the highest PageRank, at most the given number,
// and the links between them. A broken line is a link that is not certain. Mermaid returns
// an error only if ctx ends.
func Mermaid(ctx context.Context, g *graph.Graph, nodes int) (Diagram, error) {
	m, err := g.Measure(ctx, graph.Want{PageRank: true})
	if err != nil {
		return Diagram{}, err
	}
	order := make([]int, len(g.Nodes))
	linked := make([]bool, len(g.Nodes))
	for i := range order {
		order[i] = i
	}
	for _, l := range g.Links {
		linked[l.From], linked[l.To] = true, true
	}
	slices.SortFunc(order, func(a, b int) int {
		if linked[a] != linked[b] { // a node without links is the least useful
			if linked[a] {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(m.PageRank[b], m.PageRank[a]), cmp.Compare(a, b))
	})
	order = order[:max(0, min(len(order), nodes, MaxDiagramNodes))]
	slices.Sort(order)
	d := Diagram{}
	name := make(map[int]int) // number in the diagram of each node
	var out strings.Builder
	out.WriteString("flowchart LR\n")
	for _, v := range order {
		line := fmt.Sprintf("  n%d[\"%s\"]\n", d.Nodes, label(g.Nodes[v]))
		if out.Len()+len(line) > maxDiagram {
			break
		}
		name[v] = d.Nodes
		d.Nodes++
		out.WriteString(line)
	}
	for _, l := range g.Links {
		from, ok := name[l.From]
		to, ok2 := name[l.To]
		arrow := "-->"
		if l.Sure != graph.Certain {
			arrow = "-.->"
		}
		line := fmt.Sprintf("  n%d %s n%d\n", from, arrow, to)
		if !ok || !ok2 || d.Links == maxDiagramLinks || out.Len()+len(line) > maxDiagram {
			d.LinksLeft++
			continue
		}
		d.Links++
		out.WriteString(line)
	}
	d.NodesLeft = len(g.Nodes) - d.Nodes
	d.Text = out.String()
	return d, nil
}

// label returns the name of a node for a diagram. No character of it ends the label or is
// read as HTML or Markdown. Mermaid reads #35; as the character with that number.
func label(n graph.Node) string {
	var out strings.Builder
	for _, r := range plain(n.Name, maxLabel) {
		if strings.ContainsRune("\"#<>&`*_\\[]{}()|;", r) {
			fmt.Fprintf(&out, "#%d;", r)
			continue
		}
		out.WriteRune(r)
	}
	if out.Len() == 0 {
		return "?"
	}
	return out.String()
}
