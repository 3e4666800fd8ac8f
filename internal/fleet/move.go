package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"belljar.dev/internal/fleet/claims"
)

// Times and bounds of moves.
const (
	lookMoves = time.Second // between two looks at what moves have left
	// takeOver is how long a front leaves a move alone that another one has begun.
	takeOver   = 20 * time.Second
	retryMove  = 250 * time.Millisecond
	stepWait   = 30 * time.Second
	freezeWait = 11 * time.Minute // longer than any --drain
	stallWait  = 30 * time.Second // of a copy that does not go on
	copyWait   = time.Hour        // of one that does, with what comes before and after its bytes
	patience   = time.Minute      // for the two workers of a move that is not decided
	fileGrace  = time.Minute      // of a copy from a file that nobody claims
	maxDrives  = 4                // moves that a front works on at once
	maxSaid    = 1000             // places whose last move is remembered
)

// moves is the moves that a front works on. What holds of each is in its claim: this can be
// made anew at any time.
type moves struct {
	front *Front
	begun chan struct{} // has one when this front has begun a move

	mu    sync.Mutex
	busy  map[string]*drive    // guarded by mu: by place
	seen  map[string]watched   // guarded by mu: by place
	files map[string]time.Time // guarded by mu: since when copies from files are there
	said  map[string]string    // guarded by mu: by place: how its last move ended
	all   sync.WaitGroup
}

// drive is a move that this front works on.
type drive struct {
	claim  claims.Claim // guarded by moves.mu
	copied atomic.Int64 // bytes of the stream
	wrong  error        // guarded by moves.mu: why the last attempt failed
}

// watched is the claim of a move, and since when it is as it is.
type watched struct {
	claims.Claim
	since time.Time
}

func newMoves(f *Front) *moves {
	return &moves{front: f, begun: make(chan struct{}, 1), busy: make(map[string]*drive), seen: make(map[string]watched), files: make(map[string]time.Time), said: make(map[string]string)}
}

// own has this front go on with a move that it has begun, without waiting for others.
func (m *moves) own(place string, c claims.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[place] = watched{Claim: c}
	select {
	case m.begun <- struct{}{}:
	default:
	}
}

// run looks after moves until the front is closed, and waits for those that it works on.
func (m *moves) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer m.all.Wait()
	defer cancel() // which each step of a worker hears of
	tick := time.NewTicker(lookMoves)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.front.roster.over:
			return
		case <-tick.C:
		case <-m.begun:
		}
		m.look(ctx)
	}
}

