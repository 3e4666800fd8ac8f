package act

import (
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"
)

// Bounds of what is kept of a tab, beside those of limits.go.
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
	name    string        // t1
	target  string        // its id in Chrome, which is also the id of its top frame
	opener  string        // name of the tab that opened it
	changed chan struct{} // something below changed; room for one

	mu      sync.Mutex
	blocked chan struct{}     // closed while a dialog waits, and after a crash
	views   map[string]*view  // by session
	frames  map[string]*frame // by identity
	crashed bool
	closed  bool
	dialog  *held
	alerts  int // dialogs of the document
	notes   []string
	secret  map[string]string // loader of a document in which a secret was typed: its origin
	going
	rings
	refs  refs
	looks looks
	last  *taken // picture
}

// going is how far a tab is. Guarded by its mu.
type going struct {
	runs     bool            // it was told to run, and waits no longer
	leaving  time.Time       // since when a frame of it is on its way to another document
	commits  int             // documents of the top frame
	method   string          // the method of the request for the top document
	loaded   bool            // the top document is parsed
	files    int             // downloads that began in it
	failure  string          // why the last document of the top frame was not loaded
	opening  string          // address that a step opens now
	openID   string          // of its request, which redirects have too
	own      bool            // a step has opened a document in it
	freed    bool            // a script was stopped, its page answered, and the agent was not told
	acted    time.Time       // when a step was done after which it has not settled; zero for none
	underway map[string]bool // requests; true for those that it is not settled with
	counted  int             // the requests of underway that are true
}

// ear is a tab as it hears what happens in it.
type ear struct{ *tab }

// eye is a tab as it is looked at.
type eye struct{ *tab }

// hand is a tab as it is acted on.
type hand struct{ *tab }

// view is one session: that of the page, or of a frame of another site.
type view struct {
	session string
	top     string // identity of the frame at its top
	flood   flood
	asked   *question // the last one; nil for none. Guarded by the tab's mu.
}

// flood is how far lines of the console and exceptions come faster than they are kept. Guarded by
// the tab's mu.
type flood struct {
	level   float64 // of those that were dropped; it falls by floodDrain a second
	last    time.Time
	slowing bool // its page is being slowed down, or is slowed down
}

// A page whose lines come much faster than they are kept is slowed down by slowRate for slowTime:
// Chrome queues what a page writes without a bound, and the answer to a call waits behind all of it.
// It floods no more once none was dropped for floodTime.
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

// goesOn reports whether lines come much faster than they are kept.
func (f *flood) goesOn(now time.Time) bool {
	return f.level >= maxFlood && now.Sub(f.last) < floodTime
}

// frame is one document's place.
type frame struct {
	id, parent string
	session    string
	url        string
	loader     string
	// How often its documents have asked for another one in their place; how many of these requests
	// had been made when the loading began that was the last to begin, and to end.
	navigations, begun, over int
	// The world of our scripts in the document of worldLoader.
	world       runtime.ExecutionContextID
	ours        runtime.RemoteObjectID     // belljar in it
	main        runtime.ExecutionContextID // the page's own
	reading     string                     // the world for expressions of the agent, if there is one
	worldLoader string
	heard       map[int64]bool // elements of it that our scripts know to have listeners; guarded by the tab's mu
	// The number of its element in the world of its parent, in the document of ownerLoader.
	owner       int
	ownerLoader string
}

// held is a dialog that waits for an answer.
type held struct {
	Dialog
	session string
	timer   *time.Timer
	before  bool // beforeunload
}

// stop is closed when the page will not answer what is asked of it now.
func (t *tab) stop() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.blocked
}

// block has those that wait for the page give up. t.mu is held.
func (t *tab) block() {
	select {
	case <-t.blocked:
	default:
		close(t.blocked)
	}
}

// change changes the state and wakes who waits for it.
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

// takeNotes are the notes since the last time.
func (t *tab) takeNotes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.notes
	t.notes = nil
	return n
}

// waiting is the dialog that waits for an answer, or nil.
func (t *tab) waiting() *Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dialog == nil {
		return nil
	}
	d := t.dialog.Dialog
	return &d
}

// session is that of the tab's page.
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

// url is that of the top document.
func (t *tab) url() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.frames[t.target]; f != nil {
		return f.url
	}
	return ""
}

// tree are the frames from the top down, a frame before those in it, at most MaxFrames.
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

// frameOf is a copy of a frame.
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

// gone takes a frame out, with those in it. t.mu is held.
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

// flooding reports whether the page of a session writes lines much faster than they are kept, so
// that an answer of it may wait behind them.
func (t ear) flooding(session string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[session]
	return v != nil && v.flood.goesOn(now)
}

// sites are the origins that the tab has to stay with: of the documents that are still there in
// which a secret was typed, in the tab and in those that it was opened from.
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
			break // it shows what a step opened
		}
		o = byName[o.opener]
	}
	return out
}

// opens reports whether a document is the one that a step opens now, which leaves what was
// there. t.mu is held.
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

// secretive reports whether a secret was typed in a document that is still there.
func (t eye) secretive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.secret) > 0
}
