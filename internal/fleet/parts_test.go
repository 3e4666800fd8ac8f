package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// nearAndFar runs a test with links without a bulk connection, and with links that have one.
func nearAndFar(t *testing.T, test func(t *testing.T, far bool)) {
	t.Helper()
	t.Run("near", func(t *testing.T) { test(t, false) })
	t.Run("far", func(t *testing.T) { test(t, true) })
}

// farRig returns a rig whose links have bulk connections.
func farRig(t testing.TB) *rig {
	t.Helper()
	r := newRig(t, nil)
	r.far = true
	return r
}

// deed is what a handler does with its answer: it writes a part, or flushes if there is none.
type deed []byte

// An answer arrives as on a link without a bulk connection, whatever its handler writes and
// flushes.
func TestAnswersInParts(t *testing.T) {
	n, random := testenv.Cases(t, 100)
	type script struct {
		header http.Header
		status int
		deeds  []deed
	}
	var now atomic.Pointer[script]
	handler := func(w http.ResponseWriter, _ *http.Request) {
		one := now.Load()
		maps.Copy(w.Header(), one.header)
		if one.status != 0 {
			w.WriteHeader(one.status)
		}
		for _, d := range one.deeds {
			if len(d) == 0 {
				_ = http.NewResponseController(w).Flush()
				continue
			}
			_, _ = w.Write(d)
		}
	}
	near, far := newRig(t, nil), farRig(t)
	near.worker("w1", near.cert("w1", WorkerDNS("w1")), handler, "p")
	m := far.worker("w1", far.cert("w1", WorkerDNS("w1")), handler, "p")
	ask := func(r *rig, method string) (int, http.Header, string, error) {
		req, err := http.NewRequest(method, r.http.URL+"/p/mcp", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, "", err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		res.Header.Del("Date")
		return res.StatusCode, res.Header, string(text), err
	}
	sizes := []int{0, 0, 1, 100, maxPart - 1, maxPart, maxPart + 1, 3 * maxPart, 2 * maxBuffered}
	for range n {
		script := &script{header: http.Header{}, status: []int{0, 0, 200, 201, 404}[random.IntN(5)]}
		total := 0
		for range random.IntN(5) {
			size := sizes[random.IntN(len(sizes))]
			script.deeds = append(script.deeds, bytes.Repeat([]byte{'a' + byte(random.IntN(26))}, size))
			total += size
		}
		if kind := []string{"", "application/json", "text/event-stream"}[random.IntN(3)]; kind != "" {
			script.header.Set("Content-Type", kind)
		}
		if random.IntN(3) == 0 {
			script.header.Set("Content-Length", strconv.Itoa(total))
		}
		method := []string{http.MethodPost, http.MethodGet, http.MethodHead}[random.IntN(3)]
		now.Store(script)
		status, header, text, err := ask(far, method)
		wantStatus, wantHeader, want, wantErr := ask(near, method)
		if err != nil || wantErr != nil || status != wantStatus || text != want {
			t.Fatalf("%s %+v: got %d with %d bytes, %v; want %d with %d bytes, %v", method, script.header, status, len(text), err, wantStatus, len(want), wantErr)
		}
		for _, name := range []string{"Content-Type", "Content-Length"} {
			if got := header.Get(name); got != wantHeader.Get(name) {
				t.Fatalf("%s %+v of %d bytes: got %s %q, want %q", method, script.header, total, name, got, wantHeader.Get(name))
			}
		}
		for name := range header {
			if strings.HasPrefix(name, headerPrefix) {
				t.Fatalf("a client gets the header %s", name)
			}
		}
	}
	all := &onlyLink(t, m.Worker).bulkAnswers
	all.mu.Lock()
	if all.last == 0 || len(all.waiting) > 0 {
		t.Errorf("%d answers were in parts, and %d of them still are", all.last, len(all.waiting))
	}
	all.mu.Unlock()
	for _, r := range []*rig{near, far} {
		r.until("end of the room for answers", func() bool { return r.front.answers.taken() == 0 })
	}
}

// Large messages go over the bulk connection, in both directions, and no others.
func TestLargeMessagesHaveAConnection(t *testing.T) {
	var bulk atomic.Bool // whether the last request arrived over a bulk connection
	large := strings.Repeat("x", maxPart+1)
	r := farRig(t)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		bulk.Store(connOf(req.Context()).first != nil)
		body, _ := io.ReadAll(req.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "answer")
		if strings.Contains(string(body), "large") {
			_, _ = io.WriteString(w, large)
		}
	}, "p")
	b := bulkOf(t, m.Worker)
	used := func() uint64 { i := b.socket().info(); return i.Bytes_acked + i.Bytes_received }
	for _, tt := range []struct {
		what, body, want string
		over, used       bool // whether the request goes over the bulk connection, and whether anything large does
	}{
		{"small", `{}`, "answer", false, false},
		{"a large answer", `{"method":"large"}`, "answer" + large, false, true},
		{"a large request", large, "answer", true, true},
	} {
		before := used()
		status, text, err := r.ask("p", tt.body)
		if err != nil || status != http.StatusOK || text != tt.want || bulk.Load() != tt.over {
			t.Errorf("%s: %d with %d bytes, %v, over the bulk connection %t; want %d bytes, %t", tt.what, status, len(text), err, bulk.Load(), len(tt.want), tt.over)
		}
		if n := used() - before; (n > maxPart/2) != tt.used {
			t.Errorf("%s: %d bytes went over the bulk connection", tt.what, n)
		}
	}
}

