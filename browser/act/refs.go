package act

import (
	"fmt"
	"hash/maphash"
)

// refs are the numbers of a tab. One stands for an element as it was shown: which
// element, and what it was called. A number is never used for another, and is
// forgotten with the document.
type refs struct {
	last    int
	numbers map[refKey]int
	byNum   map[int]*ref
}

// refKey is an element: its document, and its number in our world of that document.
type refKey struct {
	frame, loader string
	local         int
}

// ref is what the agent was shown.
type ref struct {
	refKey
	shown bool
	role  string
	name  string // as it was shown
	row   string // 80 characters of it
	sum   uint64 // of name and row in full
}

// number is the number of an element; 0 where there are as many as may be.
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

// forget drops all of a frame.
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

// meaning tells what an element is called from what it was called before. Its seed is
// random, so that no page can make two names that are one here.
func meaning(role, name, row string) uint64 {
	return maphash.String(meaningSeed, fmt.Sprintf("%q %q %q", role, name, row))
}

var meaningSeed = maphash.MakeSeed()

// called is the element in the words of a look.
func called(role, name, row string) string {
	s := role + " " + quoted(name, MaxName)
	if row != "" && row != name {
		s += " in " + quoted(row, MaxName)
	}
	return s
}
