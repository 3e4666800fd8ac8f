package claims

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/fleet/bus"
	"belljar.dev/internal/pause"
)

// Store is what Shared needs of a [bus.Bucket]. Its methods are safe for concurrent use.
type Store interface {
	Get(ctx context.Context, key string) (bus.Item, error)
	Put(ctx context.Context, i bus.Item) (revision uint64, err error)
	Follow(ctx context.Context, each func(bus.Item), caughtUp func(age time.Duration)) error
}

// Times and bounds of shared claims.
const (
	// swapWait is how long a swap waits for a store that does not answer: longer than three
	// servers need to agree on another leader.
	swapWait    = 9 * time.Second
	attemptWait = 2 * time.Second // for one answer
	retryWait   = 100 * time.Millisecond
	// settleWait is how long no new place is claimed in a store that is new, or has lost
	// claims: another front may know of more.
	settleWait = 5 * time.Second
	refillWait = time.Minute // for all claims that were lost
	refills    = 16          // claims that are written at once into such a store
)

// Shared is the claims of several fronts. Claims that are known are answered from memory, also
// while the store is away; a new claim is agreed on in the store. Close it.
type Shared struct {
	store  Store
	kept   *Journal
	log    *slog.Logger
	stop   context.CancelFunc
	ended  chan struct{}
	settle time.Duration
	retry  time.Duration

	mu      sync.Mutex
	known   map[string]version // guarded by mu: by place, also those that were released
	away    error              // guarded by mu: why the store does not answer; nil if it does
	settled time.Time          // guarded by mu: when new places can be claimed
	changed func()             // guarded by mu
}

// version is a claim, and its revision in the store; 0 where it was never seen there.
type version struct {
	stored

	revision uint64
}

// OpenShared begins to follow a store, and ends that with Close. It takes what kept
// remembers, and keeps there what it sees; kept is closed by the caller, later.
func OpenShared(ctx context.Context, store Store, kept *Journal, log *slog.Logger) *Shared {
	return newShared(store, kept, log).begin(ctx)
}

func (s *Shared) begin(ctx context.Context) *Shared {
	ctx, s.stop = context.WithCancel(ctx)
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		s.run(ctx)
	}()
	return s
}

func newShared(store Store, kept *Journal, log *slog.Logger) *Shared {
	s := &Shared{store: store, kept: kept, log: log, settle: settleWait, retry: retryWait, known: make(map[string]version), away: errors.New("it has not answered yet"), changed: func() {}}
	for place, c := range kept.remembers() {
		s.known[place] = version{stored: c}
	}
	return s
}

// Close ends the following, and waits for it. Then claims are still answered from memory.
// Twice is fine.
func (s *Shared) Close() {
	s.stop()
	<-s.ended
}

// run follows the store until ctx ends.
func (s *Shared) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		was := s.away
		s.away = err
		s.mu.Unlock()
		if was == nil || was.Error() != err.Error() {
			s.log.Warn("the claims of places are not followed; no new place is made until they are, and those that exist are served", "err", err)
		}
		_ = s.pause(ctx, err)
	}
}

// follow reads all claims, writes those back that the store has lost, and then notes each
// change, until it may have missed one.
func (s *Shared) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var first []bus.Item // all claims in the store when following begins
	caughtUp := false
	var refilling sync.WaitGroup
	defer refilling.Wait()
	err := s.store.Follow(ctx, func(i bus.Item) {
		switch {
		case caughtUp:
			s.apply(i)
		case len(first) >= maxPlaces:
			cancel(errFull)
		default:
			first = append(first, i)
		}
	}, func(age time.Duration) {
		caughtUp = true
		lost := s.meet(first)
		first = nil
		refilling.Go(func() { // while changes are noted: its own are among them
			wrote, err := s.refill(ctx, lost)
			if err != nil {
				cancel(err)
				return
			}
			if wrote > 0 {
				age = 0
			}
			s.followed(age)
		})
	})
	if why := context.Cause(ctx); why != nil && err != nil {
		err = why
	}
	if err == nil {
		err = errors.New("the following has ended")
	}
	return err
}

