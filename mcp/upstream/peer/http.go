package peer

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"belljar.dev/mcp/wire"
)

const (
	mostRedirects = 5
	mostSession   = 1 << 10 // most bytes of a session's id
	mostOffers    = 16      // most messages that are being sent and may be lost
	mostRetries   = 5       // most attempts to resume a stream without a new event
	offerTime     = 10 * time.Second
	deleteTime    = 2 * time.Second
	longestRetry  = 30 * time.Second
)

// HTTP is a Transport to a remote server: Streamable HTTP in both eras, or the HTTP+SSE of
// revision 2024-11-05, which is also tried if the server does not accept a POST.
type HTTP struct {
	URL string // http or https, without user information and fragment
	// Client makes all requests. It decides which addresses may be dialled, and has the TLS
	// configuration and the credentials. Its Timeout must be zero, since streams stay open.
	// Redirects are followed only within the host of URL: another host would get the
	// headers and the arguments of calls.
	Client *http.Client
	Header http.Header // headers of each request
	SSE    bool        // the server uses HTTP+SSE
}

func (h HTTP) connect(g guard) (carrier, error) {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL of the server is not valid") // err is not used: it contains the whole URL
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL of the server must begin with https:// or http:// and a host")
	case u.User != nil:
		return nil, errors.New("the URL of the server must not contain a user or a password")
	case u.Fragment != "" || strings.HasSuffix(h.URL, "#"):
		return nil, errors.New("the URL of the server must not contain a fragment")
	case h.Client == nil || h.Client.Timeout != 0:
		return nil, errors.New("HTTP.Client must be set, and its Timeout must be 0, because streams stay open")
	}
	if h.SSE && g.cfg.Era == Auto {
		g.cfg.Era = Legacy
	}
	client := *h.Client
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if !sameOrigin(r.URL, u) {
			return fmt.Errorf("the server redirects to another host, %q", r.URL.Host)
		}
		if len(via) > mostRedirects {
			return fmt.Errorf("the server redirects more than %d times", mostRedirects)
		}
		return nil
	}
	return &web{HTTP: h, conn: g, url: u, client: &client, offers: make(chan struct{}, mostOffers), running: make(map[int]func())}, nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// web is the carrier of HTTP. Each request is a POST with its own goroutine, which reads
// the response until the answer.
type web struct {
	HTTP
	conn   guard
	url    *url.URL
	client *http.Client
	offers chan struct{}  // has a token for each offer that is being sent
	wg     sync.WaitGroup // counts all goroutines of the carrier

	mu      sync.Mutex
	session string         // guarded by mu
	info    *Info          // guarded by mu: nil until the handshake is over
	old     *oldStream     // guarded by mu: nil unless the server uses HTTP+SSE
	closed  bool           // guarded by mu
	last    int            // guarded by mu: newest key in running
	running map[int]func() // guarded by mu: functions that end exchanges with the server
}

func (w *web) start(ctx context.Context) {
	if w.SSE {
		w.openOld(ctx)
	}
	w.wg.Go(func() {
		<-ctx.Done()
		w.endSession(context.WithoutCancel(ctx))
	})
}

// begin notes an exchange with the server; close ends the exchange. The caller calls done
// at its end. ok is false if the carrier is closed.
func (w *web) begin(ctx context.Context) (_ context.Context, done func(), ok bool) {
	ctx, stop := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		stop()
		return ctx, stop, false
	}
	w.last++
	key := w.last
	w.running[key] = stop
	w.wg.Add(1)
	return ctx, func() {
		stop()
		w.mu.Lock()
		delete(w.running, key)
		w.mu.Unlock()
		w.wg.Done()
	}, true
}

func (w *web) send(ctx context.Context, cl *call, line []byte) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // it ends with the call, and not with the caller's context
	cl.sent = make(chan struct{})
	if !w.conn.hold(cl, stop) {
		stop()
		return nil
	}
	ctx, done, ok := w.begin(ctx)
	if !ok {
		stop()
		return ErrClosed
	}
	go func() {
		defer done()
		defer stop()
		if err := w.exchange(ctx, cl, line); err != nil {
			w.conn.finish(cl, nil, err)
		}
	}()
	return nil
}

func (w *web) put(ctx context.Context, line []byte) error {
	ctx, done, ok := w.begin(ctx)
	defer done()
	if !ok {
		return ErrClosed
	}
	return w.post(ctx, line)
}

