package clone

import "context"

// multiplier is the factor of the rolling hash. It is odd, and not a small power of another
// number.
const multiplier = 0x9E3779B97F4A7C15

// windows is a hash table with the first place of each window of a row.
type windows struct {
	ids    []uint32
	width  int
	mask   uint64
	slots  []slot
	filter []uint64 // a bit for each window that is kept; few other windows share one
}

// slot is an entry of the hash table.
type slot struct {
	tag uint32
	at  int32 // index of the window's first token, plus 1; 0 in a free slot
}

// stride is the distance between the windows that are kept. A run that is longer than a
// window by at least stride-1 contains one of them.
const stride = 4

// newWindows returns a table with room for n windows.
func newWindows(ids []uint32, n, width int) *windows {
	size := 1024
	for size < 2*n {
		size *= 2
	}
	return &windows{ids: ids, width: width, mask: uint64(size - 1), slots: make([]slot, size), filter: make([]uint64, size/16)}
}

// spread turns a hash into one whose low bits depend on all of its bits.
func spread(h uint64) uint64 {
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return h ^ h>>32
}

// unseen reports whether it is certain that no window with this hash was kept. The filter
// has four bits for each slot, so it stays in the processor's cache when the slots do not.
func (w *windows) unseen(h uint64) bool {
	h = spread(h)
	return w.filter[h>>6&uint64(len(w.filter)-1)]&(1<<(h&63)) == 0
}

// first returns the first place of a window with this hash and content. If it finds nothing
// and keep is true, it keeps the place of this window.
func (w *windows) first(h uint64, ids []uint32, at int, keep bool) (int, bool) {
	if !keep && w.unseen(h) {
		return 0, false
	}
	h = spread(h)
	tag := uint32(h >> 32)
	if keep {
		w.filter[h>>6&uint64(len(w.filter)-1)] |= 1 << (h & 63)
	}
	for i := h & w.mask; ; i = (i + 1) & w.mask {
		s := w.slots[i]
		if s.at == 0 {
			if keep {
				w.slots[i] = slot{tag: tag, at: int32(at) + 1}
			}
			return 0, false
		}
		if s.tag == tag {
			// Only one window is compared. Another one with the same 32 bits and the same
			// place in the table is so rare that it may be missed.
			from := int(s.at) - 1
			for k := range w.width {
				if w.ids[from+k] != ids[at+k] {
					return 0, false
				}
			}
			return from, true
		}
	}
}

// repeats returns the runs of at least shortest tokens that occurred before, each with its
// first place, sorted by the later place.
func (r *row) repeats(ctx context.Context, ids []uint32, shortest int) ([]pair, error) {
	var found []pair
	width := max(shortest-stride+1, stride)
	w := newWindows(ids, len(ids)/stride, width)
	for file := range r.files {
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		floor := r.begin[file] // tokens before it belong to the last match
		roll(ids, span{r.begin[file], r.begin[file+1]}, width, func(h uint64, at int) int {
			if at%stride != 0 && w.unseen(h) { // true for most windows
				return at + 1
			}
			from, ok := w.first(h, ids, at, at%stride == 0)
			if !ok {
				return at + 1
			}
			p := r.lengthen(ids, from, at, width, file, floor)
			if p.n < shortest {
				return at + 1
			}
			found = append(found, p)
			floor = max(floor, p.b+p.n-shortest+1)
			return p.b + p.n - width + 1 // windows inside the match are known to repeat
		})
	}
	return found, nil
}

// roll calls use with the hash and the place of each window of a span, and continues at the
// window that use returns.
func roll(ids []uint32, in span, width int, use func(h uint64, at int) int) {
	power := uint64(1) // multiplier^width
	for range width {
		power *= multiplier
	}
	h, next, at := uint64(0), in.begin, in.begin
	for ; next < in.end; next++ {
		h = h*multiplier + uint64(ids[next])
		if next-width >= in.begin {
			h -= power * uint64(ids[next-width])
		}
		if next+1-width == at {
			at = use(h, at)
		}
	}
}

// lengthen makes a match of two equal windows as long as possible. Its places do not
// overlap: if one line is written a hundred times, the last fifty repeat the first fifty.
// Backwards the match grows by at most width tokens, and not to tokens before floor.
func (r *row) lengthen(ids []uint32, a, b, width, file, floor int) pair {
	fa := file
	if a < r.begin[file] {
		fa = r.fileOf(a)
	}
	beginA, endA, endB := r.begin[fa], r.begin[fa+1], r.begin[file+1]
	if fa == file {
		endA = min(endA, b) // a match of overlapping windows stays too short to count
	}
	n := width
	for a+n < endA && b+n < endB && ids[a+n] == ids[b+n] {
		n++
	}
	for k := 0; k < width && a > beginA && b > floor && ids[a-1] == ids[b-1] && b-a >= n+1; k++ {
		a, b, n = a-1, b-1, n+1
	}
	return pair{a, b, n}
}
