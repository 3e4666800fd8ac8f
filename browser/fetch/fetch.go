package fetch

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
)

// The bounds of one page.
const (
	DefaultBytes = 10 << 20 // bytes of an unpacked body
	MaxBytes     = 64 << 20
	MaxRedirects = 10
	MaxURL       = 8 << 10 // bytes of a URL
)

// Accept is the Accept header of every request: markdown is preferred.
const Accept = "text/markdown, text/html;q=0.9, */*;q=0.1"

// UserAgent is the name that belljar sends to servers.
const UserAgent = "Mozilla/5.0 (compatible; belljar; +https://belljar.dev)"

// Door makes the connections for the calls of one grant. *egress.Door is a Door; a test may
// use another, which leads to its own servers.
type Door interface {
	Client() *http.Client
	Close() error
}

// Config configures a Fetcher. The zero Config is usable.
type Config struct {
	// Door opens the door of a grant; nil opens its egress door.
	Door func(g policies.Grant) (Door, error)
	// Record gets every connection and request, from many goroutines; it
	// must not block. It may be nil, and is not used with a Door of your own.
	Record func(tenant string, r egress.Record)
	// Allowed returns the bound of a tenant's bytes in an hour. It is called when a door is
	// opened for the tenant. It may be nil, and is not used with a Door of your own.
	Allowed func(g policies.Grant) *egress.Allowance
	// Log gets what an operator should know. If it is nil, nothing is logged.
	Log *slog.Logger

	// Burst is how many requests of one tenant one host gets without a wait, before it gets
	// two a second; default 20.
	Burst int

	// now returns the time; nil uses the machine's clock.
	now func() time.Time
}

// Request is one page to get.
type Request struct {
	URL string
	// Headers are sent only to the host of URL, in addition to the headers that Get sends
	// itself. The caller has checked that the policy allows the call to choose them.
	Headers map[string]string
	// MaxBytes bounds the unpacked body; 0 is DefaultBytes, at most MaxBytes. The rest is
	// left out, and Response.Truncated says so.
	MaxBytes int
	// Judge returns the policy's decision about a URL to which the page leads. If it is
	// nil, nothing is followed.
	Judge func(url string) policies.Decision
	// Progress, if it is not nil, is called with what the call waits for. It must not
	// block.
	Progress func(stage string)
}

// Redirect is one step from a URL to another.
type Redirect struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Status int    `json:"status,omitempty"` // HTTP status; 0 if the page itself leads on
}

// Stop is a redirect that was not followed.
type Stop struct {
	Redirect
	Why     string // reason, a sentence for the agent
	Instead string // what the agent can do instead
}

// Response is the answer of a server. It must not be changed: a cached answer is shared.
type Response struct {
	URL         string // URL that answered, after redirects, without a fragment
	Status      int
	ContentType string // Content-Type as the server sent it
	Language    string // Content-Language
	Filename    string // file name of a Content-Disposition with attachment
	Body        []byte // unpacked body
	Truncated   bool   // whether the body is not complete
	Partial     string // why the rest is missing, such as "the time was up"; empty if nothing is
	Redirects   []Redirect
	Stop        *Stop // redirect that was not followed; it has no body
	Fetched     time.Time
	Cached      bool // whether the answer comes from the cache
	Keep        bool // whether it may be kept for later calls of the same tenant
	Tries       int  // number of requests that were made for it
}

// Fetcher gets pages. Its methods are safe for concurrent use. The caller must Close it.
type Fetcher struct {
	cfg   Config
	rooms egress.Loans[*room]
}

// New returns a Fetcher. It opens nothing.
func New(cfg Config) *Fetcher {
	if cfg.Door == nil {
		cfg.Door = func(g policies.Grant) (Door, error) { return egress.NewFor(g, cfg.Record, cfg.Allowed) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Burst <= 0 {
		cfg.Burst = hostBurst
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	return &Fetcher{cfg: cfg}
}

// Close closes the doors, and forgets what was cached. Calls that run fail. It may be
// called twice.
func (f *Fetcher) Close() error { return f.rooms.Close() }

// Get gets a page. Its error is an *Error, or the cause of ctx if ctx was cancelled. If
// ctx's deadline passes while the body arrives, that is not an error: see Response.Partial.
// A status above 399 is an answer, except 401 and 407.
func (f *Fetcher) Get(ctx context.Context, g policies.Grant, r Request) (*Response, error) {
	t, err := f.begin(g, r)
	if err != nil {
		return nil, err
	}
	m, err := f.enter(g)
	if err != nil {
		return nil, err
	}
	defer f.rooms.Give(m)
	t.room = m.What
	return t.get(ctx)
}

// begin checks a request.
func (f *Fetcher) begin(g policies.Grant, r Request) (*trip, error) {
	if r.MaxBytes < 0 || r.MaxBytes > MaxBytes {
		return nil, &Error{Kind: KindURL, Message: "the limit of the page's bytes is not valid"}
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = DefaultBytes
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	u, err := parse(r.URL)
	if err != nil {
		return nil, err
	}
	if g.IsZero() || g.Egress().IsZero() {
		return nil, &Error{
			Kind: KindClosed, Profile: g.Profile(), Message: "the profile allows no network access, so no page can be fetched",
			Instead: "tell the person you work for that net of this profile has to allow pages, or that a rule for ReadDocs can grant another profile",
		}
	}
	return &trip{f: f, g: g, r: r, at: u, seen: map[string]bool{key(u): true}, reading: g.Reading()}, nil
}
