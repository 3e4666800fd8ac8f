package fleet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// hijacked makes the streams of a rig continue without a handler. returned gets a value
// when a handler has returned. sent gets, at the end of each stream, the number of bytes
// that were sent after its handler returned.
func (r *rig) hijacked() (returned chan struct{}, sent chan int64) {
	returned, sent = make(chan struct{}, 64), make(chan int64, 64)
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.serveHijacked(w, req, sent)
		returned <- struct{}{}
	})
	return returned, sent
}

// serveHijacked serves a request whose stream can continue without a handler, while its
// caller is valid.
func (r *rig) serveHijacked(w http.ResponseWriter, req *http.Request, sent chan<- int64) {
	place, _, _ := strings.Cut(req.URL.Path[1:], "/")
	r.front.ServeRequest(w, req, Request{
		Place: place, Caller: "caller", Valid: func() bool { return !r.invalid.Load() },
		Hijacked: func() func(int64) { return func(n int64) { sent <- n } },
	})
}

// listen writes a request for a stream to a connection, and reads the headers of the
// answer.
func (r *rig) listen(method string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second * testenv.Patience(r.t)))
	const body = `{"id":1,"method":"listen"}`
	fmt.Fprintf(c, "%s /p/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, len(body), body)
	text := bufio.NewReader(c)
	for {
		line, err := text.ReadString('\n')
		if err != nil {
			r.t.Fatal(err)
		}
		if line == "\r\n" {
			return c, text
		}
	}
}

// noFlights waits until nothing is left of any request.
func (r *rig) noFlights() {
	r.t.Helper()
	r.until("the end of all", func() bool {
		l := r.front.roster.named("w1")
		return (l == nil || l.running.Load() == 0) && len(r.front.flights.all()) == 0 && len(r.front.hijacked.all()) == 0 &&
			r.front.bodies.taken() == 0 && r.front.answers.taken() == 0
	})
}

// A stream that lasts continues after the handler has returned. It ends like any other
// stream: with its last event, with its client, with its worker, with an incomplete answer,
// and with its front.
func TestStreamWithoutAHandler(t *testing.T) { nearAndFar(t, streamWithoutAHandler) }

