package fleet

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// lasting has the streams of a rig go on without a handler. What was sent of each without one comes
// from the channel at its end.
func (r *rig) lasting() (returned chan struct{}, sent chan int64) {
	returned, sent = make(chan struct{}, 64), make(chan int64, 64)
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		place, _, _ := strings.Cut(req.URL.Path[1:], "/")
		r.front.ServeRequest(w, req, Request{Place: place, Caller: "caller", GoesOn: func() func(int64) { return func(n int64) { sent <- n } }})
		returned <- struct{}{}
	})
	return returned, sent
}

// A stream that lasts goes on when the handler has returned, and ends as any other does: with its
// last event, with its client, with its worker, with an answer that is torn, and with its front.
func TestStreamWithoutAHandler(t *testing.T) {
	r := newRig(t, nil)
	returned, sent := r.lasting()
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
		want string // behind the first event
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
			<-returned
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
			if n := <-sent; n < int64(len(first)+len(tt.want)) {
				t.Errorf("%d bytes are said to have been sent", n)
			}
			if name != "its last event" {
				<-gone
			}
			r.until("the end of all", func() bool {
				return l.running.Load() == 0 && len(r.front.flights.all()) == 0 && len(r.front.lasting.all()) == 0 && r.front.bodies.taken() == 0 && r.front.answers.taken() == 0
			})
		})
	}
}

// A front that ends waits for no client that does not read its stream.
func TestStreamWithoutAReader(t *testing.T) {
	r := newRig(t, nil)
	returned, _ := r.lasting()
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for req.Context().Err() == nil {
			_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 16<<10)+"\n\n")
		}
	}, "p")
	c, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"id":1,"method":"listen"}`
	fmt.Fprintf(c, "POST /p/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	<-returned
	testenv.Delay(t.Context(), 100*time.Millisecond) // for the buffers on the way to be full
	began := time.Now()
	r.front.Close()
	if took := time.Since(began); took > 5*lastWait*testenv.Patience(t) {
		t.Errorf("the front took %v to end", took)
	}
}
