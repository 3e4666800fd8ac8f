package graph

import (
	"context"
	"math"
)

// damping is the share of a walk's steps that follow a link, as in the paper of Brin and
// Page, 1998. In the other steps the walk starts again at a seed.
const damping = 0.85

// A walk is followed until the ranks change by less than this in sum.
const (
	still     = 1e-13
	maxRounds = 1000
)

// pageRank returns, for each node, the share of the time that a random walk along the links
// spends there. A walk that reaches a node without links starts again. It starts at one of
// the seeds, or at any node if there are no seeds.
func pageRank(ctx context.Context, out lists, seeds []int) ([]float64, error) {
	n := out.nodes()
	start := make([]float64, n)
	for _, s := range seeds {
		start[s] = 1
	}
	total := 0.0
	for _, p := range start {
		total += p
	}
	for v := range start {
		if total == 0 {
			start[v] = 1 / float64(n)
		} else {
			start[v] /= total
		}
	}
	rank, next := append([]float64(nil), start...), make([]float64, n)
	for range maxRounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		stuck := 0.0
		clear(next)
		for v := range n {
			to := out.of(v)
			if len(to) == 0 {
				stuck += rank[v]
				continue
			}
			part := damping * rank[v] / float64(len(to))
			for _, w := range to {
				next[w] += part
			}
		}
		moved := 0.0
		for v := range next {
			next[v] += (1 - damping + damping*stuck) * start[v]
			moved += math.Abs(next[v] - rank[v])
		}
		rank, next = next, rank
		if moved < still {
			break
		}
	}
	return rank, nil
}