func (w *web) offer(ctx context.Context, line []byte) {
	select {
	case w.offers <- struct{}{}:
	default:
		return
	}
	ctx, done, ok := w.begin(context.WithoutCancel(ctx))
	if !ok {
		<-w.offers
		return
	}
	go func() {
		defer done()
		defer func() { <-w.offers }()
		ctx, stop := context.WithTimeout(ctx, offerTime)
		defer stop()
		if err := w.post(ctx, line); err != nil {
			w.conn.cfg.Log.Debug("a message to an upstream server was not sent", "error", err)
		}
	}()
}

// cancel sends a cancel to a legacy server, after the request was sent: a cancel that
// overtakes its request would be lost. For a modern server, ending the response is the
// cancel.
func (w *web) cancel(ctx context.Context, cl *call, reason string) {
	if info := w.agreement(); info == nil || info.Era == wire.Modern {
		cl.stop()
		return
	}
	ctx, done, ok := w.begin(context.WithoutCancel(ctx))
	if !ok {
		return
	}
	go func() {
		defer done()
		defer cl.stop()
		ctx, stop := context.WithTimeout(ctx, offerTime)
		defer stop()
		select {
		case <-cl.sent:
		case <-ctx.Done():
			return // the request was not sent, so no cancel is needed
		}
		if err := w.post(ctx, cancelLine(cl.id, reason)); err != nil {
			w.conn.cfg.Log.Debug("a cancel to an upstream server was not sent", "error", err)
		}
	}()
}

func (w *web) agreed(info *Info) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.info = info
}

// agreement returns the result of the handshake; nil before its end.
func (w *web) agreement() *Info {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.info
}

// listen reads the stream of messages that belong to no call. Only legacy servers have it.
func (w *web) listen(ctx context.Context) {
	if w.agreement().Era == wire.Legacy && w.oldStream() == nil {
		w.wg.Go(func() { w.listenLegacy(ctx) })
	}
}

// fallback switches to HTTP+SSE if the server does not accept a POST (MCP 2026-07-28,
// "HTTP+SSE Transport").
func (w *web) fallback(ctx context.Context, err error) bool {
	s, ok := errors.AsType[*StatusError](err)
	if !ok || w.oldStream() != nil {
		return false
	}
	switch s.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		return false
	}
	o := w.openOld(ctx)
	if _, err := o.wait(ctx); err != nil {
		w.mu.Lock()
		w.old = nil // the first error is the more useful one
		w.mu.Unlock()
		return false
	}
	return true
}

func (w *web) close() {
	w.mu.Lock()
	w.closed = true
	for _, stop := range w.running {
		stop()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// endSession asks a legacy server to end its session.
func (w *web) endSession(ctx context.Context) {
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session == "" || errors.Is(w.conn.Err(), ErrSession) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, deleteTime)
	defer stop()
	resp, err := w.do(ctx, http.MethodDelete, w.url, nil, nil)
	if err != nil {
		w.conn.cfg.Log.Debug("the session of an upstream server was not ended", "error", err)
		return
	}
	resp.Body.Close()
}

// keepSession stores the id that a server gives to a session.
func (w *web) keepSession(id string) error {
	if len(id) > mostSession {
		return fmt.Errorf("the id of the server's session has more than %d bytes", mostSession)
	}
	for _, b := range []byte(id) {
		if b <= ' ' || b > '~' {
			return errors.New("the id of the server's session contains a character that is not visible ASCII")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = id
	return nil
}

// oldStream is the stream of an HTTP+SSE server, which carries all messages of the server.
type oldStream struct {
	ready    chan struct{} // closed after endpoint or err is set
	endpoint *url.URL      // URL to which messages are posted
	err      error
}

// wait waits for the endpoint of a stream.
func (o *oldStream) wait(ctx context.Context) (*url.URL, error) {
	select {
	case <-o.ready:
		return o.endpoint, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *web) oldStream() *oldStream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.old
}

// openOld starts to read the stream of an HTTP+SSE server.
func (w *web) openOld(ctx context.Context) *oldStream {
	o := &oldStream{ready: make(chan struct{})}
	w.mu.Lock()
	w.old = o
	w.mu.Unlock()
	ctx, done, ok := w.begin(context.WithoutCancel(ctx))
	if !ok {
		o.err = ErrClosed
		close(o.ready)
		return o
	}
	go func() {
		defer done()
		err := w.readOld(ctx, o)
		select {
		case <-o.ready:
			w.conn.fail(fmt.Errorf("%w: %w", ErrEnded, err))
		default:
			o.err = err
			close(o.ready)
		}
	}()
	return o
}

// mediaType returns the media type of a response, such as application/json.
func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
