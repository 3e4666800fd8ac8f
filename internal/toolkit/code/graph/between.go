package graph

import (
	"context"
	"slices"
)

// shortest measures betweenness and closeness by the shortest paths from each node to all
// others (U. Brandes, "A Faster Algorithm for Betweenness Centrality", 2001). It walks
// along in, from a node to the nodes that depend on it. Betweenness is the same in both
// directions.
//
// Closeness of a node is the number of nodes that reach it, divided by the sum of their
// distances, and multiplied by the share that these nodes have of all other nodes
// (Wasserman and Faust, 1994).
func (m *Metrics) shortest(ctx context.Context, in lists) error {
	n := in.nodes()
	m.Betweenness, m.Closeness = make([]float64, n), make([]float64, n)
	distance, paths, share := make([]int32, n), make([]float64, n), make([]float64, n)
	order := make([]int32, 0, n) // nodes in the order of the visits; from index at on, the queue
	for v := range distance {
		distance[v] = -1
	}
	for s := range n {
		if s%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		distance[s], paths[s] = 0, 1
		order = append(order[:0], int32(s))
		sum := 0
		for at := 0; at < len(order); at++ {
			v := order[at]
			sum += int(distance[v])
			for _, w := range in.of(int(v)) {
				if distance[w] < 0 {
					distance[w] = distance[v] + 1
					order = append(order, w)
				}
				if distance[w] == distance[v]+1 {
					paths[w] += paths[v]
				}
			}
		}
		if sum > 0 {
			reached := float64(len(order) - 1)
			m.Closeness[s] = reached / float64(n-1) * reached / float64(sum)
		}
		for _, v := range slices.Backward(order) {
			for _, w := range in.of(int(v)) {
				if distance[w] == distance[v]+1 {
					share[v] += paths[v] / paths[w] * (1 + share[w])
				}
			}
			if int(v) != s {
				m.Betweenness[v] += share[v]
			}
		}
		for _, v := range order {
			distance[v], paths[v], share[v] = -1, 0, 0
		}
	}
	return nil
}