// bulkOf returns the bulk connection of a worker that has one.
func bulkOf(t *testing.T, w *Worker) *conn {
	t.Helper()
	var bulk *conn
	if !testenv.Until(10*time.Second*testenv.Patience(t), func() bool { // the front may have it first
		w.mu.Lock()
		defer w.mu.Unlock()
		for c := range w.running {
			if c.first != nil {
				bulk = c
			}
		}
		return bulk != nil
	}) {
		t.Fatal("the worker has no bulk connection")
	}
	return bulk
}

// When one connection of a link ends, so does the other, at both ends, and the worker makes both
// again.
func TestLinkEndsAsAWhole(t *testing.T) {
	for name, end := range map[string]func(l *link, first, bulk *conn) io.Closer{
		"first, at the front":  func(l *link, _, _ *conn) io.Closer { return l },
		"bulk, at the front":   func(l *link, _, _ *conn) io.Closer { return l.bulk.Load() },
		"first, at the worker": func(_ *link, first, _ *conn) io.Closer { return first },
		"bulk, at the worker":  func(_ *link, _, bulk *conn) io.Closer { return bulk },
	} {
		t.Run(name, func(t *testing.T) {
			r := farRig(t)
			m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
			l, first, bulk := r.front.roster.named("w1"), onlyLink(t, m.Worker), bulkOf(t, m.Worker)
			b := l.bulk.Load()
			end(l, first, bulk).Close()
			for _, c := range []*conn{l.conn, b.conn, first, bulk} {
				await(t, c.lost, "end of a connection")
				await(t, c.detached, "detached requests")
			}
			r.until("a link", func() bool {
				now := r.front.roster.named("w1")
				return now != nil && now != l && now.bulk.Load() != nil
			})
			r.says("p", 200, "w1")
		})
	}
}

// A front accepts one bulk connection of a link, from the worker of that link, and refuses any
// other without harm to the link.
func TestStrangeBulkConnections(t *testing.T) {
	r := newRig(t, nil) // so its worker makes no bulk connection
	files := r.cert("w1", WorkerDNS("w1"))
	m := r.worker("w1", files, echo("w1"), "p")
	l := r.front.roster.named("w1")
	right := hello{Name: "w1", Process: m.process, Link: l.Link, Bulk: true, Protocol: bulkProtocol}
	for name, tt := range map[string]struct {
		files  Credentials
		change func(*hello)
	}{
		"another name":                    {r.cert("w2", WorkerDNS("w2")), func(h *hello) { h.Name = "w2" }},
		"another process":                 {files, func(h *hello) { h.Process = "another" }},
		"another link":                    {files, func(h *hello) { h.Link++ }},
		"another certificate":             {r.cert("again", WorkerDNS("w1")), func(*hello) {}},
		"a certificate of another worker": {r.cert("w3", WorkerDNS("w3")), func(*hello) {}},
	} {
		says := right
		tt.change(&says)
		if _, said := r.raw(tt.files, says); said.Refused == "" {
			t.Errorf("%s: it is accepted", name)
		}
	}
	if l.bulk.Load() != nil {
		t.Fatal("the link has a bulk connection")
	}
	c, said := r.raw(files, right)
	if said.Refused != "" {
		t.Fatal(said.Refused)
	}
	r.until("a bulk connection", func() bool { return l.bulk.Load() != nil })
	if _, said := r.raw(files, right); said.Refused == "" {
		t.Error("a second bulk connection is accepted")
	}
	r.says("p", 200, "w1")
	if r.front.roster.named("w1") != l {
		t.Error("the link has ended")
	}
	c.Close()
	await(t, l.lost, "end of the link without its bulk connection")
}

