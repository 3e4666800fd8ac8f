package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/order"
)

// Config says how a Set is made.
type Config struct {
	Folders []Folder
	// OnHost are the hooks that run outside a box, each by its EVENT/NAME. Each must
	// be there, in one folder, and not in a directory that an agent can write.
	OnHost  []string
	Host    Runner        // runs those of OnHost
	Box     Runner        // runs all others
	Timeout time.Duration // of one hook; default DefaultTimeout, at most MaxTimeout
	Log     *slog.Logger  // gets what became of hooks that are not waited for; nil logs nothing
}

// Set is the hooks of some folders. The folders are looked through at each
// event, so what is put there is seen at the next. Its methods are safe for
// concurrent use. Close ends it.
type Set struct {
	cfg    Config
	onHost map[string]bool // by path
	queue  chan func()
	ctx    context.Context //nolint:containedctx // of the hooks that nobody waits for: they belong to the Set
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	started bool // the workers
}

// New returns the hooks of some folders. ctx ends those that nobody waits for. The
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
	s := &Set{cfg: cfg, queue: make(chan func(), maxQueue), onHost: make(map[string]bool)}
	for _, name := range cfg.OnHost {
		h, err := s.named(name)
		if err != nil {
			return nil, fmt.Errorf("hook %.160q: %w", name, err)
		}
		s.onHost[h.Path] = true
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s, nil
}

// named is the one hook that is to run outside a box under a name.
func (s *Set) named(name string) (Hook, error) {
	event, file, ok := strings.Cut(name, "/")
	if !ok || !isEvent(event) || file == "" || strings.Contains(file, "/") {
		return Hook{}, errors.New("want EVENT/NAME, for example tool_use/sync-10-check.sh")
	}
	all, err := s.found(event)
	if err != nil {
		return Hook{}, err
	}
	all = slices.DeleteFunc(all, func(h Hook) bool { return h.Name != file })
	switch {
	case len(all) == 0:
		return Hook{}, errors.New("no such hook in the folders of hooks")
	case len(all) > 1:
		return Hook{}, fmt.Errorf("%s and %s have this name; rename one", all[0].Path, all[1].Path)
	case all[0].folder.Beneath != "":
		return Hook{}, fmt.Errorf("%s lies in the workspace, where a box can write it, so it cannot run outside a box; move it", all[0].Path)
	}
	return all[0], nil
}

// found are the hooks of all folders for an event; with an empty event those for
// all.
func (s *Set) found(event string) (all []Hook, err error) {
	for _, f := range s.cfg.Folders {
		found, bad := f.find(event)
		all, err = append(all, found...), errors.Join(err, bad)
	}
	for i := range all {
		all[i].OnHost = s.onHost[all[i].Path]
	}
	return all, err
}

// Timeout is how long a hook may take.
func (s *Set) Timeout() time.Duration { return s.cfg.Timeout }

// Close waits for the hooks that run or wait, at most so long as one may take,
// and ends the rest. Twice is fine. Later events run no hooks.
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
func (s *Set) List() ([]Hook, error) { return s.found("") }

// hooks are those to run for an event, in the order in which they run.
func (s *Set) hooks(event string) ([]Hook, error) {
	all, err := s.found(event)
	return slices.DeleteFunc(all, func(h Hook) bool { return h.Off }), err
}

// Emit runs the hooks of an event: those that are waited for in order, until one
// refuses, and then the others, unless one has refused. A hook that is waited for and
// does not end well has refused, and so has a folder that cannot be looked into.
func (s *Set) Emit(ctx context.Context, e Event) Verdict {
	return s.EmitOf(ctx, e.Name, func() Event { return e })
}

// EmitOf is Emit for an event of a name that is made only if there are hooks for it.
func (s *Set) EmitOf(ctx context.Context, name string, event func() Event) Verdict {
	all, err := s.hooks(name)
	if err != nil {
		s.cfg.Log.Error("hooks cannot be read", "event", name, "err", err)
		return Verdict{Denied: true, By: "hooks", Reason: err.Error()}
	}
	var v Verdict
	if len(all) == 0 {
		return v
	}
	e := event()
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
		order.By(all, func(a, b *Hook) int {
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

// Test runs every hook of an event and waits for all, whatever they say, and
// returns what came of each.
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
	if !isEvent(name) {
		return fmt.Errorf("event %.80q: want small letters, digits, dashes and underscores, for example tool_use", name)
	}
	return nil
}
