package engine

import (
	"log/slog"
	"sync"
	"time"
)

// lookEvery is how often at most the files of engines are looked at again.
const lookEvery = time.Second

// Loader is the engines as their files say now: for Config.Engines. It may be
// used by many at once.
type Loader struct {
	log *slog.Logger

	mu      sync.Mutex
	engines *Set // nil before the first query, where all come with belljar
	looked  time.Time
	fault   string // the last one in the log, so that each is logged once
}

// NewLoader loads the engines that come with belljar and those of dir, as
// Load does. Without dir nothing can be wrong with them, and they are
// loaded for the first query: that takes as long as all else that a server does
// before its first answer. Files that change later hold from the next query on; while
// they have a fault, which goes to log, the engines stay as they were.
func NewLoader(dir string, log *slog.Logger) (*Loader, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if dir == "" {
		return &Loader{log: log}, nil
	}
	engines, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return &Loader{log: log, engines: engines, looked: time.Now()}, nil
}

// Engines are those that hold now.
func (l *Loader) Engines() *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engines == nil {
		engines, err := Load("")
		if err != nil { // a test rules this out
			l.log.Error("the engines that come with belljar cannot be read", "err", err)
			engines = &Set{byName: map[string]*Engine{}}
		}
		l.engines, l.looked = engines, time.Now()
	}
	if now := time.Now(); now.Sub(l.looked) >= lookEvery {
		l.looked = now
		l.look()
	}
	return l.engines
}

// look reads the files again; mu must be held, so that two queries do not do
// it at once.
func (l *Loader) look() {
	next, changed, err := l.engines.Reload()
	if err != nil {
		if fault := err.Error(); fault != l.fault {
			l.fault = fault
			l.log.Error("the files of engines have faults; the engines stay as they were", "err", err)
		}
		return
	}
	l.fault = ""
	if changed {
		l.engines = next
		l.log.Info("the engines were read again")
	}
}
