package act

import (
	"fmt"
	"hash/maphash"
)

// refs contains the numbers of a tab. A number stands for an element, and once that was
// shown, for what it was called then. A number is never used for another element, and is
// forgotten with the document.
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

// maxNumbers bounds the numbers of a tab. One pass over a document returns MaxRefs controls
// at most; the rest is for other frames, and for elements that are gone.
const maxNumbers = 2 * MaxRefs

// ref is an element with a number, and what the agent was shown of it.
type ref struct {
	refKey
	shown bool // whether a look has shown the element; until then its number is refused
	role  string
	name  string // name when it was shown, clipped to 2*MaxName characters; it must be masked
	row   string // text of the table row that contains the element, in the same form
	sum   uint64 // hash of the role, and of the name and the row as the script returns them, at most 400 and 1000 characters
}

// number returns the number of an element; 0 if there are as many numbers as allowed.
func (r *refs) number(k refKey) int {
	if n, ok := r.numbers[k]; ok {
		return n
	}
	if len(r.byNum) >= maxNumbers {
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
		x.shown, x.role, x.name, x.row, x.sum = true, role, clip(plain(name), 2*MaxName), clip(plain(row), 2*MaxName), meaning(role, name, row)
	}
}

// shownAs returns the number of an element that a look has shown; 0 for any other.
func (r *refs) shownAs(k refKey) int {
	if n := r.numbers[k]; n != 0 && r.byNum[n].shown {
		return n
	}
	return 0
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
