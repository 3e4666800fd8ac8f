package clone

import "slices"

const (
	maxPlaces = 50 // places of one clone in the result of Distinct
	// enough is the share of the lines of a place that another place must have to be
	// reported instead of it.
	enough = 0.8
	// maxKept is the maximum number of clones with the same line that are examined.
	maxKept = 8
	// maxSteps is the maximum number of lines and pairs of places that are examined in all.
	maxSteps = 1 << 26
)

// Distinct leaves out the clones that report nothing new. A clone reports nothing new if
// another clone of the same kind or of a stricter one has at least as many places, and they
// contain most of the lines of each place of the first. Code that exists eight times is a
// clone of itself from each of these places. tests reports whether a place belongs to
// tests: clones that have only such places come last. Otherwise the order does not change.
func Distinct(all []Clone, tests func(p Place) bool) []Clone {
	keeps := make([]bool, len(all))
	kept := keeper{all: all, at: make(map[string][]keptAt), steps: maxSteps}
	for _, k := range kinds {
		for i := range all {
			if all[i].Kind == k && !kept.covers(&all[i]) {
				keeps[i] = true
				kept.add(int32(i))
			}
		}
	}
	var some, inTests []Clone
	for i, c := range all {
		if !keeps[i] {
			continue
		}
		only := !slices.ContainsFunc(c.Places, func(p Place) bool { return !tests(p) })
		c.Places, c.PlacesMore = c.Places[:min(len(c.Places), maxPlaces)], max(0, len(c.Places)-maxPlaces)
		if only {
			inTests = append(inTests, c)
		} else {
			some = append(some, c)
		}
	}
	return append(some, inTests...)
}

// keeper finds clones by their lines.
type keeper struct {
	all   []Clone
	at    map[string][]keptAt // first clones that were added, by path and line
	steps int                 // number of steps that are left of maxSteps
}

// keptAt contains the first clones that were added with a line.
type keptAt struct {
	n   int32
	all [maxKept]int32
}

// add records a clone by the lines of its places.
func (k *keeper) add(i int32) {
	for _, p := range k.all[i].Places {
		if k.steps -= p.Last - p.First + 1; k.steps < 0 {
			return
		}
		lines := k.at[p.Path]
		if more := p.Last + 1 - len(lines); more > 0 {
			lines = append(lines, make([]keptAt, more)...)
			k.at[p.Path] = lines
		}
		for line := p.First; line <= p.Last; line++ {
			if of := &lines[line]; of.n < maxKept {
				of.all[of.n] = i
				of.n++
			}
		}
	}
}

// covers reports whether a clone that was added has most of each place of c.
func (k *keeper) covers(c *Clone) bool {
	p := c.Places[0]
	lines, middle := k.at[p.Path], (p.First+p.Last)/2
	return middle < len(lines) && slices.ContainsFunc(lines[middle].all[:lines[middle].n], func(i int32) bool {
		k.steps -= len(k.all[i].Places) * len(c.Places)
		return k.steps >= 0 && k.all[i].has(c)
	})
}

// has reports whether c has most of each place of other, and a different place of c for
// each of them.
func (c *Clone) has(other *Clone) bool {
	if len(other.Places) > len(c.Places) {
		return false
	}
	used := make([]bool, len(c.Places))
	for _, p := range other.Places {
		at := slices.IndexFunc(c.Places, func(q Place) bool {
			shared := min(p.Last, q.Last) - max(p.First, q.First) + 1
			return p.Path == q.Path && float64(shared) >= enough*float64(p.Last-p.First+1)
		})
		if at < 0 || used[at] {
			return false
		}
		used[at] = true
	}
	return true
}
