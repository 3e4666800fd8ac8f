package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"belljar.dev/internal/origin"
	"belljar.dev/mcp"
)

// Config says where a front listens and which requests it accepts. Its fields have the
// names of the flags of `belljar serve`, which errors name.
type Config struct {
	Addr      string   // HOST:PORT, where HOST is an address or localhost
	Cert, Key string   // PEM files with the certificate and its key; empty without TLS
	ClientCA  string   // file with the authorities of clients' certificates; empty requires none
	Proxies   []string // networks of the proxies before this server
	PublicURL string   // URL by which clients know the server; empty means the URL of the address
	Hosts     []string // further names of the server
	Origins   []string // origins of web pages that may use the server
	// Connections is how many connections one address may have open; zero means
	// [Connections]. Loopback and the proxies have no bound.
	Connections int
	// Forwards means that requests run in other processes: boxes need no files of this
	// process, so more files are left for connections.
	Forwards  bool
	AccessLog string     // file that gets a line for each request, or "-" for Out; empty for no log
	Out       io.Writer  // standard output
	Meter     Meter      // counts requests; nil counts none
	Inherited *Inherited // inherited sockets; the one for this server takes the place of Addr; may be nil
	Manner    Manner
	Log       *slog.Logger
}

// Manner contains the differences between the MCP server, which is the zero value, and
// another server that uses the same chain of checks.
type Manner struct {
	Flag     string      // flag with the address, for errors; empty means --http
	Name     string      // name of its inherited socket; empty means the socket for clients
	NotFound string      // answer for a path without a route; empty means the answer of the MCP server
	Header   http.Header // headers of every answer
	// AllowsNavigation reports whether pages of other origins may lead a browser to a path.
	// The browser opens the path as a page of its own, and the other pages see nothing of
	// it. If AllowsNavigation is nil, no path is allowed.
	AllowsNavigation func(path string) bool
	// Refuse answers a request that a check has refused; nil means [http.Error].
	Refuse func(w http.ResponseWriter, text string, status int)
}

// Bounds of time and size. A call may take longer than all of these times, because they
// count only while bytes must arrive.
const (
	headerWait = 5 * time.Second  // time for the headers of a request
	bodyWait   = 15 * time.Second // time for the body of a request
	idleWait   = 2 * time.Minute  // time for which a connection may be idle
	maxHeader  = 16 << 10
	maxUnread  = 256 << 10 // unread bytes of request bodies of a connection over HTTP/2
)

// Connections is how many connections one address may have open if the configuration does
// not say it.
const Connections = 256

// Front is an open listener, and the chain of checks behind it. Handle must be called
// before Serve. All other methods are safe for concurrent use.
type Front struct {
	listener net.Listener
	port     net.Listener // the listener below
	keyPair  *keyPair     // nil without TLS
	guard    origin.Guard
	proxies  []netip.Prefix
	public   string            // origin by which clients know the server
	access   *accessLog        // nil without a log
	meter    Meter             // may be nil
	traced   func(RequestSpan) // may be nil
	warnings *rate.Limiter     // limits warnings about refused connections
	streams  *tally            // counts requests over HTTP/2
	closing  atomic.Bool

	succeeded   atomic.Bool
	connections atomic.Int64 // number of open connections
	log         *slog.Logger

	manner Manner // with all defaults, so only Header may be empty
	mux    *http.ServeMux
	routes []string // patterns of mux
}

