package browser

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// Bounds of what is kept of one page.
const (
	maxRequests  = 2048 // that are under way
	maxRedirects = 32
	maxNotes     = 32
	maxNote      = 200 // bytes
	maxRefused   = 32
	maxURL       = 2048
	maxHeader    = 64
)

// The window of a page, in CSS pixels.
const windowWidth, windowHeight = 1280, 800

// world is the name of the isolated world that our scripts run in: a page sees
// neither them nor what they change of the language.
const world = "belljar"

// tab is one page in a context of its own, for one call.
type tab struct {
	ch      *chrome
	context cdp.BrowserContextID
	target  target.ID
	frame   cdp.FrameID
	session string
	changed chan struct{} // something below changed; room for one
	headers map[string]string
	origin  string // that headers are for
	trusted bool   // it may take its time: a page before it was given up

	mu        sync.Mutex
	crashed   bool
	detached  bool
	loader    string
	committed bool // a document is there
	dom       bool
	loaded    bool
	loadedAt  time.Time
	stopped   bool      // without a load event
	leaving   bool      // the page is on its way to another
	leaveBy   time.Time // until when that is waited for
	requests  map[string]request
	counted   int       // of requests that a page is not settled with
	lastNet   time.Time // when one of them began or ended
	active    bool      // scripts of the page asked for more
	doc       document
	failure   string // Chrome's error of the document
	astray    string // Chrome's error of where the page led to by itself
	download  string // what it would have been called
	redirects []Redirect
	notes     []string
	noted     int
	refused   []Refused

	ahead ahead // of load only
	early *read // the page as it was when it settled; of load only
	lazy  lazy  // how it may become more when it is scrolled, from then
}

type request struct {
	url     string
	counted bool
}

// document is what came from the server.
type document struct {
	url, mime string
	status    int
	headers   map[string]string
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

// note keeps a line for the agent. t.mu is held.
func (t *tab) note(format string, args ...any) {
	t.noted++
	if len(t.notes) < maxNotes {
		t.notes = append(t.notes, clip(fmt.Sprintf(format, args...), maxNote))
	}
}

// clip is text of at most so many bytes, in one line.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most+4)], "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-3], "") + "..."
	}
	return text
}

func (t *tab) downloads(url, name string) {
	t.change(func() {
		t.download = clip(name, maxNote)
		if t.committed {
			t.leaving = false
			t.note("a download was refused: %s", clip(url, maxNote))
		}
	})
}
