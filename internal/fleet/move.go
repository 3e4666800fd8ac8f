package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// moveTimes are the times of moves, and other bounds that tests lower.
type moveTimes struct {
	reconcile time.Duration // time between two calls of moves.reconcile
	takeOver  time.Duration // time for which another front's move is left to that front
	retry     time.Duration
	step      time.Duration // time for a worker's step without a stream
	undo      time.Duration // time for both workers to undo a move; reconcile continues afterwards
	freeze    time.Duration // time for a freeze, longer than any --drain
	stall     time.Duration // time for leastPart bytes of a stream
	quiet     time.Duration // silence of an end before the first byte or after the last one
	copy      time.Duration // time for a whole stream
	patience  time.Duration // time for the two workers of a move that is not decided
	grace     time.Duration // age of a copy from a file without a claim before it is removed
	say       time.Duration // least time between two signs of life of a worker
	most      int64         // size of a stream in bytes

	unclaimed time.Duration // pause before each round of unclaimed.claim
}

var usualMoves = moveTimes{
	reconcile: time.Second, takeOver: 20 * time.Second, retry: 250 * time.Millisecond, step: 30 * time.Second, undo: 3 * time.Second, freeze: 11 * time.Minute,
	stall: time.Minute, quiet: 5 * time.Minute, copy: time.Hour, patience: time.Minute, grace: time.Minute, say: time.Second, most: MaxForwarded,
	unclaimed: settleWait,
}

// Bounds of moves.
const (
	maxDrives = 8    // number of moves that a front works on at the same time
	maxOfOne  = 2    // number of those moves for one worker, which may be slow
	maxSaid   = 1000 // number of places whose last move is remembered
)

// moves are the moves that a front works on. The state of each move is in its claim, so
// this data can be lost at any time.
type moves struct {
	front *Front
	times moveTimes
	news  chan struct{} // has an element when this front has begun a move

	cleanup *cleanup

	mu   sync.Mutex
	busy map[string]*drive  // guarded by mu: moves that this front works on, by place
	seen map[string]watched // guarded by mu: observed claims by place
	said map[string]string  // guarded by mu: how the last move ended, by place
	all  sync.WaitGroup
}

// watched is the claim of a move, and the time when it was first observed.
type watched struct {
	claims.Claim
	since time.Time
	own   bool // whether this front has begun the move
}

func newMoves(f *Front) *moves {
	m := &moves{front: f, times: cmp.Or(f.cfg.times, usualMoves), news: make(chan struct{}, 1), busy: make(map[string]*drive), seen: make(map[string]watched), said: make(map[string]string)}
	m.cleanup = &cleanup{moves: m, files: make(map[string]time.Time)}
	return m
}

// own makes this front continue a move that it has begun, without waiting for other fronts.
func (m *moves) own(place string, c claims.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[place] = watched{Claim: c, since: time.Now(), own: true}
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// run handles moves, and places without a claim, until the front is closed. It waits for
// the moves that this front works on.
func (m *moves) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer m.all.Wait()
	defer cancel() // this ends each step of a worker
	m.all.Go(func() { unclaimed{m.front, m.times.unclaimed}.claim(ctx) })
	tick := time.NewTicker(m.times.reconcile)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.front.roster.over:
			return
		case <-tick.C:
		case <-m.news:
		}
		m.reconcile(ctx)
	}
}

// reconcile continues moves that no front works on, and makes workers clean up what other
// moves have left.
func (m *moves) reconcile(ctx context.Context) {
	m.interrupt()
	moving := m.front.cfg.Claims.Moving()
	for place, c := range moving {
		if m.mine(place, c) && m.linked(place, c) {
			m.start(ctx, place, c)
		}
	}
	m.mu.Lock()
	for place := range m.seen {
		if _, still := moving[place]; !still {
			delete(m.seen, place)
		}
	}
	m.mu.Unlock()
	m.cleanup.reconcile(ctx)
}

// mine reports whether this front may work on a move: it has begun the move, or it seems
// that no other front works on it.
func (m *moves) mine(place string, c claims.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[place]
	if s.Claim != c {
		s = watched{Claim: c, since: time.Now()}
		m.seen[place] = s
	}
	return s.own || !m.front.cfg.SharedClaims || time.Since(s.since) >= m.times.takeOver
}

// linked reports whether the workers for the next step of a move are linked. A move that is
// not decided is tried without them, and is abandoned in the end.
func (m *moves) linked(place string, c claims.Claim) bool {
	if c.To != "" {
		return true
	}
	holders, _ := m.front.roster.holding(place)
	if m.front.roster.named(c.Worker) == nil {
		return false
	}
	return len(holders) == 0 || c.From == claims.FromFile || m.front.roster.named(c.From) != nil
}

