package engine

import (
	"log/slog"
	"sync"
	"time"
)

// lookEvery is the shortest time between two checks of the engine files.
const lookEvery = time.Second

// Loader keeps the engines as their files are now, for Config.Engines. It is safe for
// concurrent use.
type Loader struct {
	log *slog.Logger

	mu      sync.Mutex
	engines *Set // nil before the first query, if no directory was given
	looked  time.Time
	fault   string // last fault in the log, so that each is logged once
}

// NewLoader loads the engines that come with belljar and those of dir, in the same way as
// Load. Without dir, loading cannot fail, and it is put off until the first query: it takes
// as long as all else that a server does before its first answer. A file that changes later
// is used from the next query on. If the changed files have a fault, the fault is logged
// and the engines stay as they were.
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

// Engines returns the present engines.
func (l *Loader) Engines() *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engines == nil {
		engines, err := Load("")
		if err != nil { // cannot happen: a test checks the bundled engines
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

// look reads the files again. The caller must hold mu, so that two queries do not do this
// at the same time.
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
