// Package constants contains numbers that are not measured, for a test that looks for them.
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
