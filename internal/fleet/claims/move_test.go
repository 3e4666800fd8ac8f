package claims

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// travels is a random sequence of moves. Fronts stop between any two steps of a move,
// answers are lost, and messages arrive late and twice.
type travels struct {
	fleet

	t      *testing.T
	r      *rand.Rand
	did    []string
	disks  map[string]map[string]*disk // disks by place and by worker
	last   map[string]int              // last acknowledged value, by place
	known  map[string]bool             // places with at least one acknowledged value
	late   []message
	drives []*drive
	next   int
	done   map[string]int // number of ends, by the kind of the end
	calm   bool
}

// disk contains what a worker has of a place.
type disk struct {
	live   *replica
	staged *replica
	gone   uint64 // number of the last move after which nothing was left here
}

type replica struct {
	value int
	mark  Mark
}

// drive is a move of a place that a front is making.
type drive struct {
	front int
	place string
	claim Claim
	step  int
}

// message is a step that a front sends to a worker. do reports whether the worker made the
// step.
type message struct {
	what string
	do   func() bool
}

func (h *travels) note(format string, args ...any) {
	h.did = append(h.did, fmt.Sprintf(format, args...))
}

func (h *travels) fatal(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf(format+"\n%s", append(args, strings.Join(h.did, "\n"))...)
}

func (h *travels) disk(place, worker string) *disk {
	if h.disks[place] == nil {
		h.disks[place] = make(map[string]*disk)
	}
	d := h.disks[place][worker]
	if d == nil {
		d = &disk{}
		h.disks[place][worker] = d
	}
	return d
}

func (h *travels) worker() string { return fmt.Sprintf("w%d", h.r.IntN(3)) }

// live returns the workers at which a place is at work. left reports whether a frozen place
// or a copy is left at a worker.
func (h *travels) live(place string) (all []string, left bool) {
	for worker, d := range h.disks[place] {
		switch {
		case d.live != nil && d.live.mark.To == "":
			all = append(all, worker)
		case d.live != nil || d.staged != nil:
			left = true
		}
	}
	return all, left
}

// check fails the test if a place has two owners, or if an acknowledged value is lost.
func (h *travels) check(place string) {
	h.t.Helper()
	all, _ := h.live(place)
	if len(all) > 1 {
		h.fatal("place %s is at work on %v", place, all)
	}
	if len(all) == 1 && h.known[place] && h.disks[place][all[0]].live.value != h.last[place] {
		h.fatal("place %s is at %d on %s, and %d was acknowledged", place, h.disks[place][all[0]].live.value, all[0], h.last[place])
	}
}

// send makes a worker take a step. The message or the answer may be lost, or arrive late.
func (h *travels) send(what string, do func() bool) bool {
	if !h.calm {
		switch h.r.IntN(8) {
		case 0:
			h.note("late: %s", what)
			h.late = append(h.late, message{what, do})
			return false
		case 1:
			ok := do()
			h.note("no answer: %s: %v", what, ok)
			h.late = append(h.late, message{what, do}) // the message arrives a second time
			return false
		}
	}
	ok := do()
	h.note("%s: %v", what, ok)
	return ok
}

// The steps of a worker, as internal/server makes them.

func (h *travels) freeze(place, worker string, move uint64, to string) func() bool {
	return func() bool {
		d := h.disk(place, worker)
		if d.live == nil || move <= d.gone || !d.live.mark.Freezes(move) {
			return false
		}
		d.live.mark = Mark{Move: move, To: to}
		return true
	}
}

// receive delivers the copy that another worker has packed. If it arrives late, it contains
// what was packed at that time.
func (h *travels) receive(place, worker string, move uint64, from string, value int) func() bool {
	return func() bool {
		d := h.disk(place, worker)
		if d.live != nil || move <= d.gone || d.staged != nil && d.staged.mark.Move > move {
			return d.live != nil && d.live.mark.Move == move
		}
		d.staged = &replica{value, Mark{Move: move, From: from}}
		return true
	}
}