// A worker makes no bulk connection if the front is near, or does not know of them.
func TestLinksWithoutABulkConnection(t *testing.T) {
	for name, tt := range map[string]struct{ far, knows bool }{"near": {false, true}, "an earlier version": {true, false}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			front, err := r.cert("other", "", "127.0.0.1").open()
			if err != nil {
				t.Fatal(err)
			}
			r.configure = func(c *WorkerConfig) { c.Fronts, c.far = []string{"https://" + l.Addr().String()}, tt.far }
			m := r.unlinked("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
			for range 2 { // the second is a link again
				c, said := r.acceptHello(l, front, welcome{Bulk: tt.knows})
				if said.Bulk {
					t.Fatal("the worker makes a bulk connection")
				}
				write(c, preface+noSettings+frame(frameHeaders, endHeaders|endStream, 1, "\x82\x86\x84"+field("belljar-place", "p")), 1)
				if err := frames(c, func(kind, _ byte, _ int) bool { return kind == frameHeaders }); err != nil {
					t.Fatal(err)
				}
				c.Close()
			}
			l.Close()
			m.stop()
		})
	}
}

// An answer in parts that breaks the rules is an error, and takes neither memory nor time.
func TestHostileParts(t *testing.T) {
	refused := errors.New("refused")
	for name, tt := range map[string]struct {
		here, there string
		length      int64 // zero means that it is not known
		ask         error
		want        string
		err         error // nil for any
	}{
		"none":                     {here: "", want: "", err: io.EOF},
		"one here":                 {here: "\x00\x00\x00\x02ab", want: "ab", err: io.EOF},
		"one there":                {here: "\x80\x00\x00\x02", there: "abcd", want: "ab", err: io.EOF},
		"in turn":                  {here: "\x80\x00\x00\x02\x00\x00\x00\x01-\x80\x00\x00\x02", there: "abcd", want: "ab-cd", err: io.EOF},
		"an empty one":             {here: "\x00\x00\x00\x00"},
		"an empty one there":       {here: "\x80\x00\x00\x00"},
		"half of a size":           {here: "\x00\x00", err: io.ErrUnexpectedEOF},
		"a short one":              {here: "\x00\x00\x00\x03ab", want: "ab", err: io.ErrUnexpectedEOF},
		"a short one there":        {here: "\xff\xff\xff\xff", there: "ab", want: "ab", err: io.ErrUnexpectedEOF},
		"one there, which is away": {here: "\x80\x00\x00\x02", ask: refused, err: refused},
		"as long as they say":      {here: "\x00\x00\x00\x02ab", length: 2, want: "ab", err: io.EOF},
		"shorter than they say":    {here: "\x00\x00\x00\x02ab", length: 3, want: "ab", err: io.ErrUnexpectedEOF},
		"none of those they say":   {here: "", length: 1, err: io.ErrUnexpectedEOF},
		"longer than they say":     {here: "\x00\x00\x00\x02ab\x80\x00\x00\x02", there: "cd", length: 3, want: "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, failed, open := 0, 0, 0
			if tt.length == 0 {
				tt.length = -1
			}
			j := &joined{length: tt.length, fail: func() { failed++ }, first: io.NopCloser(strings.NewReader(tt.here)), request: func() (io.ReadCloser, error) {
				asked++
				if tt.ask != nil {
					return nil, tt.ask
				}
				open++
				return &counted{strings.NewReader(tt.there), &open}, nil
			}}
			open++
			j.first = &counted{j.first, &open}
			var got []byte
			var err error
			for p := make([]byte, 100); err == nil; {
				var n int
				n, err = j.Read(p)
				got = append(got, p[:n]...)
			}
			if string(got) != tt.want || tt.err != nil && !errors.Is(err, tt.err) || tt.err == nil && errors.Is(err, io.EOF) {
				t.Errorf("got %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
			if asked > 1 {
				t.Errorf("the large parts are requested %d times", asked)
			}
			if n, again := j.Read(make([]byte, 1)); n != 0 || !errors.Is(again, err) {
				t.Errorf("after %v: got %d bytes, %v", err, n, again)
			}
			if want := !errors.Is(err, io.EOF); (failed == 1) != want || failed > 1 {
				t.Errorf("%d calls of failed after %v", failed, err)
			}
			if err := j.Close(); err != nil || open != 0 {
				t.Errorf("%v, and %d bodies are open", err, open)
			}
		})
	}
}

// counted is a body that counts its end.
type counted struct {
	io.Reader
	open *int // number of bodies that are open
}

func (c *counted) Close() error {
	*c.open--
	return nil
}

// A front serves a worker whose answers in parts are wrong, or say that they are of any length:
// their clients do not get what looks like a whole answer.
func TestHostileAnswersInParts(t *testing.T) {
	r := farRig(t)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		for name, value := range map[string]string{
			"parts": partsHeader + ": 99", "a path": partsHeader + ": ../state", "length": "Content-Length: 9223372036854775807",
		} {
			if strings.Contains(string(body), `"`+name+`"`) {
				name, value, _ = strings.Cut(value, ": ")
				w.Header().Set(name, value)
			}
		}
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "\x80\x00\x00\x01") // without a type, so this end adds nothing
	}, "p")
	r.http.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(r.log, nil), slog.LevelError)
	for _, method := range []string{"parts", "a path", "length"} {
		if status, text, err := r.ask("p", `{"id":1,"method":"`+method+`"}`); err == nil {
			t.Errorf("%s: got %d %q, want no whole answer", method, status, text)
		}
	}
	if n := r.front.answers.taken(); n != 0 {
		t.Errorf("%d bytes are taken by answers that have ended", n)
	}
	if text := r.log.String(); strings.Contains(text, "panic") {
		t.Error(text)
	}
	r.says("p", 200, "")
}

