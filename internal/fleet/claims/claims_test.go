package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/testenv"
)

// fleet is the implementation of claims that is tested: for one front or for several.
type fleet interface {
	// front returns the claims of a front.
	front(i int) Claims
	// crash ends the process of a front, at any byte of its output, and starts the next
	// process.
	crash(i int, r *rand.Rand)
	// trouble makes something happen to a front or to the shared store, and returns what it
	// was.
	trouble(i int, r *rand.Rand) string
	fronts() int
}

// history is a random sequence of events in a fleet, together with a model of the disks of
// its workers. Its fronts act as in package fleet.
type history struct {
	fleet

	t    *testing.T
	r    *rand.Rand
	did  []string
	disk map[string]map[string]int // last written value, by place and by worker
	last map[string]int            // last acknowledged value, by place
	next int
}

func (h *history) note(format string, args ...any) {
	h.did = append(h.did, fmt.Sprintf(format, args...))
}

func (h *history) fatal(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf(format+"\n%s", append(args, strings.Join(h.did, "\n"))...)
}

func (h *history) ctx() context.Context { return h.t.Context() }

func (h *history) worker() string { return fmt.Sprintf("w%d", h.r.IntN(3)) }

// holder returns the worker that has the directory of a place; empty if no worker has it.
func (h *history) holder(place string) string {
	for worker := range h.disk[place] {
		return worker
	}
	return ""
}

// put makes a worker have a place. It fails the test if another worker has the place, or if
// value is not the last acknowledged one.
func (h *history) put(place, worker string, value int) {
	h.t.Helper()
	if h.disk[place] == nil {
		h.disk[place] = make(map[string]int)
	}
	if _, has := h.disk[place][worker]; has {
		return
	}
	h.disk[place][worker] = value
	if len(h.disk[place]) > 1 {
		h.fatal("place %s is on %v", place, h.disk[place])
	}
	if value != h.last[place] {
		h.fatal("place %s is at %d, and %d was acknowledged", place, value, h.last[place])
	}
}

// request is a request of a client, which writes a number into the place.
func (h *history) request(i int, place string) {
	all, has := h.front(i), h.holder(place)
	owner := all.Owner(place)
	if has == "" {
		old, next := owner, owner
		if owner == (Claim{}) {
			if all.Ready() != nil {
				return
			}
			next = Claim{Worker: h.worker()}
		}
		now, err := all.Swap(h.ctx(), place, old, next)
		h.note("front %d: claim %s for %s: %v, %v", i, place, next.Worker, now, err)
		if err != nil || now != next || h.r.IntN(5) == 0 { // or the front ends now
			return
		}
		h.last[place] = 0
		h.put(place, now.Worker, 0)
		return
	}
	if owner.Worker != has {
		now, err := all.Swap(h.ctx(), place, Claim{}, Claim{Worker: has})
		h.note("front %d: %s is on %s: %v, %v", i, place, has, now, err)
		if err == nil && now.Worker != has {
			h.fatal("place %s is on %s, and belongs to %v", place, has, now)
		}
		if err != nil {
			return
		}
	}
	h.next++
	h.disk[place][has], h.last[place] = h.next, h.next
}

// lose loses the disk of a worker, perhaps, and makes an operator release the place at a
// front.
func (h *history) lose(i int, place string) {
	if has := h.holder(place); has != "" && h.r.IntN(2) == 0 {
		h.note("%s is lost on %s", place, has)
		delete(h.disk[place], has)
	}
	owner := h.front(i).Owner(place)
	if h.holder(place) != "" || owner == (Claim{}) {
		return
	}
	now, err := h.front(i).Swap(h.ctx(), place, owner, Claim{})
	h.note("front %d: release %s: %v, %v", i, place, now, err)
}

// run makes a random history.
func (h *history) run() {
	for range 10 + h.r.IntN(40) {
		i, place := h.r.IntN(h.fronts()), fmt.Sprintf("t/p.%d", h.r.IntN(3))
		switch n := h.r.IntN(16); {
		case n < 8:
			h.request(i, place)
		case n < 10:
			h.lose(i, place)
		case n == 10:
			h.note("crash of front %d", i)
			h.crash(i, h.r)
		case n < 13: // several fronts at the same time
			if h.holder(place) == "" {
				h.atOnce(place)
			}
		default:
			if what := h.trouble(i, h.r); what != "" {
				h.note("%s", what)
			}
		}
	}
}

