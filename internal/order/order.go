// Package order sorts slices of structs with little compiled code.
//
// The compiler makes the code of [slices.SortFunc] once for each kind of struct, and that
// code passes structs by value: up to 27 KB of code for a large struct. The code of [By] is
// made once.
//
// Use [slices.SortFunc] for pointers, strings and numbers, which share code, and where
// sorting is a large part of the work: it allocates nothing, and is faster for many small
// elements.
package order

import (
	"reflect"
	"slices"
)

// By sorts a slice in place; equal elements keep their order. It allocates an int for each
// element. No element is moved before the last comparison, so compare may read the slice.
func By[T any](all []T, compare func(a, b *T) int) {
	if len(all) < 2 {
		return
	}
	move(numbers(len(all), func(i, j int) int { return compare(&all[i], &all[j]) }), reflect.Swapper(all))
}

// numbers returns the numbers from 0 to n-1, sorted by compare. Equal numbers keep their
// order.
func numbers(n int, compare func(i, j int) int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(i, j int) int {
		if c := compare(i, j); c != 0 {
			return c
		}
		return i - j
	})
	return all
}

// move puts elements in order: the element that belongs at place i is now at place from[i].
func move(from []int, swap func(i, j int)) {
	for i := range from {
		// The moves form a cycle that begins and ends at i.
		to := i
		for from[to] != i {
			next := from[to]
			swap(to, next)
			to, from[to] = next, to
		}
		from[to] = to
	}
}