// errGivenUp ends the work on a move that was abandoned meanwhile.
var errGivenUp = errors.New("the move was given up")

// interrupt ends the work on moves that this or another front has abandoned, and returns
// it.
func (m *moves) interrupt() (all []*drive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for place, d := range m.busy {
		if now := m.front.cfg.Claims.Owner(place); d.claim.To != "" && (!now.Moving() || now.Move != d.claim.Move) {
			d.stop(errGivenUp)
			all = append(all, d)
		}
	}
	return all
}

// start works on a move in the background.
func (m *moves) start(ctx context.Context, place string, c claims.Claim) {
	workers := []string{c.Worker}
	if c.To != "" {
		workers = append(workers, c.To)
	}
	if ctx, d := m.acquire(ctx, place, c, workers...); d != nil {
		m.all.Go(func() {
			defer m.release(place, d)
			m.drive(ctx, place, d)
		})
	}
}

// since returns when a claim was first observed.
func (m *moves) since(place string, c claims.Claim) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seen[place]; s.Claim == c {
		return s.since
	}
	return time.Now()
}

// drive makes the steps of a move until it is settled or abandoned, or until it must wait
// for a worker.
func (m *moves) drive(ctx context.Context, place string, d *drive) {
	began := time.Now()
	for c := d.claim; ctx.Err() == nil && c.Moving(); {
		next, err := m.advance(ctx, place, c, d)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrBusy) {
			patience := m.times.patience
			if errors.Is(err, ErrAtWork) {
				patience = m.times.copy // a worker that only reports progress keeps a place frozen no longer than this
			}
			if began = m.since(place, c); c.To == "" || time.Since(began) <= patience {
				d.got(m, c, err)
				return // reconcile starts the work again later
			}
		}
		_, final := errors.AsType[*Refusal](err)
		if final && c.From == claims.FromFile {
			next, err = m.notMade(ctx, place, c, err) // the copy was removed
		}
		if err != nil && c.To != "" && (final || time.Since(began) > m.times.patience) {
			next, err = m.abandon(ctx, place, c, err.Error())
		}
		d.got(m, next, err)
		if c = next; err == nil {
			began = time.Now()
			continue
		}
		m.front.cfg.Log.Warn("a move of a place makes no progress; the front tries again", "place", place, "move", c.Move, "err", err)
		if c.From != "" && !m.linked(place, c) {
			return // reconcile starts the work again when they are linked
		}
		pause := time.NewTimer(m.times.retry)
		select {
		case <-ctx.Done():
		case <-m.front.roster.over:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// advance brings a move to its next claim, and returns the claim that is then in force.
func (m *moves) advance(ctx context.Context, place string, c claims.Claim, d *drive) (claims.Claim, error) {
	if c.To == "" {
		return m.finish(ctx, place, c)
	}
	from, to := m.front.roster.named(c.Worker), m.front.roster.named(c.To)
	if from == nil || to == nil {
		return c, fmt.Errorf("worker %s or worker %s is not linked", c.Worker, c.To)
	}
	if err := m.freeze(ctx, place, c, from); err != nil {
		return c, err
	}
	if err := m.copy(ctx, place, c, from, to, d); err != nil {
		return c, err
	}
	return m.swap(ctx, place, c, c.Decide())
}

func (m *moves) freeze(ctx context.Context, place string, c claims.Claim, from *link) error {
	ctx, cancel := context.WithTimeout(ctx, m.times.freeze)
	defer cancel()
	_, err := from.do(ctx, StepFreeze, Marked{place, claims.Mark{Move: c.Move, To: c.To}})
	return err
}

// copy makes one worker pack a place and the other unpack it.
func (m *moves) copy(ctx context.Context, place string, c claims.Claim, from, to *link, d *drive) error {
	d.copied.Store(0)
	ctx, p, end := m.times.startPace(ctx, m.times.quiet, &d.copied)
	defer end()
	packed, err := from.step(ctx, StepPack, Marked{place, claims.Mark{Move: c.Move, To: c.To}}, nil)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer packed.Body.Close()
	res, err := to.step(ctx, StepReceive, Marked{place, claims.Mark{Move: c.Move, From: c.Worker}}, p.through(packed.Body))
	if err != nil {
		return causeOf(ctx, err)
	}
	return res.Body.Close()
}

// finish is advance for a move that is decided.
func (m *moves) finish(ctx context.Context, place string, c claims.Claim) (claims.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, m.times.step)
	defer cancel()
	// The decision that is known here may be outdated.
	if now, err := m.swap(ctx, place, c, c); err != nil || now != c {
		return now, err
	}
	to := m.front.roster.named(c.Worker)
	if to == nil {
		return c, fmt.Errorf("worker %s is not linked", c.Worker)
	}
	if _, err := to.do(ctx, StepTake, Marked{place, claims.Mark{Move: c.Move, From: c.From}}); err != nil {
		return c, err
	}
	m.front.roster.made(to, place)
	m.front.roster.wake()
	if c.From != claims.FromFile {
		from := m.front.roster.named(c.From)
		if from == nil {
			return c, fmt.Errorf("worker %s is not linked, and still has what was copied", c.From)
		}
		if _, err := from.do(ctx, StepDrop, Marked{place, claims.Mark{Move: c.Move, To: c.Worker}}); err != nil {
			return c, err
		}
	}
	now, err := m.swap(ctx, place, c, c.Settle())
	if err == nil && now == c.Settle() {
		how := "moved to"
		if c.From == claims.FromFile {
			how = "was imported from a file to"
		}
		m.say(place, fmt.Sprintf("%s worker %s", how, c.Worker))
		m.front.cfg.Log.Info("a place has moved", "place", place, "from", c.From, "to", c.Worker, "move", c.Move)
	}
	return now, err
}

// abandon abandons a move that is not decided. The place stays where it is.
func (m *moves) abandon(ctx context.Context, place string, c claims.Claim, why string) (claims.Claim, error) {
	now, err := m.swap(ctx, place, c, c.Abandon())
	if err == nil && now == c.Abandon() {
		m.say(place, fmt.Sprintf("stayed at worker %s: %s", c.Worker, why))
		m.front.cfg.Log.Warn("a place stays at its worker", "place", place, "worker", c.Worker, "to", c.To, "move", c.Move, "why", why)
		m.undo(ctx, place, c)
	}
	return now, err
}

// undo makes the workers of an abandoned move put the place to work again and remove the
// copy. If it does not reach them in time, reconcile does it later.
func (m *moves) undo(ctx context.Context, place string, c claims.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.times.undo)
	defer cancel()
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { m.until(ctx, c.Worker, StepThaw, Marked{place, claims.Mark{Move: c.Move, To: c.To}}) })
	both.Go(func() { m.until(ctx, c.To, StepDiscard, Marked{place, claims.Mark{Move: c.Move, From: c.Worker}}) })
}