func (h *travels) take(place, worker string, move uint64) func() bool {
	return func() bool {
		d := h.disk(place, worker)
		switch {
		case d.live != nil:
			return d.live.mark.Move >= move
		case d.staged == nil || d.staged.mark.Move != move:
			return false
		}
		d.live, d.staged = &replica{d.staged.value, Mark{Move: move}}, nil
		h.check(place)
		return true
	}
}

func (h *travels) drop(place, worker string, move uint64) func() bool {
	return func() bool {
		d := h.disk(place, worker)
		if d.live == nil {
			return true
		}
		if !d.live.mark.Frozen(move) {
			return false
		}
		d.live, d.gone = nil, max(d.gone, move)
		return true
	}
}

func (h *travels) thaw(place, worker string, move uint64) func() bool {
	return func() bool {
		if d := h.disk(place, worker); d.live != nil && d.live.mark.Frozen(move) {
			d.live.mark = Mark{Move: move}
			h.check(place)
		}
		return true
	}
}

func (h *travels) discard(place, worker string, move uint64) func() bool {
	return func() bool {
		d := h.disk(place, worker)
		if d.live == nil {
			d.gone = max(d.gone, move)
		}
		if d.staged != nil && d.staged.mark.Move <= move {
			d.staged = nil
		}
		return true
	}
}

func (h *travels) swap(front int, place string, old, next Claim) (Claim, bool) {
	now, err := h.front(front).Swap(context.Background(), place, old, next)
	h.note("front %d: %s from %+v to %+v: %+v, %v", front, place, old, next, now, err)
	return now, err == nil
}

// request is a request of a client, which writes a number.
func (h *travels) request(i int, place string) {
	owner := h.front(i).Owner(place)
	all, left := h.live(place)
	switch {
	case owner.To != "":
		return
	case len(all) == 1:
		if owner.Worker != all[0] {
			now, ok := h.swap(i, place, Claim{}, Claim{Worker: all[0]})
			if !ok || now.Worker != all[0] || now.To != "" {
				return
			}
		}
		h.next++
		h.note("front %d: write %d to %s on %s", i, h.next, place, all[0])
		h.disks[place][all[0]].live.value, h.last[place], h.known[place] = h.next, h.next, true
	case len(all) == 0 && !left && !owner.Moving() && h.front(i).Ready() == nil:
		next := owner
		if owner == (Claim{}) {
			next = Claim{Worker: h.worker()}
		}
		if now, ok := h.swap(i, place, owner, next); ok && now == next {
			if h.known[place] {
				h.fatal("place %s is made anew", place)
			}
			h.disk(place, now.Worker).live = &replica{}
		}
	}
}

// begin begins a move of a place.
func (h *travels) begin(i int, place string) {
	c := h.front(i).Owner(place)
	d, to := h.disks[place][c.Worker], h.worker()
	if c.Moving() || d == nil || d.live == nil || h.disk(place, to).live != nil { // an earlier move has left something
		return
	}
	next := c.Begin(to, max(c.Move, d.live.mark.Move, d.gone, h.disk(place, to).gone)+1)
	if now, ok := h.swap(i, place, c, next); ok && now == next {
		h.drives = append(h.drives, &drive{front: i, place: place, claim: next})
	}
}

