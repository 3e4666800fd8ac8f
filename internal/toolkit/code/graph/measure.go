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
	Seeds      []string // texts, as in Find, of the nodes where a walk of PageRank begins; empty means any node
}

// Metrics are the measures of a graph. Each slice contains one value per node, in the order
// of the nodes, and is nil if the metric was not measured. Several links between two nodes
// count as one, and a link of a node to itself does not count.
type Metrics struct {
	In, Out []int // number of nodes that depend on a node, and number of nodes that it depends on
	// share of the shortest paths between two other nodes that pass through a node, summed
	// over all pairs
	Betweenness []float64
	Closeness   []float64 // how near a node is to the nodes that depend on it, from 0 to 1
	PageRank    []float64 // rank of each node; the sum of all is 1
	Clustering  []float64 // share of the pairs of a node's neighbours that are linked

	Average    *float64 // average clustering coefficient of all nodes
	Modularity *float64 // how much more the links stay within directories than by chance

	Components [][]int // sets of nodes that links connect in any direction, the largest first
	Cycles     [][]int // sets of two or more nodes that depend on each other, the largest first

	Gaps []code.Gap
}

// Limits of the metrics whose time grows faster than the graph, in visits of links. A
// machine does about 100 million visits a second.
const (
	maxVisits    = 300_000_000
	maxTriangles = 300_000_000
)

// Measure measures a graph. Each metric is exact. A metric that would take too long is
// absent, and a gap names it. Measure returns an error only if ctx ends.
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
