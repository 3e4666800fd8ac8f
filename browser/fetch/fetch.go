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
	DefaultBytes = 10 << 20 // of a body, unpacked
	MaxBytes     = 64 << 20
	MaxRedirects = 10
	MaxURL       = 8 << 10 // bytes
)

// Accept is what a server is asked for: markdown where it has any.
const Accept = "text/markdown, text/html;q=0.9, */*;q=0.1"

// UserAgent is the name that belljar gives to servers.
const UserAgent = "Mozilla/5.0 (compatible; belljar; +https://belljar.dev)"

// Door is the way out for the calls of one grant. *egress.Door is one; a test
// may have another, which leads to servers of its own.
type Door interface {
	Client() *http.Client
	Close() error
}

// Config is what a Fetcher needs to know. The zero Config is usable.
type Config struct {
	// Door opens the door of a grant; nil opens its egress door.
	Door func(g policies.Grant) (Door, error)
	// Record gets every connection and request, from many goroutines; it
	// must not block. It may be nil, and is not used with a Door of your own.
	Record func(tenant string, r egress.Record)
	// Allowed returns what bounds the bytes of a tenant in an hour, where a door is opened
	// for it. It may be nil, and is not used with a Door of your own.
	Allowed func(g policies.Grant) *egress.Allowance
	// Log gets what an operator should know; default none.
	Log *slog.Logger

	// Burst is how many requests one host gets at once of one tenant, before it
	// gets two a second; default 20.
	Burst int

	// now is the clock; nil is the machine's.
	now func() time.Time
}

// Request is one page to get.
type Request struct {
	URL string
	// Headers are sent to the host of URL and to no other, over what Get sends by
	// itself. The caller has checked that the policy lets the call choose them.
	Headers map[string]string
	// MaxBytes bounds the unpacked body; 0 is DefaultBytes, at most MaxBytes. The rest is
	// left out, and Response.Truncated says so.
	MaxBytes int
	// Judge is what the policy says to a URL that the page leads on to. Nil
	// follows nothing.
	Judge func(url string) policies.Decision
	// Progress, where set, is called with what is waited for. It must not block.
	Progress func(stage string)
}

// Redirect is one step from a URL to another.
type Redirect struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Status int    `json:"status,omitempty"` // of HTTP; 0 where the page itself said so
}

// Stop is a redirect that was not followed.
type Stop struct {
	Redirect
	Why     string // a sentence for the agent
	Instead string // what to do
}

// Response is what a server answered. It must not be changed: a cached one is
// shared.
type Response struct {
	URL         string // that answered, after redirects; without a fragment
	Status      int
	ContentType string // as it was sent
	Language    string // Content-Language
	Filename    string // of a Content-Disposition that says attachment
	Body        []byte // unpacked
	Truncated   bool   // there is more of it
	Partial     string // why the rest is missing, such as "the time was up"; empty if nothing is
	Redirects   []Redirect
	Stop        *Stop // the redirect that was not followed; it comes without a body
	Fetched     time.Time
	Cached      bool // no server sent it now
	Keep        bool // it may be kept for later calls of the same tenant
	Tries       int  // requests that were made for it
}

// Fetcher gets pages. Its methods are safe for concurrent use. It must be closed.
type Fetcher struct {
	cfg   Config
	rooms egress.Loans[*room]
}

// New makes a Fetcher. It opens nothing.
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

// Close closes the doors, and forgets what was cached. Calls under way fail.
// Twice is fine.
func (f *Fetcher) Close() error { return f.rooms.Close() }

// Get gets a page. Its error is an *Error, or the cause of ctx if ctx was
// cancelled. If ctx's deadline passes while the body comes, that is not an error:
// see Response.Partial. A status above 399 is an answer, except 401 and 407.
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
		return nil, &Error{Kind: KindURL, Message: "the bound of the page's bytes makes no sense"}
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
			Kind: KindClosed, Profile: g.Profile(), Message: "the profile lets nothing out, so no page can be fetched",
			Instead: "tell the person you work for that net of this profile has to let pages through, or that a rule for ReadDocs can grant another profile",
		}
	}
	return &trip{f: f, g: g, r: r, at: u, seen: map[string]bool{key(u): true}, reading: g.Reading()}, nil
}