// advance makes one step of a move, and reports whether another step follows.
func (h *travels) advance(d *drive) bool {
	c := d.claim
	swap := func(next Claim) bool {
		now, ok := h.swap(d.front, d.place, c, next)
		d.claim = now
		return ok && now == next
	}
	switch {
	case c.To != "" && !h.calm && h.r.IntN(8) == 0: // the move is abandoned
		if swap(c.Abandon()) {
			h.done["abandoned"]++
			h.send("thaw "+c.Worker, h.thaw(d.place, c.Worker, c.Move))
			h.send("discard "+c.To, h.discard(d.place, c.To, c.Move))
		}
		return false
	case c.To != "" && d.step == 0:
		if !h.send("freeze "+c.Worker, h.freeze(d.place, c.Worker, c.Move, c.To)) {
			return false
		}
	case c.To != "" && d.step == 1:
		from := h.disk(d.place, c.Worker)
		if from.live == nil || !from.live.mark.Frozen(c.Move) {
			return false
		}
		if !h.send("receive "+c.To, h.receive(d.place, c.To, c.Move, c.Worker, from.live.value)) {
			return false
		}
	case c.To != "":
		if !swap(c.Decide()) {
			return false
		}
	case c.From != "" && d.step < 4:
		if !h.send("take "+c.Worker, h.take(d.place, c.Worker, c.Move)) {
			return false
		}
		d.step = 3
	case c.From != "" && d.step == 4:
		if !h.send("drop "+c.From, h.drop(d.place, c.From, c.Move)) {
			return false
		}
	case c.From != "":
		if swap(c.Settle()) {
			h.done["settled"]++
		}
		return false
	default:
		return false
	}
	d.step++
	return true
}

// resume makes a front continue a move that it knows of.
func (h *travels) resume(i int, place string) {
	if c := h.front(i).Owner(place); c.Moving() {
		h.drives = append(h.drives, &drive{front: i, place: place, claim: c})
	}
}

// tidy makes a front look at what moves have left.
func (h *travels) tidy(i int, place string) {
	f := h.front(i)
	for worker, d := range h.disks[place] {
		for _, m := range []*replica{d.live, d.staged} {
			if m == nil || m.mark.To == "" && m.mark.From == "" || f.Ready() != nil {
				continue
			}
			mark := m.mark
			known := f.Owner(place)
			if now, ok := h.swap(i, place, known, known); !ok || now != known {
				continue
			}
			all, _ := h.live(place)
			served := len(all) == 1 && all[0] == known.Worker
			switch known.Cleanup(worker, mark, served, len(all) == 0) {
			case Thaw:
				h.send("thaw "+worker, h.thaw(place, worker, mark.Move))
			case Drop:
				h.send("drop "+worker, h.drop(place, worker, mark.Move))
			case Discard:
				h.send("discard "+worker, h.discard(place, worker, mark.Move))
			case Reclaim:
				h.swap(i, place, known, Claim{Worker: worker, Move: mark.Move})
			case Keep:
			}
			h.check(place)
		}
	}
}

func (h *travels) run() {
	places := []string{"t/p.0", "t/p.1"}
	for range 30 + h.r.IntN(90) {
		i, place := h.r.IntN(h.fronts()), places[h.r.IntN(len(places))]
		switch n := h.r.IntN(24); {
		case n < 5:
			h.request(i, place)
		case n < 7:
			h.begin(i, place)
		case n < 15 && len(h.drives) > 0:
			k := h.r.IntN(len(h.drives))
			if d := h.drives[k]; !h.advance(d) {
				h.drives = append(h.drives[:k], h.drives[k+1:]...)
			}
		case n < 16 && len(h.drives) < 6:
			h.resume(i, place)
		case n < 18:
			h.tidy(i, place)
		case n < 20 && len(h.late) > 0:
			k := h.r.IntN(len(h.late))
			m := h.late[k]
			h.note("at last: %s: %v", m.what, m.do())
			if h.r.IntN(2) == 0 { // or the message arrives once more
				h.late = append(h.late[:k], h.late[k+1:]...)
			}
		case n == 20:
			h.note("crash of front %d", i)
			h.crash(i, h.r)
			h.drives = drivesWithout(h.drives, i)
		case n == 21:
			if what := h.trouble(i, h.r); what != "" {
				h.note("%s", what)
			}
		}
		for _, p := range places {
			h.check(p)
		}
	}
	h.settle(places)
}

func drivesWithout(all []*drive, front int) (rest []*drive) {
	for _, d := range all {
		if d.front != front {
			rest = append(rest, d)
		}
	}
	return rest
}