// errFull is the error of a store with more claims than a front takes.
var errFull = fmt.Errorf("there are more than %d places, which is all that a front takes", maxPlaces)

// followed notes that the store answers, and has all that is known here. Other fronts may have
// to fill one of this age.
func (s *Shared) followed(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = time.Now().Add(s.settle - age)
	s.away = nil
	s.changed()
	s.log.Info("the claims of places are followed", "places", len(s.known))
}

// meet notes what is in a store that was not followed before, and returns what is known here
// and was lost there.
func (s *Shared) meet(all []bus.Item) (lost []entry) {
	var news []entry
	there := make(map[string]bool, len(all))
	s.mu.Lock()
	for _, i := range all {
		place := placeOf(i.Key)
		v := s.read(place, i)
		if v.Turn < s.known[place].Turn {
			continue
		}
		there[place] = true
		s.known[place] = v
		news = append(news, entry{place, v.stored})
	}
	for place, v := range s.known {
		if !there[place] {
			lost = append(lost, entry{place, v.stored})
			s.known[place] = version{stored: v.stored} // its revision was that of another store
		}
	}
	s.mu.Unlock()
	s.remember(news)
	return lost
}

// refill writes claims into a store that has lost them. Where another front was first with a
// later claim, that one holds. It returns how many it wrote.
func (s *Shared) refill(ctx context.Context, lost []entry) (wrote int, fault error) {
	if len(lost) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, refillWait, errors.New("writing the claims again took too long"))
	defer cancel()
	var writing sync.WaitGroup
	room := make(chan struct{}, refills)
	var mu sync.Mutex
	for _, e := range lost {
		room <- struct{}{}
		writing.Go(func() {
			defer func() { <-room }()
			put, err := s.restore(ctx, e)
			if err != nil {
				cancel() // the rest
			}
			mu.Lock()
			defer mu.Unlock()
			if put {
				wrote++
			}
			fault = errors.Join(fault, err)
		})
		if ctx.Err() != nil {
			break
		}
	}
	writing.Wait()
	if wrote > 0 {
		s.log.Warn("claims of places were lost where all fronts keep them, and are there again", "places", wrote)
	}
	return wrote, fault
}

// restore writes one claim that the store has lost, unless it has a later one.
func (s *Shared) restore(ctx context.Context, e entry) (wrote bool, err error) {
	at := version{}
	for {
		err := s.put(ctx, e.Place, e.stored, at.revision)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, bus.ErrConflict) {
			if err = s.pause(ctx, err); err != nil {
				return false, err
			}
		}
		if at, err = s.latest(ctx, e.Place); err != nil {
			if err = s.pause(ctx, err); err != nil {
				return false, err
			}
			continue
		}
		if at.revision > 0 && at.Turn >= e.Turn {
			s.note(e.Place, at)
			return false, nil
		}
	}
}

// apply notes a change in the store. It may be older than what was written here after it.
func (s *Shared) apply(i bus.Item) {
	place := placeOf(i.Key)
	s.note(place, s.read(place, i))
}

// read reads a claim. One that cannot be read belongs to a worker that does not exist, so
// that nobody serves its place.
func (s *Shared) read(place string, i bus.Item) version {
	c, err := parse(i.Value)
	if err != nil {
		s.log.Error("a claim cannot be read; its place is not served", "place", place, "err", err)
		c = stored{Claim: Claim{Worker: unreadable}}
	}
	return version{c, i.Revision}
}

// remember has the disk of this front remember claims.
func (s *Shared) remember(all []entry) {
	if err := s.kept.record(all); err != nil {
		s.log.Error("claims of places are not kept on the disk of this front", "err", err)
	}
}

// unreadable is the worker of a claim that cannot be read. No worker has this name.
const unreadable = "?"

func parse(value []byte) (c stored, err error) {
	if len(value) > maxLine {
		return c, fmt.Errorf("it has %d bytes", len(value))
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return c, d.Decode(&c)
}

// keyOf is the key of a place. Names of places have no "=", and keys no dots at their end.
func keyOf(place string) string { return strings.ReplaceAll(place, ".", "=") }

func placeOf(key string) string { return strings.ReplaceAll(key, "=", ".") }

// Owner implements Claims.
func (s *Shared) Owner(place string) Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[place].Claim
}

