package browser

import (
	"cmp"
	"fmt"
	"sync"
	"time"
)

// Bounds of what is kept of one page.
const (
	maxRedirects = 32
	maxNotes     = 32
	maxNote      = 200 // bytes of a note
	maxURL       = 2048
	maxHeader    = 64
)

// state is what Chrome has reported about a page: how far its document has loaded, and what
// it contains. The events of the page change it while a call waits for a change.
type state struct {
	changed chan struct{} // signals that something below has changed; room for one

	mu        sync.Mutex
	crashed   bool
	detached  bool
	loader    string
	committed bool // whether there is a document
	dom       bool
	loaded    bool
	loadedAt  time.Time
	stopped   bool      // whether the document ended loading without a load event
	leaving   bool      // whether the page is about to load another document
	leaveBy   time.Time // time until which that is waited for
	traffic   traffic
	doc       document
	failure   string // Chrome's error for the document
	astray    string // Chrome's error for the document to which the page itself led
	download  string // file name of a download that the page led to
	redirects []Redirect
	notes     []string
	noted     int
}

// document is what the server sent.
type document struct {
	url, mime string
	status    int
	headers   map[string]string
}

// change calls f with s.mu held, and wakes the caller that waits for a change.
func (s *state) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// note keeps a line for the agent. s.mu is held.
func (s *state) note(format string, args ...any) {
	s.noted++
	if len(s.notes) < maxNotes {
		s.notes = append(s.notes, clip(fmt.Sprintf(format, args...), maxNote))
	}
}

func (s *state) downloads(url, name string) {
	s.change(func() {
		s.download = clip(name, maxNote)
		if s.committed {
			s.leaving = false
			s.note("a download was refused: %s", clip(url, maxNote))
		}
	})
}

// complete notes the end of a document's loading, with a load event or without.
func (s *state) complete(event bool) {
	if s.committed && !s.loaded {
		s.dom, s.loaded, s.loadedAt, s.stopped = true, true, time.Now(), !event
	}
}

// navigated notes a new document in the page.
func (s *state) navigated(f frameInfo) {
	if f.UnreachableURL != "" { // Chrome's own page about an error
		if s.committed {
			s.astray, s.doc.url, s.leaving = cmp.Or(s.failure, "net::ERR_FAILED"), f.UnreachableURL, false
		}
		return
	}
	if f.URL == "about:blank" && s.loader == "" && s.doc.status == 0 {
		return
	}
	s.astray = ""
	s.loader, s.committed, s.dom, s.loaded, s.leaving = f.LoaderID, true, false, false, false
	s.doc.url = f.URL
	if s.doc.mime == "" {
		s.doc.mime = f.MimeType
	}
	s.traffic.reset()
}

// network reports whether requests for which the page waits are in progress, or were very
// recently, and whether its scripts have made some.
func (s *state) network() (busy, active bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed || s.detached {
		return false, false, errCrashed
	}
	return s.traffic.busy(), s.traffic.active, nil
}

// loadedUntil reports whether the page is loaded as far as until says.
func (s *state) loadedUntil(until Until) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.crashed, s.detached:
		return false, errCrashed
	case s.astray != "":
		return false, &netError{s.astray}
	case s.onTheWay(), !s.committed:
		return false, nil
	case until == UntilDOM:
		return s.dom, nil
	}
	return s.loaded, nil
}

// patience returns a channel that delivers when the page is no longer expected to load
// another document; it is nil if the page is not expected to.
func (s *state) patience() <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leaving {
		return nil
	}
	return time.After(time.Until(s.leaveBy))
}

// onTheWay reports whether the page is about to load another document. s.mu is held.
func (s *state) onTheWay() bool { return s.leaving && time.Now().Before(s.leaveBy) }

// moving is onTheWay for a caller that does not hold s.mu.
func (s *state) moving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onTheWay()
}

// hasDocument reports whether there is a document to read.
func (s *state) hasDocument() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.committed && !s.crashed
}

// cause returns err, or the reason why Chrome no longer answers.
func (s *state) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crashed || s.detached {
		return errCrashed
	}
	return err
}