// Open checks a configuration and opens its port. login says whether clients must log in;
// if they need not, only loopback addresses are allowed. The caller closes the front.
func Open(ctx context.Context, cfg Config, login bool) (_ *Front, err error) {
	manner := cfg.Manner.withDefaults()
	inherited := cfg.Inherited.listener(manner.Name)
	if inherited != nil {
		cfg.Addr = inherited.Addr().String() // the same rules apply to the inherited address
		defer func() {
			if err != nil {
				inherited.Close()
			}
		}()
	}
	f := &Front{log: cfg.Log, meter: cfg.Meter, manner: manner, mux: http.NewServeMux(), warnings: rate.NewLimiter(1, 1)}
	f.mux.HandleFunc("/", f.notFound)
	if err := f.configure(&cfg, login); err != nil {
		return nil, &ConfigError{err}
	}
	if cfg.Cert != "" {
		if f.keyPair, err = openKeyPair(cfg.Cert, cfg.Key, cfg.ClientCA, cfg.Log); err != nil {
			return nil, fmt.Errorf("open the certificate: %w", err)
		}
	}
	if cfg.AccessLog != "" {
		if f.access, err = openAccessLog(cfg.AccessLog, cfg.Out, cfg.Log); err != nil {
			return nil, err
		}
	}
	l := inherited
	if l == nil {
		l, err = listen(ctx, manner.Flag, cfg.Addr)
	}
	if err != nil {
		if f.access != nil {
			f.access.close()
		}
		return nil, err
	}
	f.port = l
	most := cmp.Or(cfg.Connections, Connections)
	f.listener = &boundedListener{Listener: l, tally: newTally(most, cfg.Forwards, f.proxies), refused: f.noteRefused}
	f.streams = newTally(most, cfg.Forwards, f.proxies)
	return f, nil
}

// withDefaults returns a manner whose empty fields are filled with those of the MCP server.
func (m Manner) withDefaults() Manner {
	m.Flag = cmp.Or(m.Flag, "--http")
	m.Name = cmp.Or(m.Name, nameClients)
	m.NotFound = cmp.Or(m.NotFound, "nothing is served at this path; MCP is served at /mcp")
	if m.Refuse == nil {
		m.Refuse = http.Error
	}
	return m
}

// noteRefused records a connection, or a request over HTTP/2, that was closed immediately.
func (f *Front) noteRefused(from netip.Addr) {
	if f.meter != nil {
		f.meter.Limited(limitConnections)
	}
	if f.warnings.Allow() {
		f.log.Warn("a new connection was closed: its address, or all addresses together, have too many connections", "from", from)
	}
}

// configure checks a configuration, and stores the parts that need no file and no port.
func (f *Front) configure(cfg *Config, login bool) (err error) {
	switch {
	case (cfg.Cert == "") != (cfg.Key == ""):
		return errors.New("--tls-cert and --tls-key go together: a certificate is of no use without its key")
	case cfg.Cert == "" && cfg.ClientCA != "":
		return errors.New("--tls-client-ca goes with --tls-cert: without TLS clients show no certificate")
	case cfg.Connections < 0:
		return errors.New("--connections: want a number above zero")
	}
	if err := cfg.checkAddr(login); err != nil {
		return err
	}
	if f.proxies, err = parsePrefixes(cfg.Proxies); err != nil {
		return err
	}
	f.guard, f.public, err = cfg.guard()
	return err
}

// guard returns the names of the server and the origins of pages that may use it. public is
// the origin by which clients know the server; empty means the origin of the address.
func (cfg *Config) guard() (g origin.Guard, public string, err error) {
	for _, text := range cfg.Hosts {
		name, err := origin.ParseHost(text)
		if err != nil {
			return g, "", fmt.Errorf("--host %w; want a name such as belljar.example", err)
		}
		g.Hosts = append(g.Hosts, name)
	}
	for _, text := range cfg.Origins {
		page, err := origin.ParseOrigin(text)
		if err != nil {
			return g, "", fmt.Errorf("--origin %w", err)
		}
		g.Origins = append(g.Origins, page)
	}
	if cfg.PublicURL == "" {
		return g, "", nil
	}
	u, err := url.Parse(cfg.PublicURL)
	if err == nil && (u.Path == "/" || u.Path == "/mcp") {
		u.Path = ""
	}
	if err == nil {
		public, err = origin.ParseOrigin(u.String())
	}
	if err != nil {
		return g, "", fmt.Errorf("--public-url %q: want https://HOST, or https://HOST:PORT; /mcp is added to it", cfg.PublicURL)
	}
	if u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return g, "", fmt.Errorf("--public-url %q: tokens would cross the network in clear text; want https://", cfg.PublicURL)
	}
	name, err := origin.ParseHost(u.Host)
	if err != nil {
		return g, "", err // ParseOrigin has checked the name
	}
	g.Hosts, g.Origins = append(g.Hosts, name), append(g.Origins, public)
	return g, public, nil
}

// Close closes the port of a front that is not served, and its access log. It may be called
// several times.
func (f *Front) Close() {
	f.listener.Close()
	if f.access != nil {
		f.access.close()
	}
}

