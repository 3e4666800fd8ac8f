package act

import (
	"fmt"
	"hash/maphash"
)

// refs contains the numbers of a tab. A number stands for an element as it was shown: the
// element itself, and what it was called. A number is never used for another element, and
// is forgotten with the document.
type refs struct {
	last    int
	numbers map[refKey]int
	byNum   map[int]*ref
}

// refKey identifies an element: its document, and its number in our world of that document.
type refKey struct {
	frame, loader string
	local         int
}

// ref is what the agent was shown of an element.
type ref struct {
	refKey
	shown bool
	role  string
	name  string // name as it was shown, cut to MaxName characters
	row   string // text of the table row that contains the element, as it was shown, cut to MaxName characters
	sum   uint64 // hash of the role, the whole name and the whole row
}

// number returns the number of an element; 0 if there are as many numbers as allowed.
func (r *refs) number(k refKey) int {
	if n, ok := r.numbers[k]; ok {
		return n
	}
	if len(r.byNum) >= 2*MaxRefs {
		return 0
	}
	if r.numbers == nil {
		r.numbers, r.byNum = map[refKey]int{}, map[int]*ref{}
	}
	r.last++
	r.numbers[k] = r.last
	r.byNum[r.last] = &ref{refKey: k}
	return r.last
}

// forget drops all numbers of a frame.
func (r *refs) forget(frame string) {
	for k, n := range r.numbers {
		if k.frame == frame {
			delete(r.numbers, k)
			delete(r.byNum, n)
		}
	}
}

// show notes what the agent is shown of an element.
func (r *refs) show(n int, role, name, row string) {
	if x := r.byNum[n]; x != nil {
		x.shown, x.role, x.name, x.row, x.sum = true, role, cut(plain(name), MaxName), cut(plain(row), MaxName), meaning(role, name, row)
	}
}

// meaning returns a hash of what an element is called. Its seed is random, so that no page
// can make two names with the same hash.
func meaning(role, name, row string) uint64 {
	return maphash.String(meaningSeed, fmt.Sprintf("%q %q %q", role, name, row))
}

var meaningSeed = maphash.MakeSeed()

// called returns the name of an element in the words of a look.
func called(role, name, row string) string {
	s := role + " " + quoted(name, MaxName)
	if row != "" && row != name {
		s += " in " + quoted(row, MaxName)
	}
	return s
}