func streamWithoutAHandler(t *testing.T, far bool) {
	r := newRig(t, nil)
	r.far = far
	returned, sent := r.hijacked()
	next, gone := make(chan string), make(chan struct{}, 1)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case text := <-next:
				if text == "" {
					return
				}
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-req.Context().Done():
				gone <- struct{}{}
				return
			}
		}
	}, "p")
	link := func() *link { return r.front.roster.named("w1") }
	for name, tt := range map[string]struct {
		end  func(body io.ReadCloser)
		want string // text after the first event
		cut  bool
	}{
		"its last event": {func(io.ReadCloser) { next <- "data: last\n\n"; next <- "" }, "data: last\n\n", false},
		"its client":     {func(body io.ReadCloser) { body.Close() }, "", true},
		"its worker":     {func(io.ReadCloser) { link().Close() }, "event: message\ndata: {\"lost\":1}\n\n", false},
		"its worker, in between": {func(body io.ReadCloser) {
			next <- "data: tor" + strings.Repeat("n", 2*maxBuffered)
			_, _ = io.ReadFull(body, make([]byte, 1))
			link().Close()
		}, "", true},
		"the front": {func(io.ReadCloser) { r.front.flights.all()[0].end() }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r.until("a link", func() bool { return link() != nil })
			res, err := http.Post(r.http.URL+"/p/mcp", "application/json", strings.NewReader(`{"id":1,"method":"listen"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			await(t, returned, "end of the handler")
			if n := link().running.Load(); n != 1 || len(r.front.flights.all()) != 1 {
				t.Errorf("%d requests of the link are in flight, %d of the front", n, len(r.front.flights.all()))
			}
			next <- "data: first\n\n"
			first := make([]byte, len("data: first\n\n"))
			if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "data: first\n\n" {
				t.Fatalf("%q, %v", first, err)
			}
			l := link()
			tt.end(res.Body)
			rest, err := io.ReadAll(res.Body)
			if (err != nil) != tt.cut || !tt.cut && string(rest) != tt.want {
				t.Errorf("got %.80q, %v; want %q, cut %t", rest, err, tt.want, tt.cut)
			}
			least := int64(len(first) + len(tt.want))
			if n := await(t, sent, "count of what was sent"); n < least || !tt.cut && n != least {
				t.Errorf("%d bytes are said to have been sent, want %d", n, least)
			}
			if name != "its last event" {
				await(t, gone, "end of the request at the worker")
			}
			r.until("the end of the link's requests", func() bool { return l.running.Load() == 0 })
			r.noFlights()
		})
	}
}

// A front does not wait for a client that does not read its stream: neither when the front
// ends, nor when it drains, nor when the client is not valid any more.
func TestStreamWithoutAReader(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"close":   func(r *rig) { r.front.Close() },
		"drain":   func(r *rig) { r.front.Drain(context.Background()) },
		"recheck": func(r *rig) { r.invalid.Store(true); r.front.Recheck() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			returned, _ := r.hijacked()
			var written atomic.Int64
			r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				event := "data: " + strings.Repeat("x", 16<<10) + "\n\n"
				for req.Context().Err() == nil {
					n, _ := io.WriteString(w, event)
					written.Add(int64(n))
				}
			}, "p")
			c, _ := r.listen("POST")
			defer c.Close() // otherwise the end of the rig waits for the connection
			await(t, returned, "end of the handler")
			before := int64(-1)
			r.until("full buffers on the way", func() bool {
				testenv.Delay(t.Context(), 300*time.Millisecond)
				now := written.Load()
				defer func() { before = now }()
				return now > 0 && now == before
			})
			over := make(chan struct{})
			go func() {
				defer close(over)
				end(r)
			}()
			await(t, over, "end of "+name)
			r.noFlights()
		})
	}
}

// A client that sends more than maxUnasked bytes while it has a stream loses the stream.
func TestStreamOfATalker(t *testing.T) {
	r := newRig(t, nil)
	returned, _ := r.hijacked()
	gone := make(chan struct{}, 1)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for req.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			testenv.Delay(req.Context(), time.Millisecond)
		}
		gone <- struct{}{}
	}, "p")
	c, text := r.listen("POST")
	await(t, returned, "end of the handler")
	events := func() (err error) {
		for range 300 {
			if _, err = text.ReadString('x'); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := io.WriteString(c, strings.Repeat("x", maxUnasked)); err != nil {
		t.Fatal(err)
	}
	if err := events(); err != nil {
		t.Fatalf("after %d bytes: %v", maxUnasked, err)
	}
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	await(t, gone, "end of the stream")
	r.noFlights()
}

// An answer that must not have a body gets none, whatever the worker sends.
func TestStreamWithoutABody(t *testing.T) {
	r := newRig(t, nil)
	returned, _ := r.hijacked()
	code := make(chan int, 1)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(<-code)
	}, "p")
	for _, tt := range []struct {
		method string
		code   int
	}{{"POST", http.StatusNoContent}, {"POST", http.StatusNotModified}, {"HEAD", http.StatusOK}} {
		code <- tt.code
		_, text := r.listen(tt.method)
		if rest, err := io.ReadAll(text); err != nil || len(rest) > 0 {
			t.Errorf("%s, %d: the answer has the body %q, %v", tt.method, tt.code, rest, err)
		}
		await(t, returned, "end of the handler")
		r.noFlights()
	}
}

// panicking is a protocol that panics for every event.
type panicking struct{ texts }

func (panicking) Answers([]byte, Message) bool { panic("hostile bytes") }

// A panic while a stream is sent ends that stream, and not the front.
func TestStreamThatPanics(t *testing.T) {
	r := newRig(t, nil)
	returned, sent := r.hijacked()
	r.front.cfg.Protocol = panicking{}
	next, gone := make(chan struct{}), make(chan struct{})
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "data: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
		close(gone)
	}, "p")
	_, text := r.listen("POST")
	await(t, returned, "end of the handler")
	next <- struct{}{}
	if rest, err := io.ReadAll(text); err != nil || len(rest) > 0 {
		t.Errorf("a stream that is cut has %q, %v", rest, err)
	}
	await(t, sent, "count of what was sent")
	await(t, gone, "end of the request at the worker")
	r.noFlights()
	r.until("log of the panic", func() bool { return strings.Contains(r.log.String(), "hostile bytes") })
}

// kept is a connection whose hijacking fails with another error than http.ErrNotSupported.
type kept struct{ http.ResponseWriter }

func (kept) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, io.ErrUnexpectedEOF }
func (k kept) Unwrap() http.ResponseWriter                { return k.ResponseWriter }

// A stream ends if the hijacking of its connection fails, because neither the front nor
// net/http can use the connection.
func TestStreamThatCannotBeHijacked(t *testing.T) {
	r := newRig(t, nil)
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.serveHijacked(kept{w}, req, nil)
	})
	gone := make(chan struct{})
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
		close(gone)
	}, "p")
	c, _ := r.listen("POST")
	defer c.Close() // otherwise the end of the rig waits for the connection
	await(t, gone, "end of the request at the worker")
	r.noFlights()
}
