//go:build !noconsole

package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/console/assets"
	"belljar.dev/internal/front"
)

// Open opens the port of a console. Requests are answered only after Serve is called. The
// caller must close the console.
func Open(ctx context.Context, cfg Config) (*Console, error) {
	c := &Console{ring: newRing(time.Now()), looks: make(chan struct{}, 1), known: make(chan struct{}), chain: chain{asked: make(chan struct{}, 1)}}
	c.who, c.providerSlots = c.person, make(chan struct{}, maxProviderRequests)
	var err error
	if c.seal, err = newSeal(); err != nil {
		return nil, err
	}
	public, err := c.place(&cfg)
	if err != nil {
		return nil, front.Mistake(err)
	}
	c.front, err = front.Open(ctx, front.Config{
		Addr: cfg.Addr, Inherited: cfg.Inherited, Log: cfg.Log, Cert: cfg.Cert, Key: cfg.Key, PublicURL: public,
		Manner: front.Manner{
			Flag: "--console", Name: front.NameConsole, NotFound: "the console has nothing at this path", Header: headers(), Refuse: refuse, AllowsNavigation: c.isReturnPath,
		},
	}, cfg.People)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// place checks that a console may listen at its address, sets the prefix of its paths, and
// returns the origin under which browsers know it. The origin is empty if it is the origin
// of the address.
func (c *Console) place(cfg *Config) (public string, err error) {
	if (cfg.Cert == "") != (cfg.Key == "") {
		return "", errors.New("--console-cert and --console-key go together: a certificate is of no use without its key")
	}
	if cfg.URL != "" {
		if public, c.prefix, err = splitURL(cfg.URL); err != nil {
			return "", err
		}
	}
	if cfg.Inherited.Console() {
		return public, nil // front.Open checks the address of an inherited socket
	}
	local, err := front.IsLoopback(cfg.Addr)
	if err != nil {
		return "", fmt.Errorf("--console: %w", err)
	}
	if local {
		return public, nil
	}
	var lacks []string
	if cfg.Cert == "" {
		lacks = append(lacks, "TLS (--console-cert and --console-key)")
	}
	if cfg.URL == "" {
		lacks = append(lacks, "the name by which browsers know it (--console-url https://NAME:PORT/)")
	}
	if !cfg.People {
		lacks = append(lacks, "people in the policy (console: {people: ...}), each with a token of `belljar console token`, or a provider")
	}
	if len(lacks) > 0 {
		return "", fmt.Errorf("--console: listen on %q: other machines could reach it, so it needs %s; or use 127.0.0.1, and from elsewhere a tunnel such as ssh -L", cfg.Addr, strings.Join(lacks, "; and "))
	}
	return public, nil
}

// splitURL splits the URL of a page into its origin and its path. The path has a slash at
// its end, but not at its beginning.
func splitURL(text string) (public, prefix string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?#{}%") || u.Scheme != "https" && u.Scheme != "http" || !isClean(u.Path) {
		return "", "", fmt.Errorf("--console-url %q: want https://HOST/ or https://HOST/PATH/, without a query", text)
	}
	if local, _ := front.IsLoopback(withPort(u.Host)); u.Scheme != "https" && !local {
		return "", "", fmt.Errorf("--console-url %q: tokens would cross the network in clear text; want https://", text)
	}
	if prefix = strings.Trim(u.Path, "/"); prefix != "" {
		prefix += "/"
	}
	return u.Scheme + "://" + u.Host, prefix, nil
}

// isClean reports whether a path of a URL is in its shortest form, apart from a slash at
// its end.
func isClean(name string) bool {
	clean := path.Clean("/" + name)
	return name == "" || name == clean || clean != "/" && name == clean+"/"
}

// withPort returns host, with port 0 if it has none.
func withPort(host string) string {
	if strings.LastIndexByte(host, ':') <= strings.LastIndexByte(host, ']') {
		return host + ":0"
	}
	return host
}

// Serve answers requests until ctx ends, and returns when all connections are closed.
func (c *Console) Serve(ctx context.Context, views Views) error {
	c.mount(views)
	return c.serve(ctx)
}

// mount adds the routes at two places: at the root, for a proxy that removes the prefix,
// and below the prefix.
func (c *Console) mount(views Views) {
	c.views = views
	c.views.scope, c.table = Everything(), routes
	roots := []string{"/"}
	if c.prefix != "" {
		roots = append(roots, "/"+c.prefix)
	}
	c.each(func(at *route) {
		for _, root := range roots {
			c.front.Handle(at.method+" "+root+api+at.path, c.handler(at))
		}
	})
	for _, root := range roots {
		pages := http.StripPrefix(strings.TrimSuffix(root, "/"), assets.Handler())
		c.front.Handle("GET "+root+"{$}", pages)
		c.front.Handle("GET "+root+loginPath, pages)
		c.front.Handle("GET "+root+upstreamLoginPath, pages)
		c.front.Handle("GET "+root+"assets/", pages)
	}
}

// serve is Serve for a console with routes.
func (c *Console) serve(ctx context.Context) error {
	defer c.upstreamLogins.close(ctx)
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

// NewPart returns the Part of a server, which shows views. The caller must also call Run.
func NewPart(views Views) (*Part, error) {
	views.scope = Everything()
	c := &Console{views: views, table: routes, who: passedPerson, chain: chain{asked: make(chan struct{}, 1)}}
	p := &Part{console: c}
	// The consoles at the fronts answer these routes, because they know who is logged in.
	own := []string{"login", "login/begin", "logout", "me", "events"}
	add := func(at *route) {
		if !slices.Contains(own, at.path) {
			p.mux.HandleFunc(at.method+" /"+api+at.path, c.handler(at))
		}
	}
	c.each(add)
	add(&route{"GET", "things", ofServer, "", Viewer, listChanging, 0})
	p.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, "the worker has nothing at this path", http.StatusNotFound)
	})
	return p, nil
}
