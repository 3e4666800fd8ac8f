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

// leastRoom is the number of bytes that must be free on the disk of the state directory.
const leastRoom = 64 << 20

// Fault is a fault of a server.
type Fault struct {
	What  string    `json:"what"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"` // time at which the fault was first seen

	fatal bool // whether all calls fail, or should go to another server
}

// Readiness is the answer to /readyz.
type Readiness struct {
	Ready    bool    `json:"ready"`
	Faults   []Fault `json:"faults"`   // faults because of which the server is not ready
	Degraded []Fault `json:"degraded"` // faults with which the server still answers calls
}

// readiness finds the faults of a server. It is safe for concurrent use.
type readiness struct {
	server   *Server
	draining atomic.Pointer[string] // reason why the server accepts no new clients; nil if it accepts them

	mu    sync.Mutex
	since map[string]time.Time // guarded by mu: times at which the faults of the last look were first seen, by What
}

// faults checks everything that calls need, and returns the faults in the order for the
// answer.
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
		note(false, "state", "this server has no state directory, and keeps nothing after it ends")
	} else {
		note(true, "state", text(config.Writable(s.State)))
		note(false, "room", roomFault(s.State))
	}
	if p := s.reloader.status.info(); p.Refused != "" {
		note(false, "policy", "its files cannot be read again, and the previous policy stays in force: "+p.Refused)
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

// fleetFaults notes the faults in the fleet of a front. None of them is fatal, because
// workers must still be able to connect to the front.
func fleetFaults(s *Server, note func(fatal bool, what, why string)) {
	if s.fleet == nil {
		return
	}
	info := s.fleet.Info()
	if len(info.Workers) == 0 {
		note(false, "workers", "no worker is linked, so no call is answered")
	}
	if n := len(info.Frozen) + len(info.Claimed); n > 0 {
		note(false, "places", fmt.Sprintf("no worker serves %d places, because another worker also has or claims each of them; see `belljar fleet doctor`", n))
	}
	note(false, "link", info.Fault)
}

// date sets the time at which each fault was first seen.
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

// look returns the present readiness.
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

// ServeHTTP responds whether the server accepts calls. The status is 503 if all calls would
// fail, or should go to another server.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	answer, status := r.look(), http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	control.Respond(w, status, answer)
}

// sandboxFault returns the reason why no box can be made; empty if boxes can be made. The
// first call waits until what boxes need is made.
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

// roomFault returns a text if a disk is nearly full, and an empty text otherwise.
func roomFault(dir string) string {
	var fs unix.Statfs_t
	switch err := unix.Statfs(dir, &fs); {
	case errors.Is(err, unix.ENOENT):
		return "" // the directory is made when something is stored
	case err != nil:
		return fmt.Sprintf("%s: %v", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < leastRoom {
		return fmt.Sprintf("%d MiB are free on the disk of %s, and at least %d should be", free>>20, dir, leastRoom>>20)
	}
	return ""
}

// fault returns the fault of the audit log; empty without a fault. fatal reports whether
// calls are refused because of it.
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