// Handle adds a route, with a pattern of http.ServeMux.
func (f *Front) Handle(pattern string, h http.Handler) {
	f.routes = append(f.routes, pattern)
	f.mux.Handle(pattern, h)
}

// Routes returns the patterns of all routes.
func (f *Front) Routes() []string { return slices.Clone(f.routes) }

// URL returns the origin by which clients know the server.
func (f *Front) URL() string {
	switch {
	case f.public != "":
		return f.public
	case f.keyPair != nil:
		return "https://" + f.listener.Addr().String()
	}
	return "http://" + f.listener.Addr().String()
}

// Addr returns the address of the port.
func (f *Front) Addr() string { return f.port.Addr().String() }

// Degraded returns what is wrong with the certificate; empty if nothing is wrong.
func (f *Front) Degraded() string {
	if f.keyPair == nil {
		return ""
	}
	return f.keyPair.degraded()
}

// Expires returns when the certificate expires; zero without TLS.
func (f *Front) Expires() time.Time {
	if f.keyPair == nil {
		return time.Time{}
	}
	return f.keyPair.now.Load().leaf.NotAfter
}

// Reload makes the front read the certificate and open the access log again. It does not
// wait for this.
func (f *Front) Reload() {
	if f.access != nil {
		f.access.ask()
	}
	if f.keyPair != nil {
		f.keyPair.ask()
	}
}

// ServeHTTP handles a request in the chain of the package comment.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor >= 2 {
		leave, ok := f.streams.enter(addrOf(r.RemoteAddr))
		if !ok {
			f.noteRefused(addrOf(r.RemoteAddr))
			panic(http.ErrAbortHandler) // an answer would wait for a client that does not read
		}
		defer leave()
	}
	if f.access != nil || f.meter != nil || f.traced != nil {
		f.observed(w, r)
		return
	}
	a := f.answer(w)
	f.serve(a, r)
	a.begins(http.StatusOK)
}

// observed serves a request, and reports its result to the access log, the meter and the
// tracer.
func (f *Front) observed(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	ctx, served := mcp.WithServed(r.Context())
	if f.traced != nil {
		served.StartSpan(r)
	}
	r = r.WithContext(ctx)
	session := r.Header.Get("Mcp-Session-Id")
	a := f.answer(w)
	defer func() {
		// A connection of a WebSocket continues after this, but the request and its answer
		// are not kept.
		e, streaming := f.entryOf(r, a, session, began), a.streaming
		served.WhenOver(func() { f.over(e, served, began, streaming) })
	}()
	f.serve(a, r)
	a.begins(http.StatusOK) // if nothing was sent, net/http now sends this status
}

// over reports a request whose answer has ended to the access log, the meter and the
// tracer.
func (f *Front) over(e entry, served *mcp.Served, began time.Time, streaming bool) {
	if f.meter != nil {
		if streaming {
			f.meter.Streaming(-1)
		}
		f.meter.Answered(Answered{HTTP: e.HTTP, Route: e.Route, Status: e.Status, Took: time.Since(began)})
		if served.Limit != "" {
			f.meter.Limited(served.Limit)
		}
	}
	if f.traced != nil {
		if span, ok := served.EndSpan(); ok {
			f.traced(RequestSpan{Span: span, HTTP: e.HTTP, Route: e.Route, Status: e.Status, Start: began, End: time.Now()})
		}
	}
	if f.access != nil {
		f.access.add(e.of(served, began))
	}
}

// RequestSpan is a request with a call, and its answer. A client chooses only the id of the
// trace and the parent.
type RequestSpan struct {
	mcp.Span
	HTTP, Route string // see Answered
	Status      int
	Start, End  time.Time
}

// OnSpan sets the function that gets each request with a call when its answer has ended.
// OnSpan must be called before Serve. The function is called from many goroutines, and must
// not block.
func (f *Front) OnSpan(get func(RequestSpan)) { f.traced = get }

// serve is the part of the chain after the access log.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), f.manner.Header)
	closeAfterChunks(w, r)
	boundBody(w, r)
	f.checkAndRoute(w, r)
	flushBounded(w, r)
}