// All implements Claims.
func (s *Shared) All() map[string]Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Claim, len(s.known))
	for place, v := range s.known {
		if v.Claim != (Claim{}) {
			all[place] = v.Claim
		}
	}
	return all
}

// Moving implements Claims.
func (s *Shared) Moving() map[string]Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Claim)
	for place, v := range s.known {
		if v.Moving() {
			all[place] = v.Claim
		}
	}
	return all
}

// Ready implements Claims.
func (s *Shared) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away != nil:
		return fmt.Errorf("the fronts cannot agree on new places: %w", s.away)
	case time.Now().Before(s.settled):
		return errors.New("the list of claims that the fronts share is new, or has lost claims of places; each front now adds the claims that it knows")
	}
	return nil
}

// Watch implements Claims.
func (s *Shared) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

// Swap implements Claims.
func (s *Shared) Swap(ctx context.Context, place string, old, next Claim) (Claim, error) {
	s.mu.Lock()
	away, at, full := s.away, s.known[place], len(s.known) >= maxPlaces
	_, there := s.known[place]
	s.mu.Unlock()
	switch {
	case away != nil:
		return Claim{}, fmt.Errorf("the fronts cannot agree on a place: %w", away)
	case full && !there:
		return Claim{}, fmt.Errorf("claim a place: %w", errFull)
	}
	ctx, cancel := context.WithTimeout(ctx, swapWait)
	defer cancel()
	return s.write(ctx, place, old, next, at)
}

// write is Swap, and takes what is known of a place for its first attempt. An attempt that got
// no answer may have been written, so the next one reads first. A claim found there already is
// written again: only that shows that the store has not moved on.
func (s *Shared) write(ctx context.Context, place string, old, next Claim, at version) (Claim, error) {
	for known := true; ; known = false {
		if !known {
			var err error
			if at, err = s.latest(ctx, place); err != nil {
				if err = s.pause(ctx, err); err != nil {
					return Claim{}, err
				}
				continue
			}
			s.note(place, at)
		}
		value := stored{next, at.Turn}
		switch {
		case at.Claim == next: // with its turn
		case at.Claim == old:
			value.Turn++
		case known:
			continue // it may be old
		default:
			return at.Claim, nil
		}
		err := s.put(ctx, place, value, at.revision)
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, bus.ErrConflict):
		default:
			if err = s.pause(ctx, err); err != nil {
				return Claim{}, err
			}
		}
	}
}

// put writes a claim over the one of a revision, and notes it.
func (s *Shared) put(ctx context.Context, place string, c stored, over uint64) error {
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	revision, err := s.store.Put(ctx, bus.Item{Key: keyOf(place), Value: value, Revision: over})
	if err == nil {
		s.note(place, version{c, revision})
	}
	return err
}

// latest reads the claim of a place from the store.
func (s *Shared) latest(ctx context.Context, place string) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	i, err := s.store.Get(ctx, keyOf(place))
	if err != nil || i.Revision == 0 {
		return version{}, err
	}
	return s.read(place, i), nil
}

// note notes a claim that was read or written, unless a later one is known.
func (s *Shared) note(place string, v version) {
	s.mu.Lock()
	was, there := s.known[place]
	later := v.revision == 0 || was.revision > v.revision || !there && len(s.known) >= maxPlaces
	if !later {
		s.known[place] = v
		if was.Claim != v.Claim { // or each write that only confirms one would wake all that wait
			s.changed()
		}
	}
	s.mu.Unlock()
	if !later {
		s.remember([]entry{{place, v.stored}})
	}
}

// pause waits a little before the next attempt, or returns why no attempt follows.
func (s *Shared) pause(ctx context.Context, err error) error {
	if pause.For(ctx, s.retry) != nil {
		return fmt.Errorf("agree with the other fronts: %w", err)
	}
	return nil
}