// A worker gives up the large parts of an answer that its front does not request: at the
// deadline of the write, or when the request ends.
func TestPartsThatAreNotRequested(t *testing.T) {
	for name, tt := range map[string]struct {
		wait time.Duration // until the deadline of the write; zero means that there is none
		want error
	}{
		"deadline": {10 * time.Millisecond, errNotRequested},
		"request":  {0, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		link := newConn(nil)
		w := &parted{ResponseWriter: &deadlines{httptest.NewRecorder()}, request: httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil), link: link}
		w.Header().Set("Content-Type", "text/plain")
		if tt.wait > 0 {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(tt.wait)); err != nil {
				t.Error(err)
			}
		} else {
			cancel()
		}
		if n, err := w.Write(make([]byte, maxPart+1)); n != 0 || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d bytes are written, %v; want %v", name, n, err, tt.want)
		}
		cancel()
		w.finish()
		late := httptest.NewRecorder()
		if link.bulkAnswers.answerParts(late, "1"); late.Code != http.StatusNotFound {
			t.Errorf("%s: a late request: %d", name, late.Code)
		}
	}
}

// deadlines is a response with deadlines that nobody keeps.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// A client cannot request the large parts of the answer of another one.
func TestPartsAreNotForClients(t *testing.T) {
	r := farRig(t)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	first := newConn(nil)
	bulk := newConn(nil)
	bulk.first = first
	one := first.bulkAnswers.add()
	close(one.done)
	ask := func(c *conn, place string) int {
		req := httptest.NewRequest(http.MethodGet, partsPath+"/1", nil)
		if place != "" {
			req.Header.Set(PlaceHeader, place)
		}
		got := httptest.NewRecorder()
		m.serve(got, req.WithContext(context.WithValue(req.Context(), connKey{}, c)))
		return got.Code
	}
	ask(bulk, "p")
	ask(bulk, "unknown")
	ask(first, "")
	if len(first.bulkAnswers.waiting) != 1 {
		t.Error("a client has taken the large parts of an answer")
	}
	if status := ask(bulk, ""); status != http.StatusOK || len(first.bulkAnswers.waiting) != 0 {
		t.Errorf("the front does not get them: %d", status)
	}
	if status := ask(bulk, ""); status != http.StatusNotFound {
		t.Errorf("a second request for them: %d", status)
	}
}

