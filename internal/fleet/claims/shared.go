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

// Store is the part of a [bus.Bucket] that Shared uses. Its methods are safe for concurrent
// use.
type Store interface {
	Get(ctx context.Context, key string) (bus.Item, error)
	Put(ctx context.Context, i bus.Item) (revision uint64, err error)
	Follow(ctx context.Context, each func(bus.Item), caughtUp func(age time.Duration)) error
}

// Times and bounds of shared claims.
const (
	// swapWait is how long a swap waits for a store that does not answer. It is longer than
	// three servers need to elect another leader.
	swapWait    = 9 * time.Second
	attemptWait = 2 * time.Second // time for one answer
	retryWait   = 100 * time.Millisecond
	// settleWait is how long no new place is claimed in a store that is new, or that has
	// lost claims: another front may know of more claims.
	settleWait = 5 * time.Second
	refillWait = time.Minute // time for writing all claims that were lost
	refills    = 16          // number of lost claims that are written at the same time
)

// Shared contains the claims of several fronts. Known claims are returned from memory, also
// while the store is not available. For a new claim, the fronts agree in the store. The
// caller must close it.
type Shared struct {
	store  Store
	kept   *Journal
	log    *slog.Logger
	stop   context.CancelFunc
	ended  chan struct{}
	settle time.Duration
	retry  time.Duration

	mu      sync.Mutex
	known   map[string]version // guarded by mu: claims by place, also of places that were released
	away    error              // guarded by mu: why the store is not available; nil if it is
	settled time.Time          // guarded by mu: when new places can be claimed
	changed func()             // guarded by mu
}

// version is a claim and its revision in the store. The revision is 0 if the claim was
// never seen there.
type version struct {
	stored

	revision uint64
}

// OpenShared starts to follow a store; Close ends this. It begins with the claims in kept,
// and records there the claims that it sees. The caller closes kept after Close.
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
	s := &Shared{store: store, kept: kept, log: log, settle: settleWait, retry: retryWait, known: make(map[string]version), away: errors.New("the shared store has not answered yet"), changed: func() {}}
	for place, c := range kept.remembers() {
		s.known[place] = version{stored: c}
	}
	return s
}

// Close stops following the store, and waits until this has ended. Afterwards known claims
// are still returned from memory. It may be called several times.
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
			s.log.Warn("the claims of places cannot be watched; until they can be watched, no new place is made, and existing places are served", "err", err)
		}
		_ = s.pause(ctx, err)
	}
}

// follow reads all claims, restores those that the store has lost, and then records each
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
		refilling.Go(func() { // runs while changes are recorded, because its own writes are among them
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
		err = errors.New("the watch has ended")
	}
	return err
}

// errFull is the error if there would be more claims than a front accepts.
var errFull = fmt.Errorf("there are more than %d places, and a front allows no more", maxPlaces)

// followed records that the store is available, and contains all claims that are known
// here. age is the age of the store: other fronts may still have to restore their claims in
// a new store.
func (s *Shared) followed(age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = time.Now().Add(s.settle - age)
	s.away = nil
	s.changed()
	s.log.Info("the claims of places are watched", "places", len(s.known))
}

// meet records the claims in a store when following begins. It returns the claims that are
// known here and that the store has lost.
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
			s.known[place] = version{stored: v.stored} // the old revision belonged to another store
		}
	}
	s.mu.Unlock()
	s.remember(news)
	return lost
}

// refill writes the lost claims into the store, and returns how many it wrote. If another
// front has already written a later claim of a place, that claim stays in force.
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
				cancel() // ends the other writes
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
		s.log.Warn("the shared list of the fronts had lost claims of places, and this front has added them again", "places", wrote)
	}
	return wrote, fault
}

// restore writes one claim that the store has lost, unless the store has a later claim of
// the place.
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

// apply records a change in the store. The change may be older than a claim that was
// written here after it.
func (s *Shared) apply(i bus.Item) {
	place := placeOf(i.Key)
	s.note(place, s.read(place, i))
}

// read decodes a claim. A claim that cannot be decoded belongs to a worker that does not
// exist, so that its place is not served.
func (s *Shared) read(place string, i bus.Item) version {
	c, err := parse(i.Value)
	if err != nil {
		s.log.Error("a claim cannot be read; its place is not served", "place", place, "err", err)
		c = stored{Claim: Claim{Worker: unreadable}}
	}
	return version{c, i.Revision}
}

// remember writes claims into the journal of this front.
func (s *Shared) remember(all []entry) {
	if err := s.kept.record(all); err != nil {
		s.log.Error("claims of places cannot be written to the disk of this front", "err", err)
	}
}

// unreadable is the name of the worker for a claim that cannot be decoded. No worker has
// this name.
const unreadable = "?"

func parse(value []byte) (c stored, err error) {
	if len(value) > maxLine {
		return c, fmt.Errorf("it has %d bytes", len(value))
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return c, d.Decode(&c)
}

// keyOf returns the key of a place. A key must not end with a dot, so each dot becomes "=",
// which names of places never contain.
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

// write is Swap. Its first attempt uses the known claim of the place. An attempt without an
// answer may have been written, so the next attempt reads first. If the claim is already
// there, it is written again: only a successful write shows that it is still in force.
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
		case at.Claim == next: // the turn stays the same
		case at.Claim == old:
			value.Turn++
		case known:
			continue // the known claim may be outdated
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

// put writes a claim if the revision is still over, and records it.
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

// note records a claim that was read or written, unless a later one is known.
func (s *Shared) note(place string, v version) {
	s.mu.Lock()
	was, there := s.known[place]
	later := v.revision == 0 || was.revision > v.revision || !there && len(s.known) >= maxPlaces
	if !later {
		s.known[place] = v
		if was.Claim != v.Claim { // a write that only confirms a claim must not wake all waiting requests
			s.changed()
		}
	}
	s.mu.Unlock()
	if !later {
		s.remember([]entry{{place, v.stored}})
	}
}

// pause waits for retry before the next attempt, or returns an error if no attempt may
// follow.
func (s *Shared) pause(ctx context.Context, err error) error {
	if pause.For(ctx, s.retry) != nil {
		return fmt.Errorf("agree with the other fronts: %w", err)
	}
	return nil
}