// settle delivers all messages and lets nothing fail any more. Then every place must come
// to rest.
func (h *travels) settle(places []string) {
	h.calm = true
	if c, ok := h.fleet.(*common); ok {
		for _, f := range c.all {
			c.sync(f)
		}
		c.store.calm = true
		defer func() { c.store.calm = false }()
	}
	h.note("all is well from now on")
	for _, m := range h.late {
		h.note("at last: %s: %v", m.what, m.do())
	}
	h.drives = nil
	for range 6 {
		for _, place := range places {
			h.tidy(0, place)
			h.resume(0, place)
			for _, d := range h.drives {
				for h.advance(d) {
				}
				if c := d.claim; c.To != "" { // the move cannot continue, so it is abandoned
					h.swap(0, place, c, c.Abandon())
				}
			}
			h.drives = nil
			h.check(place)
		}
	}
	for _, place := range places {
		all, left := h.live(place)
		c := h.front(0).Owner(place)
		if left || c.Moving() || h.known[place] && (len(all) != 1 || c.Worker != all[0]) {
			h.fatal("%s does not come to rest: %+v, at work on %v, left %v", place, c, all, left)
		}
	}
}

// Whatever happens to fronts, messages and the store, a place that moves is at work at one
// worker at most, and has all acknowledged values. In the end it is at work.
func TestMoves(t *testing.T) {
	n, r := testenv.Cases(t, 400)
	dir := testenv.MemoryDir(t)
	done := make(map[string]int)
	for i := range n {
		h := &travels{t: t, r: r, disks: make(map[string]map[string]*disk), last: make(map[string]int), known: make(map[string]bool), done: done}
		if i%2 == 0 {
			c := newCommon(t, dir, r)
			h.fleet = c
			h.run()
			for _, f := range c.all {
				f.kept.Close()
			}
		} else {
			j := openJournaled(t, filepath.Join(dir, "0"))
			h.fleet = j
			h.run()
			j.Close()
		}
	}
	t.Logf("%d histories: %v", n, done)
	if done["settled"] < n/4 || done["abandoned"] < n/4 {
		t.Errorf("%d histories: %v, which is too little to find anything", n, done)
	}
}

// What a move has left is removed only if the place is at work elsewhere, and is put to
// work only if the claim says so.
func TestCleanup(t *testing.T) {
	frozen, copied := Mark{Move: 3, To: "b"}, Mark{Move: 3, From: "a"}
	for _, tt := range []struct {
		claim         Claim
		worker        string
		mark          Mark
		served, other bool
		want          Action
	}{
		{Claim{Worker: "a", To: "b", Move: 3}, "a", frozen, false, true, Keep},
		{Claim{Worker: "b", From: "a", Move: 3}, "a", frozen, true, false, Keep},
		{Claim{Worker: "b", From: "a", Move: 3}, "b", copied, false, true, Keep},
		{Claim{Worker: "a", Move: 3}, "a", frozen, false, true, Thaw},
		{Claim{Worker: "a", Move: 3}, "b", copied, false, true, Discard},
		{Claim{Worker: "b", Move: 3}, "a", frozen, true, false, Drop},
		{Claim{Worker: "b", Move: 3}, "a", frozen, false, true, Keep}, // this may be the only copy
		{Claim{Worker: "b", Move: 3}, "b", copied, false, true, Keep}, // this may be the only copy
		{Claim{Worker: "b", Move: 3}, "b", copied, true, false, Discard},
		{Claim{Worker: "c", From: "b", Move: 4}, "a", frozen, true, false, Drop},
		{Claim{}, "a", frozen, false, true, Reclaim},
		{Claim{}, "a", frozen, false, false, Keep},
		{Claim{}, "b", copied, false, true, Keep},
		{Claim{}, "b", Mark{Move: 3, From: FromFile}, false, true, Discard},
		{Brought("b", 3), "b", Mark{Move: 3, From: FromFile}, false, true, Keep},
	} {
		if got := tt.claim.Cleanup(tt.worker, tt.mark, tt.served, tt.other); got != tt.want {
			t.Errorf("%+v at %s with %+v, served %v, other %v: %d, want %d", tt.claim, tt.worker, tt.mark, tt.served, tt.other, got, tt.want)
		}
	}
}