// An answer that does not have its Content-Length does not look whole to a client, as on a link
// without a bulk connection.
func TestAnswersOfAnotherLength(t *testing.T) { nearAndFar(t, answersOfAnotherLength) }

func answersOfAnotherLength(t *testing.T, far bool) {
	var declared, size atomic.Int64
	r := newRig(t, nil)
	r.far = far
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.FormatInt(declared.Load(), 10))
		_, _ = w.Write(make([]byte, size.Load()))
	}, "p")
	const large = 2 * maxBuffered
	for _, tt := range []struct{ declared, size int64 }{{maxPart + 2, 0}, {maxPart + 2, 1}, {maxPart + 2, maxPart + 1}, {maxPart + 1, maxPart + 2}, {large, large - 1}} {
		declared.Store(tt.declared)
		size.Store(tt.size)
		if status, text, err := r.ask("p", `{"id":1}`); err == nil {
			t.Errorf("%+v: got %d with %d bytes, want no whole answer", tt, status, len(text))
		}
	}
}

// The requests of a link continue without their callers before a handler can see that the bulk
// connection has ended: neither a failed write nor the end of the context may cancel a call.
func TestBulkEndDetachesFirst(t *testing.T) {
	r := farRig(t)
	writes, cancelled := make(chan struct{}), make(chan bool, 1)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		begun := sync.OnceFunc(func() { close(writes) })
		for {
			if _, err := w.Write(bytes.Repeat([]byte("x"), maxPart+1)); err != nil {
				cancelled <- !closed(Detached(req.Context()))
				return
			}
			begun()
		}
	}, "p")
	var asking sync.WaitGroup
	asking.Go(func() { _, _, _ = r.ask("p", `{"id":1}`) })
	await(t, writes, "a large part")
	bulkOf(t, m.Worker).Close()
	if <-cancelled {
		t.Error("a write fails before the request is detached")
	}
	asking.Wait()
}

// A front resets nothing on the other connection of a link that has ended, because that would
// cancel a request at the worker.
func TestLinkThatEndedIsClosedBeforeAnError(t *testing.T) {
	for _, bulkEnds := range []bool{false, true} {
		front := func() (l *link, worker net.Conn) {
			one, other := net.Pipe()
			l = &link{conn: newConn(one)}
			t.Cleanup(func() { l.Close() })
			return l, other
		}
		l, worker := front()
		b, bulkWorker := front()
		var reading sync.WaitGroup
		for _, c := range []net.Conn{worker, bulkWorker} {
			reading.Go(func() { _, _ = io.Copy(io.Discard, c) })
		}
		for _, one := range []*link{l, b} {
			if err := one.startHTTP2(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.bulk.Store(b)
		res := &http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader("\x00"))} // half of a size
		l.join(t.Context(), res, "1")
		body := res.Body
		first, second := l.conn, b.conn
		if bulkEnds {
			first, second = second, first
		}
		first.end()
		if _, err := body.Read(make([]byte, 1)); err == nil {
			t.Error("no error")
		}
		if _, err := second.Conn.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("bulk connection ends: %t: the other connection is open: %v", bulkEnds, err)
		}
		first.Close()
		second.Close()
		reading.Wait()
	}
}

// relay forwards the two connections of a link, one after the other.
type relay struct {
	t       *testing.T
	accepts net.Listener
	to      string
	copying sync.WaitGroup
}

// relayed returns a relay to the front of a rig, for its next worker.
func (r *rig) relayed(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r.configure = func(c *WorkerConfig) { c.Fronts, c.far = []string{"https://" + l.Addr().String()}, true }
	return &relay{t: t, accepts: l, to: r.link.Addr().String()}
}