// until makes a worker take a step, and repeats it while the worker is busy with the place.
func (m *moves) until(ctx context.Context, worker string, s Step, at Marked) {
	again := time.NewTicker(m.times.retry)
	defer again.Stop()
	for {
		l := m.front.roster.named(worker)
		if l == nil {
			return
		}
		if _, err := l.do(ctx, s, at); !errors.Is(err, ErrBusy) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// giveUp is abandon for an operator. The work of this front on the move is ended
// immediately.
func (m *moves) giveUp(ctx context.Context, place string, c claims.Claim) error {
	now, err := m.swap(ctx, place, c, c.Abandon())
	if err == nil && now != c.Abandon() {
		err = errors.New("its outcome is decided already, or it has ended")
	}
	if err != nil {
		return err
	}
	m.say(place, fmt.Sprintf("stayed at worker %s: the operator stopped it", c.Worker))
	m.front.cfg.Log.Info("an operator has stopped the move of a place", "place", place, "worker", c.Worker, "to", c.To, "move", c.Move)
	for _, d := range m.interrupt() {
		select {
		case <-d.ended:
		case <-ctx.Done():
			return nil // the move is abandoned, and reconcile does the rest
		}
	}
	m.undo(ctx, place, c)
	return nil
}

// got records the present state of a drive.
func (d *drive) got(m *moves, c claims.Claim, wrong error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.claim, d.wrong = c, wrong
}

// notMade gives up a place from a file that its worker refuses to put to work.
func (m *moves) notMade(ctx context.Context, place string, c claims.Claim, why error) (claims.Claim, error) {
	next, err := m.swap(ctx, place, c, claims.Claim{})
	if err == nil {
		m.say(place, "was not made: "+why.Error())
		m.front.cfg.Log.Warn("a place was not made from a file", "place", place, "worker", c.Worker, "why", why)
	}
	return next, err
}

// say records how the last move of a place has ended.
func (m *moves) say(place, how string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other := range m.said {
		if len(m.said) < maxSaid {
			break
		}
		delete(m.said, other)
	}
	m.said[place] = how
}