// look goes on with moves that nobody works on, and has workers clear up what others left.
func (m *moves) look(ctx context.Context) {
	moving := m.front.cfg.Claims.Moving()
	for place, c := range moving {
		if m.alone(place, c) && m.linked(place, c) {
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
	if m.front.cfg.Claims.Ready() != nil {
		return
	}
	remains := m.front.roster.remains()
	for _, r := range remains {
		if c := m.front.cfg.Claims.Owner(r.Place); c.Moving() && c.Move == r.Move {
			continue
		}
		if d := m.take(r.Place, claims.Claim{}); d != nil {
			m.all.Go(func() {
				defer m.release(r.Place)
				if err := m.tidy(ctx, r); err != nil && ctx.Err() == nil {
					m.front.cfg.Log.Warn("what a move has left is not cleared up; it is tried again", "place", r.Place, "worker", r.Name, "err", err)
				}
			})
		}
	}
	m.forgetFiles(remains)
}

// alone reports whether no other front works on a move, as far as can be told.
func (m *moves) alone(place string, c claims.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[place]
	if s.Claim != c {
		s = watched{c, time.Now()}
		m.seen[place] = s
	}
	return !m.front.cfg.Together || time.Since(s.since) >= takeOver
}

// linked reports whether the workers are there that the next step of a move needs. A
// move that is not decided is tried without them, and given up in the end.
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

// take notes that this front works on a place; nil if it does already, or has enough to do.
func (m *moves) take(place string, c claims.Claim) *drive {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[place] != nil || len(m.busy) >= maxDrives {
		return nil
	}
	d := &drive{claim: c}
	m.busy[place] = d
	return d
}

func (m *moves) release(place string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, place)
}

// start works on a move in the background. It reports whether it does.
func (m *moves) start(ctx context.Context, place string, c claims.Claim) bool {
	d := m.take(place, c)
	if d == nil {
		return false
	}
	m.all.Go(func() {
		defer m.release(place)
		m.drive(ctx, place, d)
	})
	return true
}

// drive takes the steps of a move until it is settled or given up, or waits for a worker.
func (m *moves) drive(ctx context.Context, place string, d *drive) {
	began := time.Now()
	for c := d.claim; ctx.Err() == nil && c.Moving(); {
		next, err := m.advance(ctx, place, c, d)
		if errors.Is(err, ErrBusy) {
			return // another front is at it
		}
		_, final := errors.AsType[*Refusal](err)
		if final && c.From == claims.FromFile {
			next, err = m.swap(ctx, place, c, claims.Claim{}) // the copy is gone
		}
		if err != nil && c.To != "" && (final || time.Since(began) > patience) {
			next, err = m.abandon(ctx, place, c, err.Error())
		}
		m.mu.Lock()
		d.claim, d.wrong = next, err
		m.mu.Unlock()
		if c = next; err == nil {
			began = time.Now()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		m.front.cfg.Log.Warn("a place does not get on with its move; it is tried again", "place", place, "move", c.Move, "err", err)
		if c.From != "" && !m.linked(place, c) {
			return // look begins again when it is
		}
		pause := time.NewTimer(retryMove)
		select {
		case <-ctx.Done():
		case <-m.front.roster.over:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// advance brings a move to its next claim, and returns the one that holds then.
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
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	_, err := from.do(ctx, StepFreeze, Moving{place, claims.Mark{Move: c.Move, To: c.To}})
	return err
}

// copy has one worker pack a place and the other one unpack it.
func (m *moves) copy(ctx context.Context, place string, c claims.Claim, from, to *link, d *drive) error {
	ctx, over := context.WithTimeoutCause(ctx, copyWait, errors.New("the copy takes too long"))
	defer over()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	packed, err := from.step(ctx, StepPack, Moving{place, claims.Mark{Move: c.Move, To: c.To}}, nil)
	if err != nil {
		return err
	}
	defer packed.Body.Close()
	d.copied.Store(0)
	in := paced(packed.Body, &d.copied, stop)
	defer in.stop()
	res, err := to.step(ctx, StepReceive, Moving{place, claims.Mark{Move: c.Move, From: c.Worker}}, in)
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			return why
		}
		return err
	}
	return res.Body.Close()
}

// pace is a stream that must go on: where it does not for stallWait, it is cut off.
type pace struct {
	io.Reader
	n     *atomic.Int64
	timer *time.Timer
}

func paced(r io.Reader, n *atomic.Int64, stop context.CancelCauseFunc) *pace {
	return &pace{r, n, time.AfterFunc(stallWait, func() { stop(errors.New("the copy does not go on")) })}
}

// Read reads what comes.
func (p *pace) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.n.Add(int64(n))
	if n > 0 {
		p.timer.Reset(stallWait)
	}
	if err != nil {
		p.timer.Stop() // the other end has all, and checks it
	}
	return n, err
}

func (p *pace) stop() { p.timer.Stop() }

// finish is advance for a move that is decided.
func (m *moves) finish(ctx context.Context, place string, c claims.Claim) (claims.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	// What was decided may be known here too late to be true.
	if now, err := m.swap(ctx, place, c, c); err != nil || now != c {
		return now, err
	}
	to := m.front.roster.named(c.Worker)
	if to == nil {
		return c, fmt.Errorf("worker %s is not linked", c.Worker)
	}
	if _, err := to.do(ctx, StepTake, Moving{place, claims.Mark{Move: c.Move, From: c.From}}); err != nil {
		return c, err
	}
	m.front.roster.made(to, place)
	m.front.roster.wake()
	if c.From != claims.FromFile {
		from := m.front.roster.named(c.From)
		if from == nil {
			return c, fmt.Errorf("worker %s is not linked, and still has what was copied", c.From)
		}
		if _, err := from.do(ctx, StepDrop, Moving{place, claims.Mark{Move: c.Move, To: c.Worker}}); err != nil {
			return c, err
		}
	}
	now, err := m.swap(ctx, place, c, c.Settle())
	if err == nil && now == c.Settle() {
		how := "moved to"
		if c.From == claims.FromFile {
			how = "came from a file to"
		}
		m.say(place, fmt.Sprintf("%s worker %s", how, c.Worker))
		m.front.cfg.Log.Info("a place has moved", "place", place, "from", c.From, "to", c.Worker, "move", c.Move)
	}
	return now, err
}

// abandon gives a move up that is not decided. The place stays where it is.
func (m *moves) abandon(ctx context.Context, place string, c claims.Claim, why string) (claims.Claim, error) {
	now, err := m.swap(ctx, place, c, c.Abandon())
	if err != nil || now != c.Abandon() {
		return now, err
	}
	m.say(place, fmt.Sprintf("stayed at worker %s: %s", c.Worker, why))
	m.front.cfg.Log.Warn("a place does not move", "place", place, "worker", c.Worker, "to", c.To, "move", c.Move, "why", why)
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	// What does not reach its worker, look finds.
	if l := m.front.roster.named(c.Worker); l != nil {
		_, _ = l.do(ctx, StepThaw, Moving{place, claims.Mark{Move: c.Move, To: c.To}})
	}
	if l := m.front.roster.named(c.To); l != nil {
		_, _ = l.do(ctx, StepDiscard, Moving{place, claims.Mark{Move: c.Move, From: c.Worker}})
	}
	return now, nil
}

// swap is that of the claims. Those that wait for the place look again.
func (m *moves) swap(ctx context.Context, place string, old, next claims.Claim) (claims.Claim, error) {
	now, err := m.front.cfg.Claims.Swap(ctx, place, old, next)
	if err != nil {
		return old, err
	}
	m.front.roster.wake()
	return now, nil
}

// tidy has a worker clear up what is left of a move that is over.
func (m *moves) tidy(ctx context.Context, r remain) error {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	known := m.front.cfg.Claims.Owner(r.Place)
	if now, err := m.front.cfg.Claims.Swap(ctx, r.Place, known, known); err != nil || now != known {
		return err // it is known now, and looked at once more
	}
	holders, _ := m.front.roster.holding(r.Place)
	served := len(holders) == 1 && holders[0].Name == known.Worker
	var step Step
	switch known.Remains(r.Name, r.Mark, served, len(holders) == 0 && m.front.roster.named(r.To) != nil) {
	case claims.Leave:
		return nil
	case claims.Reclaim:
		_, err := m.swap(ctx, r.Place, known, claims.Claim{Worker: r.Name, Move: r.Move})
		return err
	case claims.Thaw:
		step = StepThaw
	case claims.Drop:
		step = StepDrop
	case claims.Discard:
		if r.From == claims.FromFile && known == (claims.Claim{}) && !m.old(r) { // somebody is about to claim it
			return nil
		}
		step = StepDiscard
	}
	_, err := r.do(ctx, step, r.Moving)
	if err == nil {
		m.front.cfg.Log.Info("a worker has cleared up what a move has left", "place", r.Place, "worker", r.Name, "move", r.Move, "step", string(step))
	}
	return err
}

// old reports whether a copy from a file has been there for a while.
func (m *moves) old(r remain) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.files[r.Name+" "+r.Place]
	if !known {
		m.files[r.Name+" "+r.Place] = time.Now()
	}
	return known && time.Since(since) > fileGrace
}

// forgetFiles forgets the copies from files that are not there any more.
func (m *moves) forgetFiles(all []remain) {
	there := make(map[string]bool, len(all))
	for _, r := range all {
		there[r.Name+" "+r.Place] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.files {
		if !there[name] {
			delete(m.files, name)
		}
	}
}

// say notes how the last move of a place has ended.
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
