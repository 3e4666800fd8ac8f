package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Config says how a Set is made.
type Config struct {
	Folders []Folder
	Host    Runner        // runs the hooks of trusted folders
	Box     Runner        // runs all others
	Timeout time.Duration // of one hook; default DefaultTimeout, at most MaxTimeout
	Log     *slog.Logger  // gets what became of hooks that are not waited for; nil logs nothing
}

// Set is the hooks of some folders. The folders are looked through at each
// event, so what is put there is seen at the next. Its methods are safe for
// concurrent use. Close ends it.
type Set struct {
	cfg    Config
	queue  chan func()
	ctx    context.Context //nolint:containedctx // of the hooks that nobody waits for: they belong to the Set
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	started bool // the workers
}

// New is the hooks of some folders. ctx ends those that nobody waits for. The
// caller closes the Set.
func New(ctx context.Context, cfg Config) (*Set, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Timeout < 0 || cfg.Timeout > MaxTimeout {
		return nil, fmt.Errorf("hooks: a time of %s for each: want at most %s", cfg.Timeout, MaxTimeout)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{cfg: cfg, queue: make(chan func(), maxQueue)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, nil
}

// Timeout is how long a hook may take.
func (s *Set) Timeout() time.Duration { return s.cfg.Timeout }

// Close waits for the hooks that run or wait, at most so long as one may take,
// and ends the rest. Twice is fine. Events that come later have no hooks run.
func (s *Set) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	stop := time.AfterFunc(s.cfg.Timeout, s.cancel)
	s.wg.Wait()
	stop.Stop()
	s.cancel()
}

// List are all hooks with those that are off, by folder, event and name.
func (s *Set) List() (all []Hook, err error) {
	for _, f := range s.cfg.Folders {
		found, bad := f.find("")
		all, err = append(all, found...), errors.Join(err, bad)
	}
	return all, err
}

// hooks are those to run for an event, in the order in which they run.
func (s *Set) hooks(event string) (all []Hook, err error) {
	for _, f := range s.cfg.Folders {
		found, bad := f.find(event)
		all, err = append(all, found...), errors.Join(err, bad)
	}
	return slices.DeleteFunc(all, func(h Hook) bool { return h.Off }), err
}

// Emit runs the hooks of an event: those that are waited for in order, until one
// refuses, and then the others, unless that is so. A hook that is waited for and
// does not end well has refused, and so has a folder that cannot be looked into.
func (s *Set) Emit(ctx context.Context, e Event) Verdict {
	all, err := s.hooks(e.Name)
	if err != nil {
		s.cfg.Log.Error("hooks cannot be read", "event", e.Name, "err", err)
		return Verdict{Denied: true, By: "hooks", Reason: err.Error()}
	}
	var v Verdict
	for _, h := range all {
		if !h.Sync {
			continue
		}
		r := s.run(ctx, h, e)
		s.log(r)
		if r.Note != "" {
			v.Notes = append(v.Notes, r.Note)
		}
		if r.Denied || r.Failure != "" {
			v.Denied, v.By, v.Reason = true, h.Name, r.Reason
			if r.Failure != "" {
				v.Reason = "the hook has no answer: " + r.Failure
			}
			return v
		}
	}
	for _, h := range all {
		if !h.Sync {
			s.later(h, e)
		}
	}
	return v
}

// Later has the hooks of an event run by and by, in order and until one refuses,
// and waits for none: for events where there is nothing to refuse. Where too many
// wait the event is left out.
func (s *Set) Later(e Event) {
	s.enqueue(e.Name, func() {
		all, err := s.hooks(e.Name)
		if err != nil {
			s.cfg.Log.Error("hooks cannot be read", "event", e.Name, "err", err)
		}
		slices.SortStableFunc(all, func(a, b Hook) int {
			switch {
			case a.Sync == b.Sync:
				return 0
			case a.Sync:
				return -1
			}
			return 1
		})
		for _, h := range all {
			r := s.run(s.ctx, h, e)
			s.log(r)
			if h.Sync && (r.Denied || r.Failure != "") {
				return
			}
		}
	})
}

// later has a hook run by and by.
func (s *Set) later(h Hook, e Event) {
	s.enqueue(e.Name+"/"+h.Name, func() { s.log(s.run(s.ctx, h, e)) })
}

// enqueue has something done by and by. Where too much waits it is left out.
func (s *Set) enqueue(what string, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if !s.started {
		s.started = true
		for range workers {
			s.wg.Go(func() {
				for f := range s.queue {
					f()
				}
			})
		}
	}
	select {
	case s.queue <- f:
	default:
		s.cfg.Log.Error("a hook was left out: too many wait", "hook", what, "waiting", maxQueue)
	}
}

// Test runs every hook of an event and waits for all, whatever they say, and is
// what came of each.
func (s *Set) Test(ctx context.Context, e Event) ([]Ran, error) {
	all, err := s.hooks(e.Name)
	if err != nil {
		return nil, err
	}
	var ran []Ran
	for _, h := range all {
		ran = append(ran, s.run(ctx, h, e))
	}
	return ran, nil
}

func (s *Set) log(r Ran) {
	switch {
	case r.Failure != "":
		s.cfg.Log.Error("a hook failed", "event", r.Hook.Event, "hook", r.Hook.Path, "why", r.Failure)
	case r.Denied:
		s.cfg.Log.Info("a hook refused", "event", r.Hook.Event, "hook", r.Hook.Path, "reason", r.Reason)
	}
}

// CheckEvent says what is wrong with the name of an event.
func CheckEvent(name string) error {
	if !eventName.MatchString(name) {
		return fmt.Errorf("event %.80q: want small letters, digits, dashes and underscores, as tool_use", name)
	}
	return nil
}
