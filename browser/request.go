package browser

import (
	"time"
)

// Until says when a page counts as loaded.
type Until string

// When a page counts as loaded. Each waits for what stands above it too.
const (
	// UntilSettled waits until the page's document and its requests are quiet
	// for a moment, at most for a few seconds after it has loaded. It is what
	// the empty Until means.
	UntilSettled Until = "settled"
	// UntilLoad waits for the load event: pictures and style sheets are there.
	UntilLoad Until = "load"
	// UntilDOM waits until the document is parsed.
	UntilDOM Until = "domcontentloaded"
)

// Bounds of a request. Load refuses what is above them.
const (
	MaxTimeout  = 5 * time.Minute
	MaxWait     = time.Minute
	MaxSelector = 1000     // bytes
	MaxHeaders  = 32       // of a request, 8 KiB each
	MaxHTML     = 64 << 20 // bytes
	MaxScrolls  = 50
)

// The defaults of a Request.
const (
	DefaultTimeout = 30 * time.Second
	DefaultHTML    = 16 << 20 // bytes
)

// Request is one page to load.
type Request struct {
	// URL is an absolute http or https URL. Any other is refused.
	URL string
	// Until says when the page counts as loaded; empty is UntilSettled.
	Until Until
	// Wait is the least time between the load event and the look at the page:
	// 0 to MaxWait.
	Wait time.Duration
	// Selector is a CSS selector that has to match before the page counts as
	// loaded; empty for none. A page on which it never matches is returned as
	// Partial when the time is up.
	Selector string
	// Timeout is for all of the call but its time in the queue: above 0 to
	// MaxTimeout, and 0 for DefaultTimeout. The context's deadline holds as well
	// and covers the queue.
	Timeout time.Duration
	// Headers are sent with the request for the page itself and with those to
	// the same origin, never to another.
	Headers map[string]string
	// Scrolls is how often at most the page is scrolled, for content that loads
	// when it is looked at: 0 to MaxScrolls. Only a page that shows signs of such
	// content is scrolled, and only until scrolling loads nothing new; Loaded.Notes
	// says where scrolling stopped.
	Scrolls int
	// HTML bounds the bytes of Loaded.HTML; 0 is DefaultHTML, at most MaxHTML.
	HTML int
	// Shot, where set, has a picture of the page taken.
	Shot *Shot
	// Progress, where set, is called as the call goes on, from one goroutine at
	// a time. It must not block.
	Progress func(Stage)
}

// Stage is how far a call is.
type Stage string

// The stages, in order. A call may pass through StageStarting and StageLoading
// twice: it is tried again if its Chrome dies.
const (
	StageQueued   Stage = "queued"   // waits for its turn
	StageStarting Stage = "starting" // waits for a Chrome to start
	StageLoading  Stage = "loading"
	StageReading  Stage = "reading" // the page is loaded, and read out
)

// Shot says how a picture of a page is taken.
type Shot struct {
	// Width and Height are those of the window, in CSS pixels; 0 is 1280 and
	// 800. At most 4096 each.
	Width, Height int
	// Full takes the whole page, down to 16384 pixels, and not only what fits
	// the window.
	Full bool
	// JPEG is the quality of a JPEG, 1 to 100; 0 takes a PNG.
	JPEG int
}

// Loaded is what became of a page.
type Loaded struct {
	// URL is where the page came from in the end, after redirects.
	URL string
	// Status is the HTTP status of the page; 0 for a page without one.
	Status int
	// Headers are those of that answer, by canonical name, at most 64.
	Headers map[string]string
	// ContentType is the media type that Chrome took the page for.
	ContentType string
	// Redirects are the redirects by HTTP on the way, in order, at most 32.
	Redirects []Redirect
	// Title is the document's.
	Title string
	// HTML is the document as it was when the page counted as loaded: with open
	// shadow roots as <template shadowrootmode> taken into the tree, and
	// documents of same-origin frames in place of the frames. Elements that
	// cannot be seen have the attribute data-belljar-hidden with the reason.
	HTML string
	// HTMLSize is how many bytes were written of the HTML; where that is more than
	// Request.HTML, HTML is cut. Of a page that is larger still less is written,
	// and Partial says so.
	HTMLSize int
	// Picture is the picture that Request.Shot asked for: a PNG or a JPEG.
	Picture []byte
	// Partial says why this is not the whole page; empty if it is. The part that
	// was there when the time was up is returned all the same.
	Partial string
	// Notes are what an agent may need to know of the page: dialogs that were
	// dismissed, downloads and pop-ups that were refused, errors of its scripts.
	// At most 32 lines of 200 bytes.
	Notes []string
	// Refused are the requests of the page that the egress door did not let
	// through, or the browser did not make, at most 32.
	Refused []Refused
	// Timing says where the time went.
	Timing Timing
	// Retried reports whether the call was begun again in another Chrome, after
	// the first one died.
	Retried bool
	// Degraded reports whether Chrome ran without its own sandbox, and the box
	// was the only wall: see policies.BrowserDegraded.
	Degraded bool
}

// Redirect is one redirect by HTTP.
type Redirect struct {
	From, To string
	Status   int
}

// Refused is a request that was not made.
type Refused struct {
	URL    string // at most 2 KiB of it
	Reason string // Chrome's, such as net::ERR_TUNNEL_CONNECTION_FAILED
}

// Timing is where the time of a call went.
type Timing struct {
	Queue time.Duration // waiting for a turn and for a Chrome
	Load  time.Duration // until the page counted as loaded
	Read  time.Duration // reading it out
	Total time.Duration
	Cold  bool // a Chrome had to be started for it
}

// Drawing is a picture to draw that is given, not fetched.
type Drawing struct {
	// SVG is an SVG image, at most 8 MiB. It is drawn in the way of an image: no
	// script in it runs, and nothing that it names is fetched (SVG Integration,
	// "secure static mode"). Its page has no network either.
	SVG []byte
	// Width and Height are how large it is to be, in pixels: 1 to 8192 each, and
	// together at most 32 million. Both 0 takes its own size, or 1024 where it
	// has none.
	Width, Height int
	// Timeout is for the whole call; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Drawn is a drawing as a PNG.
type Drawn struct {
	PNG           []byte
	Width, Height int // of the PNG
}
