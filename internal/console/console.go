package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"belljar.dev/internal/console/assets"
	"belljar.dev/internal/front"
)

// Config says where a console is.
type Config struct {
	Addr      string           // HOST:PORT, where HOST is loopback
	Inherited *front.Inherited // a socket of it takes the place of Addr; nil for none
	Log       *slog.Logger
}

// Console is a listener for browsers, and who is logged in there. Its methods are safe for
// concurrent use.
type Console struct {
	front  *front.Front
	access access
	views  Views
	shown  []string // the views that the page has
	ring   *ring
	looks  chan struct{} // see look
	known  chan struct{} // closed once the server was looked at
	chain  chain
	usage  usage
}

// headers are those of every answer.
func headers() http.Header {
	h := http.Header{}
	h.Set("Content-Security-Policy", assets.ContentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	return h
}

// Open opens the port of a console. Nobody is answered before Serve. The caller closes the
// console.
func Open(ctx context.Context, cfg Config) (*Console, error) {
	if !cfg.Inherited.Console() {
		local, err := front.IsLoopback(cfg.Addr)
		if err == nil && !local {
			err = fmt.Errorf("listen on %q: others than this machine could reach it, and a console for them needs TLS and a login of people, which this version does not have; use 127.0.0.1, and from elsewhere a tunnel such as ssh -L", cfg.Addr)
		}
		if err != nil {
			return nil, front.Mistake(fmt.Errorf("--console: %w", err))
		}
	}
	c := &Console{ring: newRing(time.Now()), looks: make(chan struct{}, 1), known: make(chan struct{}), chain: chain{asked: make(chan struct{}, 1)}}
	var err error
	c.front, err = front.Open(ctx, front.Config{
		Addr: cfg.Addr, Inherited: cfg.Inherited, Log: cfg.Log,
		Manner: front.Manner{
			Flag: "--console", Name: front.NameConsole, Nowhere: "the console has nothing at this path", Header: headers(), Refuse: refuse,
		},
	}, false)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Front is the listener, for the hand-over to another process.
func (c *Console) Front() *front.Front { return c.front }

// URL is where the page is.
func (c *Console) URL() string { return c.front.URL() + "/" }

// Link returns a URL by which a person logs in once, and until when.
func (c *Console) Link(person string, role Role) (url string, until time.Time) {
	code, until := c.access.code(person, role)
	return c.URL() + "#" + code, until
}

// Close closes the port of a console that is not served. Twice is fine.
func (c *Console) Close() { c.front.Close() }

// Serve answers until ctx ends, and returns when all connections are closed.
func (c *Console) Serve(ctx context.Context, views Views) error {
	c.mount(views)
	return c.serve(ctx)
}

// mount adds the routes.
func (c *Console) mount(views Views) {
	c.views = views
	for _, r := range c.routes() {
		if r.view != "" {
			c.shown = append(c.shown, r.view)
		}
		c.front.Handle(r.method+" "+api+r.path, c.handler(r))
	}
	pages := assets.Handler()
	c.front.Handle("GET /{$}", pages)
	c.front.Handle("GET /assets/", pages)
}

// serve is Serve of a console with its routes.
func (c *Console) serve(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { c.follow(ctx) })
	following.Go(func() { c.chain.follow(ctx, c.views.AuditDir) })
	if runs := c.views.Runs; runs != nil {
		following.Go(func() { c.usage.follow(ctx, runs, c.access.anybody) })
	}
	return c.front.Serve(ctx, func() error {
		c.ring.end()
		return nil
	})
}

// Look has events made at once of what has changed. It does not wait for that.
func (c *Console) Look() { c.look() }
