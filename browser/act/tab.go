package act

import (
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// Bounds of what is kept of a tab, in addition to those of limits.go.
const (
	maxKnownFrames = 1000
	maxUnderway    = 2048
	maxNotes       = 32
	maxHeard       = 5000
	maxSeenURLs    = 5000
)

// tab is one page of a seat.
type tab struct {
	e       *engine
	name    string        // name such as t1
	target  string        // id in Chrome, which is also the id of the top frame
	opener  string        // name of the tab that opened it
	changed chan struct{} // signals that something below has changed; room for one

	mu      sync.Mutex
	blocked chan struct{}     // closed while a dialog waits, and after a crash
	views   map[string]*view  // views by their sessions
	frames  map[string]*frame // frames by their ids
	crashed bool
	closed  bool
	dialog  *held
	alerts  int // number of dialogs of the document
	notes   []string
	secret  map[string]string // origin of each document in which a secret was typed, by its loader
	going
	rings
	refs  refs
	looks looks
	last  *taken // last picture
}

// going contains the progress of a tab. It is guarded by the tab's mu.
type going struct {
	runs     bool            // whether the tab was told to run, and no longer waits
	leaving  time.Time       // time since when a frame of the tab is loading another document
	commits  int             // number of documents of the top frame so far
	method   string          // method of the request for the top document
	loaded   bool            // whether the top document is parsed
	files    int             // number of downloads that began in the tab
	failure  string          // why the last document of the top frame was not loaded
	opening  string          // address that a step is opening
	openID   string          // id of the request for opening, which its redirects share
	own      bool            // whether a step has opened a document in the tab
	freed    bool            // whether a script was stopped, its page answered, and the agent was not told
	acted    time.Time       // time of the last step if the tab has not settled since; otherwise zero
	underway map[string]bool // requests in progress; true if the tab is not settled before they end
	counted  int             // number of requests of underway that are true
}

// ear is a tab whose events are handled.
type ear struct{ *tab }

// eye is a tab that is looked at.
type eye struct{ *tab }

// hand is a tab that is acted on.
type hand struct{ *tab }

// view is one session: of the page, or of a frame of another site.
type view struct {
	session string
	top     string // id of its top frame
	flood   flood
	asked   *question // last question to it, or nil; guarded by the tab's mu
}

// flood measures how much faster lines of the console and exceptions arrive than they are
// kept. It is guarded by the tab's mu.
type flood struct {
	level   float64 // number of dropped lines, less floodDrain a second
	last    time.Time
	slowing bool // whether its page is slowed down, or is being slowed down
}

// A page whose lines arrive much faster than they are kept is slowed down by the factor
// slowRate for slowTime: Chrome queues what a page writes without a bound, and the answer
// to a call waits behind all of it. The page no longer floods once no line was dropped for
// floodTime.
const (
	maxFlood   = 3000
	floodDrain = 100
	floodTime  = time.Second
	slowRate   = 4
	slowTime   = time.Second
)

// drop counts a line that was dropped.
func (f *flood) drop(now time.Time) {
	f.level = max(f.level-now.Sub(f.last).Seconds()*floodDrain, 0) + 1
	f.last = now
}

// goesOn reports whether lines still arrive much faster than they are kept.
func (f *flood) goesOn(now time.Time) bool {
	return f.level >= maxFlood && now.Sub(f.last) < floodTime
}

// frame is the place of one document.
type frame struct {
	id, parent string
	session    string
	url        string
	loader     string
	// navigations is how often the frame's documents have asked for another document in
	// their place. begun is the value of navigations at the start of the loading that began
	// last. over is its value at the start of the loading that ended last.
	navigations, begun, over int
	// The world of our scripts in the document of worldLoader.
	world       runtime.ExecutionContextID
	ours        runtime.RemoteObjectID     // object belljar in that world
	main        runtime.ExecutionContextID // world of the page itself
	reading     string                     // world for expressions of the agent; empty if it does not exist
	worldLoader string
	heard       map[int64]bool // elements in the document that our scripts know to have listeners; guarded by the tab's mu
	// owner is the number of the frame's element in the world of its parent, in the
	// document of ownerLoader.
	owner       int
	ownerLoader string
}

// held is a dialog that waits for an answer.
type held struct {
	Dialog
	session string
	timer   *time.Timer
	before  bool // whether it is a beforeunload dialog
}

// stop returns a channel that is closed while the page cannot answer.
func (t *tab) stop() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.blocked
}

// block makes all callers that wait for the page give up. t.mu is held.
func (t *tab) block() {
	select {
	case <-t.blocked:
	default:
		close(t.blocked)
	}
}

// change calls f with t.mu held, and wakes the caller that waits for a change.
func (t *tab) change(f func()) {
	t.mu.Lock()
	f()
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// note keeps a line for the next outcome. t.mu is held.
func (t *tab) note(line string) {
	if len(t.notes) < maxNotes {
		t.notes = append(t.notes, line)
	}
}

// takeNotes returns the notes since its last call.
func (t *tab) takeNotes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.notes
	t.notes = nil
	return n
}

