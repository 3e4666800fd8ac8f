// Package constants assigns constants to fields in each possible way. A test checks that
// each of them is found.
package constants

type planted struct{ A, B, C, D, E, F int }

const known = 3

func plant(measured int) []planted {
	p := &planted{A: 1, B: measured}
	p.B = 2
	p.C = known
	p.C, p.D = measured, int(4)
	return []planted{*p, {0, 0, 0, 0, known + 2, measured}, {F: -(6)}}
}