// checkAndRoute passes a request through the checks to its handler, within the time limits.
func (f *Front) checkAndRoute(w http.ResponseWriter, r *http.Request) {
	if !f.fromProxy(r) {
		f.manner.Refuse(w, "this server accepts requests from its proxy only; connect to the proxy", http.StatusForbidden)
		return
	}
	if err := f.guard.Check(r); err != nil && (!errors.Is(err, origin.ErrOrigin) || !f.isAllowedNavigation(r)) {
		f.manner.Refuse(w, err.Error(), http.StatusForbidden)
		return
	}
	if f.preflight(w, r) {
		return
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
		// The mux would redirect the client to the clean path, and repeat the query, which
		// may contain a token.
		f.notFound(w, r)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// isAllowedNavigation reports whether a request comes from a browser that was led to a
// path, and that opens it as a page of its own.
func (f *Front) isAllowedNavigation(r *http.Request) bool {
	_, sent := r.Header["Origin"]
	return f.manner.AllowsNavigation != nil && r.Method == http.MethodGet && !sent && r.Header.Get("Sec-Fetch-Dest") == "document" && f.manner.AllowsNavigation(r.URL.Path)
}

// notFound answers a request for a path without a route. It does not repeat the path, and
// removes the pattern of the request.
func (f *Front) notFound(w http.ResponseWriter, r *http.Request) {
	r.Pattern = ""
	f.manner.Refuse(w, f.manner.NotFound, http.StatusNotFound)
}

// fromProxy reports whether the sender of a request is allowed. If TLS ends at a proxy,
// only the proxy, or a process on this machine, may send tokens to this server in clear text.
func (f *Front) fromProxy(r *http.Request) bool {
	if len(f.proxies) == 0 || r.TLS != nil {
		return true
	}
	peer := addrOf(r.RemoteAddr)
	return peer.IsLoopback() || contains(f.proxies, peer)
}

// Succeed records that another process accepts the connections from now on. When the
// context of Serve ends, the open connections have handOverGrace to end before Serve
// drains.
func (f *Front) Succeed() { f.succeeded.Store(true) }

// Serve serves requests until ctx ends. Then it calls drain, which ends what runs, while
// the port is still open, so that requests that arrive meanwhile are answered. It returns
// when every connection is closed.
func (f *Front) Serve(ctx context.Context, drain func() error) error {
	server := &http.Server{
		Handler:           f,
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread},
		ErrorLog:          slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		ConnState:         f.trackConnection,
		// Otherwise net/http would answer OPTIONS * itself, before all checks.
		DisableGeneralOptionsHandler: true,
	}
	listener := f.listener
	if f.keyPair != nil {
		server.TLSConfig = f.keyPair.config()
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	if f.keyPair != nil {
		running.Go(func() { f.keyPair.follow(following) })
	}
	if f.access != nil { // the log ends after the last request
		logging, last := context.WithCancel(context.WithoutCancel(ctx))
		defer last()
		running.Go(func() { f.access.follow(logging) })
	}
	ended := make(chan error, 1)
	running.Go(func() { ended <- server.Serve(listener) })
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", f.URL(), err)
	case <-ctx.Done():
	}
	f.closing.Store(true)
	if f.succeeded.Load() {
		f.port.Close() // the other process has its own listener on this port
		f.waitEmpty(ctx)
		// While this server drains, it would refuse requests that the other process
		// answers. Therefore no connection stays open for a further request, not even the
		// connection of a stream, whose answer began before it could say so. ctx has ended,
		// so Shutdown does not wait.
		_ = server.Shutdown(ctx)
	}
	err := drain()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), linger)
	defer cancel()
	if server.Shutdown(patience) != nil {
		server.Close()
	}
	return err
}

// trackConnection counts the open connections.
func (f *Front) trackConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		f.connections.Add(1)
	case http.StateClosed, http.StateHijacked:
		f.connections.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// waitEmpty waits until no connection is open, at most for handOverGrace. Clients close
// their connections after the next answer, and connect to the other process.
func (f *Front) waitEmpty(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverGrace)
	defer cancel()
	look := time.NewTicker(handOverGrace / 50)
	defer look.Stop()
	for f.connections.Load() > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// handOverGrace is how long the connections of a process with a successor may stay open. A
// connection that is idle for longer is closed.
const handOverGrace = 5 * time.Second

// linger is how long connections may take to end after their last answer.
const linger = 2 * time.Second
