package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/sandbox"
)

// leastRoom is how many bytes must be free where the state directory is.
const leastRoom = 64 << 20

// Fault is what keeps a server from working as it should.
type Fault struct {
	What  string    `json:"what"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"` // when it was first seen

	fatal bool // all calls fail, or may not be sent here
}

// Readiness is the answer to /readyz.
type Readiness struct {
	Ready    bool    `json:"ready"`
	Faults   []Fault `json:"faults"`   // for which it is not ready
	Degraded []Fault `json:"degraded"` // without which it can do
}

// readiness finds out what is wrong with a server. It is safe for concurrent use.
type readiness struct {
	server   *Server
	draining atomic.Pointer[string] // why it takes no new clients; nil if it does

	mu    sync.Mutex
	since map[string]time.Time // guarded by mu: faults of the last look
}

// faults looks at everything that calls need. The order is that of the answer.
func (r *readiness) faults() (all []Fault) {
	s := r.server
	note := func(fatal bool, what string, why string) {
		if why != "" {
			all = append(all, Fault{What: what, Why: why, fatal: fatal})
		}
	}
	if why := r.draining.Load(); why != nil {
		note(true, "draining", *why)
	}
	if s.sandbox != nil {
		note(true, "sandbox", sandboxFault(s.sandbox))
	}
	if s.State == "" {
		note(false, "state", "this server has no state directory, and keeps nothing beyond its end")
	} else {
		note(true, "state", text(config.Writable(s.State)))
		note(false, "room", roomFault(s.State))
	}
	if p := s.reloader.status.info(); p.Refused != "" {
		note(false, "policy", "its files cannot be read again, and the one before holds: "+p.Refused)
	}
	if why, fatal := s.audit.fault(); why != "" {
		note(fatal, "audit", why)
	}
	note(false, "tokens", text(s.gate.login.Readable()))
	for _, d := range s.gate.login.Degraded() {
		all = append(all, Fault{What: "keys", Why: fmt.Sprintf("those of issuer %s: %v", d.Issuer, d.Why), Since: d.Since})
	}
	if s.front != nil {
		note(false, "certificate", s.front.Degraded())
	}
	fleetFaults(s, note)
	r.date(all)
	return all
}

// fleetFaults are what is wrong with the fleet of a front. None of it keeps the front from
// being connected to: its workers have to be.
func fleetFaults(s *Server, note func(fatal bool, what, why string)) {
	if s.fleet == nil {
		return
	}
	info := s.fleet.Info()
	if len(info.Workers) == 0 {
		note(false, "workers", "no worker is linked, so no call is answered")
	}
	if n := len(info.Frozen) + len(info.Claimed); n > 0 {
		note(false, "places", fmt.Sprintf("no worker serves %d places, since another has or claims each; see `belljar fleet doctor`", n))
	}
	note(false, "link", info.Fault)
}

// date puts in when each fault was first seen.
func (r *readiness) date(all []Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, now := r.since, time.Now()
	r.since = make(map[string]time.Time)
	for i := range all {
		f := &all[i]
		if !f.Since.IsZero() {
			continue
		}
		f.Since = now
		if seen, ok := before[f.What]; ok {
			f.Since = seen
		}
		r.since[f.What] = f.Since
	}
}

// look returns what is wrong now.
func (r *readiness) look() Readiness {
	all := r.faults()
	fatal := func(f Fault) bool { return f.fatal }
	minor := func(f Fault) bool { return !f.fatal }
	answer := Readiness{Faults: slices.DeleteFunc(slices.Clone(all), minor), Degraded: slices.DeleteFunc(slices.Clone(all), fatal)}
	answer.Ready = len(answer.Faults) == 0
	if answer.Faults == nil {
		answer.Faults = []Fault{}
	}
	if answer.Degraded == nil {
		answer.Degraded = []Fault{}
	}
	return answer
}

// ServeHTTP answers whether the server takes calls: with 503 if all of them would fail, or
// should go to another server.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	answer, status := r.look(), http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	control.Respond(w, status, answer)
}

// sandboxFault says why no box can be made; empty if boxes can. The first time it waits
// until what boxes need is made.
func sandboxFault(s *sandbox.Supervisor) string {
	if err := s.Prepare(); err != nil {
		return unprepared(err).Error()
	}
	if dir := s.Cgroup(); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "the control group of the boxes: " + err.Error()
		}
	}
	return ""
}

// roomFault says that a disk is nearly full; empty if it is not.
func roomFault(dir string) string {
	var fs unix.Statfs_t
	switch err := unix.Statfs(dir, &fs); {
	case errors.Is(err, unix.ENOENT):
		return "" // it is made when something is kept
	case err != nil:
		return fmt.Sprintf("%s: %v", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < leastRoom {
		return fmt.Sprintf("%d MiB are free on the disk of %s, and at least %d should be", free>>20, dir, leastRoom>>20)
	}
	return ""
}

// fault says what is wrong with the audit log, and whether calls are refused for that.
func (l *ledger) fault() (why string, fatal bool) {
	if l == nil {
		return "", false
	}
	h := l.log.Health()
	if h.Lost == 0 || h.Stated {
		return "", false
	}
	return fmt.Sprintf("%d records could not be written since %s: %s", h.Lost, h.Since.UTC().Format(time.RFC3339), h.Why), l.log.Required()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
