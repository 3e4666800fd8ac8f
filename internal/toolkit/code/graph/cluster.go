package graph

import (
	"context"
	"fmt"
	"path"
)

// cluster measures for each node which share of the pairs of its neighbours are neighbours
// themselves (Watts and Strogatz, 1998). The share is 0 for a node with fewer than two
// neighbours.
func (m *Metrics) cluster(ctx context.Context, all lists) error {
	n := all.nodes()
	// Each triangle is found once, from the node with the fewest neighbours. So a node that
	// is a neighbour of all others costs no more than the others do.
	before := func(v, w int32) bool {
		a, b := len(all.of(int(v))), len(all.of(int(w)))
		return a < b || a == b && v < w
	}
	work := 0
	var pairs [][2]int32
	for v := range n {
		for _, w := range all.of(v) {
			if before(int32(v), w) {
				pairs = append(pairs, [2]int32{int32(v), w})
			}
		}
	}
	up := newLists(n, pairs)
	for v := range n {
		for _, w := range up.of(v) {
			work += len(up.of(int(w)))
		}
	}
	if work > maxTriangles {
		m.lack(fmt.Sprintf("the neighbours have more than %d pairs", maxTriangles), "clustering", "average_clustering")
		return nil
	}
	triangles := make([]int, n)
	marked := make([]bool, n)
	for v := range n {
		if v%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		for _, w := range up.of(v) {
			marked[w] = true
		}
		for _, w := range up.of(v) {
			for _, u := range up.of(int(w)) {
				if marked[u] {
					triangles[v]++
					triangles[w]++
					triangles[u]++
				}
			}
		}
		for _, w := range up.of(v) {
			marked[w] = false
		}
	}
	m.Clustering = make([]float64, n)
	sum := 0.0
	for v, t := range triangles {
		if k := len(all.of(v)); k > 1 {
			m.Clustering[v] = 2 * float64(t) / float64(k) / float64(k-1)
			sum += m.Clustering[v]
		}
	}
	average := sum / float64(n)
	m.Average = &average
	return nil
}

// modularity returns the share of links that stay within a directory, less the share that
// would stay there by chance (Leicht and Newman, 2008, for links with a direction). The
// communities are the directories that contain the files and the packages: the project
// itself has made this division. It returns nil for a graph without links.
func (g *Graph) modularity(out, in lists) *float64 {
	if len(out.to) == 0 {
		return nil
	}
	community := make([]string, len(g.Nodes))
	from, to := make(map[string]float64), make(map[string]float64) // links from and to a community
	inside := 0.0
	for v, n := range g.Nodes {
		community[v] = path.Dir(n.Path)
	}
	for v := range g.Nodes {
		from[community[v]] += float64(len(out.of(v)))
		to[community[v]] += float64(len(in.of(v)))
		for _, w := range out.of(v) {
			if community[v] == community[w] {
				inside++
			}
		}
	}
	links := float64(len(out.to))
	q := inside / links
	seen := make(map[string]bool)
	for _, c := range community { // in a fixed order, because sums of floats depend on the order
		if !seen[c] {
			seen[c] = true
			q -= from[c] / links * to[c] / links
		}
	}
	return &q
}
