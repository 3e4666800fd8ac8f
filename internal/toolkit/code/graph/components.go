package graph

import (
	"cmp"
	"slices"

	"belljar.dev/internal/order"
)

// components returns the parts of a graph whose nodes are connected by links. Each link must be in
// the lists of both its nodes.
func components(all lists) (found [][]int) {
	seen := make([]bool, all.nodes())
	for start := range seen {
		if seen[start] {
			continue
		}
		seen[start] = true
		part := []int{start}
		for at := 0; at < len(part); at++ {
			for _, w := range all.of(part[at]) {
				if !seen[w] {
					seen[w] = true
					part = append(part, int(w))
				}
			}
		}
		found = append(found, part)
	}
	return sortParts(found)
}

// cycles returns the sets of nodes that depend on each other, by R. Tarjan's "Depth-First
// Search and Linear Graph Algorithms", 1972. It keeps its own stack, because a chain of
// calls may be as long as there are nodes.
func cycles(out lists) (found [][]int) {
	n := out.nodes()
	number, low := make([]int32, n), make([]int32, n) // numbers of the visits from 1; 0 means not visited
	waits := make([]bool, n)
	var waiting []int // nodes whose part is not known yet
	type step struct {
		v    int
		next int // index of the next link to follow from v
	}
	var stack []step
	count := int32(0)
	for start := range n {
		if number[start] != 0 {
			continue
		}
		stack = append(stack, step{v: start})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			v := top.v
			if top.next == 0 {
				count++
				number[v], low[v], waits[v] = count, count, true
				waiting = append(waiting, v)
			}
			if links := out.of(v); top.next < len(links) {
				w := int(links[top.next])
				top.next++
				if number[w] == 0 {
					stack = append(stack, step{v: w})
				} else if waits[w] {
					low[v] = min(low[v], number[w])
				}
				continue
			}
			stack = stack[:len(stack)-1]
			if len(stack) > 0 {
				up := stack[len(stack)-1].v
				low[up] = min(low[up], low[v])
			}
			if low[v] == number[v] {
				at := len(waiting) - 1
				for ; waiting[at] != v; at-- {
					waits[waiting[at]] = false
				}
				waits[v] = false
				if len(waiting)-at > 1 {
					found = append(found, slices.Clone(waiting[at:]))
				}
				waiting = waiting[:at]
			}
		}
	}
	return sortParts(found)
}

// sortParts sorts the nodes of each part, and the parts by their size, the largest first.
func sortParts(parts [][]int) [][]int {
	for _, p := range parts {
		slices.Sort(p)
	}
	order.By(parts, func(a, b *[]int) int { return cmp.Or(len(*b)-len(*a), (*a)[0]-(*b)[0]) })
	return parts
}