// waiting returns the dialog that waits for an answer, or nil.
func (t *tab) waiting() *Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dialog == nil {
		return nil
	}
	d := t.dialog.Dialog
	return &d
}

// session returns the session of the tab's page.
func (t *tab) session() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.views {
		if v.top == t.target {
			return v.session
		}
	}
	return ""
}

// url returns the URL of the top document.
func (t *tab) url() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.frames[t.target]; f != nil {
		return f.url
	}
	return ""
}

// tree returns the frames from the top down, at most MaxFrames. A frame comes before the
// frames in it.
func (t *tab) tree() []frame {
	const most = MaxFrames
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []frame
	children := map[string][]*frame{}
	for _, f := range t.frames {
		if f.id != t.target {
			children[f.parent] = append(children[f.parent], f)
		}
	}
	if top := t.frames[t.target]; top != nil {
		out = append(out, *top)
	}
	for i := 0; i < len(out) && len(out) < most; i++ {
		for _, f := range children[out[i].id] {
			if len(out) < most {
				out = append(out, *f)
			}
		}
	}
	return out
}

// frameOf returns a copy of a frame.
func (t *tab) frameOf(id string) (frame, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.frames[id]
	if f == nil {
		return frame{}, false
	}
	return *f, true
}

// navigated notes a new document in a frame.
func (t *tab) navigated(session, id, parent, loader, url string) {
	f := t.frames[id]
	if f == nil {
		if len(t.frames) >= maxKnownFrames {
			return
		}
		f = &frame{id: id}
		t.frames[id] = f
	}
	if parent != "" {
		f.parent = parent
	}
	f.session, f.url = session, url
	if f.loader != loader {
		t.refs.forget(id)
		delete(t.secret, f.loader)
		f.loader, f.world, f.reading, f.heard = loader, 0, "", nil
	}
	t.leaving = time.Time{}
	if v := t.views[session]; v != nil && v.top == id {
		forgetAnswers(t)
		v.asked = nil
	}
	if id == t.target {
		t.commits++
		t.loaded, t.alerts, t.failure, t.freed = false, 0, "", false
		clear(t.underway)
		t.counted = 0
	}
}

// forgetAnswers forgets the questions that were answered. t.mu is held.
func forgetAnswers(t *tab) {
	for _, v := range t.views {
		if q := v.asked; q != nil && q.answered() {
			t.freed = t.freed || q.stopped
			v.asked = nil
		}
	}
}

// gone removes a frame and the frames in it. t.mu is held.
func (t *tab) gone(id string) {
	for _, f := range t.frames {
		if f.parent == id && f.id != id {
			t.gone(f.id)
		}
	}
	if f := t.frames[id]; f != nil {
		delete(t.secret, f.loader)
	}
	delete(t.frames, id)
	t.refs.forget(id)
}

// flooding reports whether the page of a session writes lines much faster than they are
// kept, so that its answers may wait behind the lines.
func (t ear) flooding(session string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	return v != nil && v.flood.goesOn(now)
}

// sites returns the origins with which the tab has to stay: the origins of existing
// documents in which a secret was typed, in the tab and in the tabs from which it was
// opened.
func (t ear) sites() (out []string) {
	t.e.mu.Lock()
	byName := map[string]*tab{}
	for _, o := range t.e.tabs {
		byName[o.name] = o
	}
	t.e.mu.Unlock()
	for o, n := t.tab, 0; o != nil && n <= MaxTabs; n++ {
		o.mu.Lock()
		for _, s := range o.secret {
			out = append(out, s)
		}
		own := o.own
		o.mu.Unlock()
		if own {
			break // the tab shows what a step opened
		}
		o = byName[o.opener]
	}
	return out
}

// opens reports whether a document is the one that a step is opening, which replaces what
// the tab shows. t.mu is held.
func (t ear) opens(v pausedEvent) bool {
	if v.FrameID != t.target || t.opening == "" {
		return false
	}
	if t.openID == "" && v.Request.Method == "GET" && sameAddress(v.Request.URL, t.opening) {
		t.openID = v.NetworkID
		return true
	}
	return t.openID != "" && v.NetworkID == t.openID
}

// secretive reports whether a secret was typed in a document that still exists.
func (t eye) secretive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.secret) > 0
}

// forgetRefs makes room for new numbers if there are as many as allowed. A page that draws
// itself anew makes new elements without an end. It forgets the numbers that the agent was
// not shown, and if these are few, the oldest of all.
func (t eye) forgetRefs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.refs.byNum) < maxNumbers {
		return
	}
	forget := func(out func(n int, r *ref) bool) {
		for n, r := range t.refs.byNum {
			if out(n, r) {
				delete(t.refs.byNum, n)
				delete(t.refs.numbers, r.refKey)
			}
		}
	}
	forget(func(_ int, r *ref) bool { return !r.shown })
	if len(t.refs.byNum) > MaxRefs {
		forget(func(n int, _ *ref) bool { return n <= t.refs.last-MaxRefs })
	}
}