// atOnce makes all fronts claim a place at the same time.
func (h *history) atOnce(place string) {
	var all sync.WaitGroup
	got, asked := make([]Claim, h.fronts()), make([]Claim, h.fronts())
	for i := range got {
		asked[i] = Claim{Worker: h.worker()}
		f := h.front(i)
		if f.Ready() != nil {
			continue
		}
		all.Go(func() {
			if now, err := f.Swap(h.ctx(), place, Claim{}, asked[i]); err == nil {
				got[i] = now
			}
		})
	}
	all.Wait()
	h.note("all claim %s: %v", place, got)
	for i, c := range got {
		if c != (Claim{}) && c == asked[i] && h.holder(place) != c.Worker {
			h.last[place] = 0
			h.put(place, c.Worker, 0)
		}
	}
}

func runHistory(t *testing.T, f fleet, r *rand.Rand) *history {
	t.Helper()
	h := &history{fleet: f, t: t, r: r, disk: make(map[string]map[string]int), last: make(map[string]int)}
	h.run()
	return h
}

// journaled is a journal that crashes. Its process ends while it writes another claim,
// whose Swap has not returned.
type journaled struct {
	*Journal
	t    *testing.T
	path string
}

func openJournaled(t *testing.T, path string) *journaled {
	t.Helper()
	_ = os.Remove(path)
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return &journaled{j, t, path}
}

func (j *journaled) fronts() int                  { return 1 }
func (j *journaled) front(int) Claims             { return j.Journal }
func (*journaled) trouble(int, *rand.Rand) string { return "" }
func (j *journaled) crash(_ int, r *rand.Rand) {
	if err := j.Close(); err != nil {
		j.t.Fatal(err)
	}
	const line = `{"place":"t/torn","worker":"w9"}`
	f, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		j.t.Fatal(err)
	}
	if _, err := f.WriteString(line[:r.IntN(len(line)+1)]); err != nil {
		j.t.Fatal(err)
	}
	f.Close()
	if j.Journal, err = OpenJournal(j.path); err != nil {
		j.t.Fatal(err)
	}
}

// common is a fleet of several fronts with one store.
type common struct {
	t     *testing.T
	store *faulty
	all   []*sharer
}

// sharer is one of the fronts.
type sharer struct {
	*Shared
	kept *journaled
	seen int  // number of changes that this front was notified of
	cut  bool // whether this front cannot reach the store
}

func newCommon(t *testing.T, dir string, r *rand.Rand) *common {
	t.Helper()
	c := &common{t: t, store: &faulty{r: r, items: make(map[string]bus.Item)}}
	for i := range 3 {
		f := &sharer{kept: openJournaled(t, filepath.Join(dir, fmt.Sprint(i)))}
		c.all = append(c.all, f)
		c.start(f)
	}
	return c
}

func (c *common) fronts() int { return len(c.all) }

// front returns the claims of a front, after it was notified of a few more changes.
func (c *common) front(i int) Claims {
	f := c.all[i]
	for !f.cut && f.seen < len(c.store.changes) && c.store.r.IntN(3) > 0 {
		f.apply(c.store.changes[f.seen])
		f.seen++
	}
	return &reached{f.Shared, f, c.store}
}

// start makes a front follow the store from the beginning.
func (c *common) start(f *sharer) {
	f.Shared = newShared(c.store, f.kept.Journal, slog.New(slog.DiscardHandler))
	f.settle, f.retry = 0, time.Nanosecond
	c.sync(f)
}

func (c *common) sync(f *sharer) {
	f.cut = false
	c.store.calm = true
	_ = f.follow(c.t.Context()) // follow returns immediately, see faulty
	c.store.calm = false
	f.seen = len(c.store.changes)
	if f.Ready() != nil {
		c.t.Fatal(f.Ready())
	}
}

func (c *common) crash(i int, r *rand.Rand) {
	f := c.all[i]
	f.kept.crash(0, r)
	c.start(f)
}

