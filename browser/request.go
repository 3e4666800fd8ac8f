package browser

import (
	"time"
)

// Until says when a page counts as loaded.
type Until string

// When a page counts as loaded. Each value also waits for the values below it.
const (
	// UntilSettled waits until the page's document and its requests are quiet for a short
	// time, at most a few seconds after the page has loaded. The empty Until means the
	// same.
	UntilSettled Until = "settled"
	// UntilLoad waits for the load event: pictures and style sheets have loaded.
	UntilLoad Until = "load"
	// UntilDOM waits until the document is parsed.
	UntilDOM Until = "domcontentloaded"
)

// Bounds of a request. Load refuses a request above them.
const (
	MaxTimeout  = 5 * time.Minute
	MaxWait     = time.Minute
	MaxSelector = 1000     // bytes of a selector
	MaxHeaders  = 32       // headers of a request, 8 KiB each
	MaxHTML     = 64 << 20 // bytes of the HTML
	MaxScrolls  = 50
)

// The defaults of a Request.
const (
	DefaultTimeout = 30 * time.Second
	DefaultHTML    = 16 << 20 // bytes of the HTML
)

// Request is one page to load.
type Request struct {
	// URL is an absolute http or https URL. Any other URL is refused.
	URL string
	// Until says when the page counts as loaded; empty is UntilSettled.
	Until Until
	// Wait is the least time between the load event and the reading of the page: 0 to
	// MaxWait.
	Wait time.Duration
	// Selector is a CSS selector that must match before the page counts as loaded; if it is
	// empty, there is no such condition. A page on which it never matches is returned as
	// Partial when the time is up.
	Selector string
	// Timeout is for the whole call except its time in the queue: up to MaxTimeout; 0 means
	// DefaultTimeout. The context's deadline applies as well and includes the queue.
	Timeout time.Duration
	// Headers are sent with the request for the page itself and with requests to the same
	// origin, and never to another origin.
	Headers map[string]string
	// Scrolls is how often the page is scrolled at most, for content that loads when it
	// becomes visible: 0 to MaxScrolls. Only a page that shows signs of such content is
	// scrolled, and only until scrolling loads nothing new; Loaded.Notes says where
	// scrolling stopped.
	Scrolls int
	// HTML bounds the bytes of Loaded.HTML; 0 is DefaultHTML, at most MaxHTML.
	HTML int
	// Shot, if it is not nil, says that a picture of the page is taken, and how.
	Shot *Shot
	// Progress, if it is not nil, is called when the call reaches a stage, from one
	// goroutine at a time. It must not block.
	Progress func(Stage)
}

// Stage is how far a call has come.
type Stage string

// The stages, in order. A call may pass through StageStarting and StageLoading twice: it is
// tried again if its Chrome dies.
const (
	StageQueued   Stage = "queued"   // the call waits for its turn
	StageStarting Stage = "starting" // the call waits for a Chrome to start
	StageLoading  Stage = "loading"
	StageReading  Stage = "reading" // the page has loaded and is read out
)

// Shot says how a picture of a page is taken.
type Shot struct {
	// Width and Height are the size of the window, in CSS pixels, at most 4096 each; 0
	// means 1280 and 800.
	Width, Height int
	// Full says that the picture shows the whole page, down to 16384 pixels, and not only
	// what fits into the window.
	Full bool
	// JPEG is the quality of a JPEG, 1 to 100; 0 means a PNG.
	JPEG int
}

// Loaded is a page that was loaded.
type Loaded struct {
	// URL is the URL of the page in the end, after redirects.
	URL string
	// Status is the HTTP status of the page; 0 for a page without one.
	Status int
	// Headers are the headers of that answer, by canonical name, at most 64.
	Headers map[string]string
	// ContentType is the media type that Chrome determined for the page.
	ContentType string
	// Redirects are the HTTP redirects that led to the page, in order, at most 32.
	Redirects []Redirect
	// Title is the title of the document.
	Title string
	// HTML is the document as it was when the page counted as loaded, without most scripts
	// and styles. The content of open shadow roots and of same-origin frames is in its
	// place. Elements that are not visible have the attribute data-belljar-hidden with the
	// reason.
	HTML string
	// HTMLSize is how many bytes of HTML were written. If that is more than Request.HTML,
	// HTML is cut. If a page is even larger, less is written, and Partial says so.
	HTMLSize int
	// Picture is the picture that Request.Shot asked for: a PNG or a JPEG.
	Picture []byte
	// Partial says why this is not the whole page; it is empty if it is. The part that had
	// loaded when the time was up is returned all the same.
	Partial string
	// Notes are what an agent may need to know about the page: dialogs that were dismissed,
	// pop-ups that were closed, downloads that were refused, and where scrolling stopped.
	// At most 32 lines of 200 bytes, and one that says how many more there are.
	Notes []string
	// Refused are the requests of the page that the egress door refused, the browser did
	// not make, or the network failed, at most 32.
	Refused []Refused
	// Timing says how the time was used.
	Timing Timing
	// Retried reports whether the call was started again in another Chrome after the first
	// one died.
	Retried bool
	// Degraded reports whether Chrome ran without its own sandbox, so that the box was the
	// only wall: see policies.BrowserDegraded.
	Degraded bool
}

// Redirect is one redirect by HTTP.
type Redirect struct {
	From, To string
	Status   int
}

// Refused is a request that got no answer.
type Refused struct {
	URL    string // URL of the request, cut to 2 KiB
	Reason string // Chrome's reason, such as net::ERR_TUNNEL_CONNECTION_FAILED
}

// Timing says how the time of a call was used.
type Timing struct {
	Queue time.Duration // time in the queue and until a Chrome had started
	Load  time.Duration // time until the page counted as loaded
	Read  time.Duration // time to read the page out
	Total time.Duration
	Cold  bool // whether a Chrome had to be started for the call
}

// Drawing is a picture to draw. The caller supplies it; it is not fetched.
type Drawing struct {
	// SVG is an SVG image, at most 8 MiB. It is drawn as an image: no script in it runs,
	// and nothing that it names is fetched (SVG Integration, "secure static mode"). Its
	// page has no network either.
	SVG []byte
	// Width and Height are the size of the result in pixels: 1 to 8192 each, and together
	// at most 32 million pixels. If both are 0, the drawing's own size is used, or 1024 if
	// it has none.
	Width, Height int
	// Timeout is for the whole call; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Drawn is a drawing as a PNG.
type Drawn struct {
	PNG           []byte
	Width, Height int // size of the PNG
}
