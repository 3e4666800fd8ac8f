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

// Config is the configuration of a Set.
type Config struct {
	Folders []Folder
	// OnHost names the hooks that run outside a box, each as EVENT/NAME. Each must exist
	// in exactly one folder, and not in one that an agent can write.
	OnHost  []string
	Host    Runner        // runner of the hooks in OnHost
	Box     Runner        // runner of all other hooks
	Timeout time.Duration // time limit of one hook; default DefaultTimeout, at most MaxTimeout
	Log     *slog.Logger  // gets hooks that failed, refused, or were left out; nil logs nothing
}

// Set runs the hooks of some folders. It reads the folders at each event, so a hook that
// is put there runs at the next event. Its methods are safe for concurrent use. Close
// ends it.
type Set struct {
	cfg    Config
	onHost map[string]bool // paths of the hooks in Config.OnHost
	queue  chan func()     // functions for the workers
	ctx    context.Context //nolint:containedctx // context of the hooks that no caller waits for, which belong to the Set
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool // guarded by mu
	started bool // guarded by mu: the workers run
}

// New returns a Set of the hooks in cfg.Folders. The end of ctx also ends the hooks that no
// caller waits for. The caller closes the Set.
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

// named returns the hook that an entry of OnHost names, or an error if the hook cannot run
// outside a box.
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

// found returns the hooks of all folders for an event, or for all events if event is
// empty.
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

// Timeout returns the time limit of one hook.
func (s *Set) Timeout() time.Duration { return s.cfg.Timeout }

// Close waits for the hooks that no caller waits for, also those that are still queued. It
// waits at most for the timeout of one hook, and then ends the remaining hooks. It may be
// called twice. An event after Close runs only the hooks for which Emit waits.
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

// List returns all hooks, also those that are off, in the order of folders, events and
// names.
func (s *Set) List() ([]Hook, error) { return s.found("") }

// hooks returns the hooks of an event that are not off, in the order in which they run.
func (s *Set) hooks(event string) ([]Hook, error) {
	all, err := s.found(event)
	return slices.DeleteFunc(all, func(h Hook) bool { return h.Off }), err
}

// Emit runs the hooks of an event. It waits for the sync- hooks, one after the other, and
// stops at the first hook that refuses. If none refuses, Emit queues the other hooks. A
// sync- hook that fails counts as a refusal, and so does a folder that cannot be read.
func (s *Set) Emit(ctx context.Context, e Event) Verdict {
	return s.EmitOf(ctx, e.Name, func() Event { return e })
}

// EmitOf is Emit for an event that is expensive to create: event is called only if there
// are hooks for the name.
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
				v.Reason = "the hook gave no answer: " + r.Failure
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

// Later queues an event and waits for none of its hooks. It is for events that no hook can
// refuse. A worker runs the sync- hooks first, and stops if one refuses or fails. If the
// queue is full, the event is dropped.
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

// later queues one hook.
func (s *Set) later(h Hook, e Event) {
	s.enqueue(e.Name+"/"+h.Name, func() { s.log(s.run(s.ctx, h, e)) })
}

// enqueue has a worker call f. If the queue is full, f is not called, and the log reports
// it with the name what.
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

// Test runs every hook of an event, also after one has refused. It waits for all hooks, and
// returns their results.
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

// CheckEvent returns an error if name is not a valid name of an event.
func CheckEvent(name string) error {
	if !isEvent(name) {
		return fmt.Errorf("event %.80q: want lower-case letters, digits, dashes and underscores, for example tool_use", name)
	}
	return nil
}