func (c *common) trouble(i int, r *rand.Rand) string {
	f := c.all[i]
	switch n := r.IntN(6); {
	case n < 3:
		if f.cut = !f.cut; !f.cut {
			c.sync(f)
		}
		return fmt.Sprintf("front %d is cut off: %v", i, f.cut)
	case n == 3: // the store becomes empty, and all fronts follow it again before new places are claimed
		c.store.mu.Lock()
		c.store.items, c.store.changes = make(map[string]bus.Item), nil
		c.store.mu.Unlock()
		for _, j := range r.Perm(len(c.all)) {
			c.sync(c.all[j])
		}
		return "all is lost"
	case n == 4: // the store loses its last changes
		c.store.forget(r.IntN(4))
		for _, j := range r.Perm(len(c.all)) {
			c.sync(c.all[j])
		}
		return "the last changes are lost"
	}
	return ""
}

// reached is the claims of a front that may be cut off from the store.
type reached struct {
	*Shared
	f     *sharer
	store *faulty
}

func (r *reached) Ready() error {
	if r.f.cut {
		return errors.New("cut off")
	}
	return r.Shared.Ready()
}

func (r *reached) Swap(ctx context.Context, place string, old, next Claim) (Claim, error) {
	if r.f.cut {
		return Claim{}, errors.New("cut off")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return r.Shared.Swap(context.WithValue(ctx, endKey{}, cancel), place, old, next)
}

type endKey struct{}

// faulty is a store that fails, either before it writes or after it has written.
type faulty struct {
	r    *rand.Rand
	calm bool

	mu      sync.Mutex
	items   map[string]bus.Item // guarded by mu
	changes []bus.Item          // guarded by mu
	last    uint64              // guarded by mu
}

// forget loses the last n changes.
func (s *faulty) forget(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = s.changes[:max(0, len(s.changes)-n)]
	s.items = make(map[string]bus.Item)
	for _, i := range s.changes {
		s.items[i.Key] = i
	}
}

var errFaulty = errors.New("no answer")

// fails reports whether a call fails now. It may also end the context, so that all later
// calls of the same Swap fail.
func (s *faulty) fails(ctx context.Context) bool {
	if s.calm || s.r.IntN(8) > 0 {
		return false
	}
	if end, ok := ctx.Value(endKey{}).(context.CancelFunc); ok && s.r.IntN(2) == 0 {
		end()
	}
	return true
}

func (s *faulty) Get(ctx context.Context, key string) (bus.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.fails(ctx) {
		return bus.Item{}, errFaulty
	}
	return s.items[key], nil
}

func (s *faulty) Put(ctx context.Context, i bus.Item) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.fails(ctx) {
		return 0, errFaulty
	}
	if s.items[i.Key].Revision != i.Revision {
		return 0, bus.ErrConflict
	}
	s.last++
	i.Revision = s.last
	s.items[i.Key] = i
	s.changes = append(s.changes, i)
	if s.fails(ctx) {
		return 0, errFaulty
	}
	return i.Revision, nil
}

// Follow calls each with every item, and returns.
func (s *faulty) Follow(_ context.Context, each func(bus.Item), caughtUp func(time.Duration)) error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.items))
	s.mu.Unlock()
	for _, i := range all {
		each(i)
	}
	caughtUp(0)
	return nil
}

// Whatever happens to fronts and to the store, a place is at one worker at most, and has
// the last acknowledged value there.
func TestClaims(t *testing.T) {
	n, r := testenv.Cases(t, 2000)
	dir := testenv.MemoryDir(t)
	claimed, released := 0, 0
	for i := range n {
		var h *history
		if i%2 == 0 {
			c := newCommon(t, dir, r)
			h = runHistory(t, c, r)
			for _, f := range c.all {
				f.kept.Close()
			}
		} else {
			j := openJournaled(t, filepath.Join(dir, "0"))
			h = runHistory(t, j, r)
			j.Close()
		}
		claimed += len(h.last)
		for _, line := range h.did {
			if strings.Contains(line, "release") && strings.HasSuffix(line, "<nil>") {
				released++
			}
		}
	}
	t.Logf("%d histories, %d places, %d releases", n, claimed, released)
	if claimed < n/2 || released < n/20 {
		t.Errorf("%d histories have %d places and %d releases, which is too little to find anything", n, claimed, released)
	}
}