// accept returns the next connection of the worker.
func (r *relay) accept() net.Conn {
	r.t.Helper()
	c, err := r.accepts.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// forward forwards a connection of the worker. Nothing is forwarded while hold is locked.
func (r *relay) forward(worker net.Conn, hold *sync.Mutex) (end func()) {
	r.t.Helper()
	front, err := net.Dial("tcp", r.to)
	if err != nil {
		r.t.Fatal(err)
	}
	for from, to := range map[net.Conn]net.Conn{worker: front, front: worker} {
		r.copying.Go(func() {
			for part := make([]byte, 64<<10); ; {
				n, err := from.Read(part)
				hold.Lock()
				_, _ = to.Write(part[:n])
				hold.Unlock()
				if err != nil {
					to.Close()
					return
				}
			}
		})
	}
	return func() {
		worker.Close()
		front.Close()
	}
}

// A link that ends is made again immediately, also while the worker waits for a bulk connection.
func TestReconnectWithoutTheBulkConnection(t *testing.T) {
	r := newRig(t, nil)
	way := r.relayed(t)
	r.unlinked("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	end := way.forward(way.accept(), new(sync.Mutex))
	bulk := way.accept() // not forwarded
	began := time.Now()
	end()
	again := way.accept()
	if took := time.Since(began); took > helloWait/2 {
		t.Errorf("the worker connects again after %v", took)
	}
	bulk.Close()
	again.Close()
	way.copying.Wait()
}

// A worker does not wait for the welcome of a front whose link has ended.
func TestGreetEndsWithItsContext(t *testing.T) {
	worker, front := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = receive(front, new(hello))
		cancel()
		_, _ = io.Copy(io.Discard, front)
	})
	if _, err := newConn(worker).greet(ctx, hello{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	front.Close()
	reading.Wait()
}

// A link with a bulk connection that loses its pings for a time does not end.
func TestSilentBulkConnection(t *testing.T) {
	r := newRig(t, nil)
	way := r.relayed(t)
	m := r.unlinked("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	end := way.forward(way.accept(), new(sync.Mutex))
	var hold sync.Mutex
	endBulk := way.forward(way.accept(), &hold)
	r.until("a bulk connection", func() bool {
		l := r.front.roster.named("w1")
		return l != nil && l.bulk.Load() != nil
	})
	l, bulk := r.front.roster.named("w1"), bulkOf(t, m.Worker)
	hold.Lock()
	silent := time.NewTimer(pingAfter + 2*pingWait)
	select { // real time: the connections are those of the kernel
	case <-l.lost:
	case <-silent.C:
	}
	if closed(l.lost) || closed(l.bulk.Load().lost) || closed(bulk.lost) {
		t.Error("the link has ended")
	}
	hold.Unlock()
	if status, _, err := r.ask("p", strings.Repeat("x", maxPart+1)); err != nil || status != http.StatusOK {
		t.Errorf("a large request: %d, %v", status, err)
	}
	end()
	endBulk()
	way.accept().Close()
	way.copying.Wait()
}

// A front without bulk connections must not take one for a link: it knows only helloProtocol.
func TestBulkConnectionsAreNotLinks(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	m := r.worker("w1", files, echo("w1"), "p")
	says := hello{Name: "w1", Process: m.process, Link: r.front.roster.named("w1").Link}
	for _, tt := range []struct {
		bulk     bool
		protocol int
	}{{true, helloProtocol}, {false, bulkProtocol}} {
		says.Bulk, says.Protocol = tt.bulk, tt.protocol
		if _, said := r.raw(files, says); said.Refused == "" {
			t.Errorf("%+v: it is accepted", tt)
		}
	}
	r.says("p", 200, "w1")
}

// An answer in parts whose handler panics does not look whole, and nothing waits for it.
func TestPanicEndsAnAnswerInParts(t *testing.T) {
	r := farRig(t)
	var size atomic.Int64
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(make([]byte, size.Load()))
		panic(http.ErrAbortHandler)
	}, "p")
	for _, n := range []int64{1, maxPart + 1} {
		size.Store(n)
		// before the headers are sent, the front only sees that the request has failed
		if status, text, err := r.ask("p", `{"id":1}`); err == nil && !strings.Contains(text, "lost") {
			t.Errorf("%d bytes: got %d with %d bytes, want no whole answer", n, status, len(text))
		}
		all := &onlyLink(t, m.Worker).bulkAnswers
		r.until("end of the answer", func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			return len(all.waiting) == 0
		})
	}
}

// After the end of a bulk connection, nothing more is written to the first one: a detached
// request may return, and its answer must not look whole.
func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	worker, front := net.Pipe()
	defer front.Close()
	first, bulk := newConn(worker), newConn(nil)
	defer first.Close()
	bulk.first = first
	bulk.end()
	if !closed(first.lost) || !closed(first.detached) {
		t.Error("the first connection has not ended")
	}
	if n, err := first.Write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%d bytes are written, %v", n, err)
	}
}
