package graph

import (
	"context"
	"fmt"

	"belljar.dev/internal/toolkit/code"
)

// Want names the metrics to measure.
type Want struct {
	Centrality bool // betweenness, closeness and degree
	PageRank   bool
	Clustering bool // clustering coefficients and modularity
	Components bool
	Seeds      []string // for PageRank: where a walk begins, as in Find; none means anywhere
}

// Metrics are what was measured of a graph. A slice has a value per node, in the order
// of the nodes; one that was not measured is nil. Several links between two nodes count
// as one, and a link of a node to itself as none.
type Metrics struct {
	In, Out     []int     // how many depend on a node, and on how many it depends
	Betweenness []float64 // of all shortest paths between two others, the parts that lead through a node
	Closeness   []float64 // from 0 to 1: how near a node is to those that depend on it
	PageRank    []float64 // adds up to 1
	Clustering  []float64 // of the pairs of a node's neighbours, the part that are linked

	Average    *float64 // clustering coefficient: the average of all nodes
	Modularity *float64 // how much the links stay within directories, against chance

	Components [][]int // nodes that links connect, in whatever direction; the largest first
	Cycles     [][]int // nodes that depend on each other, of two and more; the largest first

	Gaps []code.Gap
}

// Limits of the metrics whose time grows faster than the graph. They are visits of
// links, about 100 million a second.
const (
	maxVisits    = 300_000_000
	maxTriangles = 300_000_000
)

// Measure measures a graph. Each metric is exact: one that would take too long is
// absent, and a gap names it. An error is one of ctx.
func (g *Graph) Measure(ctx context.Context, want Want) (*Metrics, error) {
	m := &Metrics{}
	if len(g.Nodes) == 0 {
		return m, ctx.Err()
	}
	out, in := g.directed()
	if want.Centrality {
		for v := range g.Nodes {
			m.In, m.Out = append(m.In, len(in.of(v))), append(m.Out, len(out.of(v)))
		}
		if visits := len(g.Nodes) * (len(g.Nodes) + len(out.to)); visits > maxVisits {
			m.lack(fmt.Sprintf("%d nodes and %d links take more than %d visits, and a sample would not be exact", len(g.Nodes), len(out.to), maxVisits), "betweenness", "closeness")
		} else if err := m.shortest(ctx, in); err != nil {
			return nil, err
		}
	}
	if want.PageRank {
		var seeds []int
		for _, s := range want.Seeds {
			found := g.Find(s)
			if len(found) == 0 {
				m.Gaps = append(m.Gaps, code.Gap{Field: "pagerank", Reason: fmt.Sprintf("the seed %.80q is not a node: a node is a file, or a package of Go", s)})
			}
			seeds = append(seeds, found...)
		}
		if len(want.Seeds) == 0 || len(seeds) > 0 {
			ranks, err := pageRank(ctx, out, seeds)
			if err != nil {
				return nil, err
			}
			m.PageRank = ranks
		}
	}
	if want.Clustering {
		if err := m.cluster(ctx, either(out)); err != nil {
			return nil, err
		}
		m.Modularity = g.modularity(out, in)
	}
	if want.Components {
		m.Components = components(either(out))
		m.Cycles = cycles(out)
	}
	return m, ctx.Err()
}
