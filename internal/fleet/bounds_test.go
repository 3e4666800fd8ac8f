package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/fleet/pki"
	"belljar.dev/internal/jsonlist"
	"belljar.dev/internal/testenv"
)

// Connections from one address that send nothing do not keep out a worker with another
// address.
func TestHandshakesOfOneAddress(t *testing.T) {
	r := newRig(t, nil)
	from := func(addr string) net.Conn {
		t.Helper()
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}, Timeout: 10 * time.Second}
		c, err := d.Dial("tcp", r.link.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range maxHandshakes + 20 {
		from("127.0.0.1")
	}
	certs, err := r.cert("w1", WorkerDNS("w1")).open()
	if err != nil {
		t.Fatal(err)
	}
	over, said, err := greet(from("127.0.0.2"), certs, hello{Name: "w1", Protocol: helloProtocol})
	if err != nil || said.Refused != "" {
		t.Fatalf("a worker beside silent strangers: %+v, %v", said, err)
	}
	over.Close()
	for addr, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:2": "192.0.2.7", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:3": "fe80::/64",
	} {
		if got := origin(remote{addr: addr}); got != want {
			t.Errorf("the origin of %s is %q, want %q", addr, got, want)
		}
	}
}

// remote is a connection with a given remote address.
type remote struct {
	net.Conn
	addr string
}

func (r remote) RemoteAddr() net.Addr { return r }
func (remote) Network() string        { return "tcp" }
func (r remote) String() string       { return r.addr }

// A front ends a link when the worker's certificate is not valid any more.
func TestLinkEndsWithItsCertificate(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	r.worker("w1", files, echo("w1"), "p")
	r.says("p", 200, "w1")
	l := r.front.roster.named("w1")
	if err := r.front.files.check(l.peer, time.Now()); err != nil {
		t.Errorf("a good certificate: %v", err)
	}
	leaf := l.peer.chain[0]
	if err := r.front.files.check(l.peer, leaf.NotAfter.Add(time.Second)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired certificate: %v", err)
	}
	other := t.TempDir()
	if err := pki.Init(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(other, pki.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, files.CA, text)
	r.until("the reason", func() bool { return strings.Contains(r.log.String(), "the link of a worker is ended") })
	r.until("end of the link", func() bool { return r.front.roster.named("w1") == nil })
}

// replace writes another text into a file, and changes the modification time.
func replace(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
}

// A worker ends a link when the front's certificate is not valid any more.
func TestWorkerLeavesFront(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	apart := filepath.Join(t.TempDir(), "ca.pem") // the certificate of the authority, for this worker only
	text, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, apart, text)
	files.CA = apart
	r.worker("w1", files, echo("w1"), "p")
	l := r.front.roster.named("w1")
	other := t.TempDir()
	if err := pki.Init(other, time.Now()); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(other, pki.CAFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(apart, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.until("end of the link", func() bool {
		select {
		case <-l.lost:
			return true
		default:
			return false
		}
	})
	r.until("its reason", func() bool { return strings.Contains(r.log.String(), "the certificate of the other end") })
}

// A front reads the states of a worker at a limited rate, whatever the worker sends.
func TestPaceOfStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoster(nil, nil, slog.New(slog.DiscardHandler))
		l := &link{hello: hello{Name: "w1"}, conn: newConn(nil), places: make(map[string]bool)}
		const lines = 500
		began := time.Now()
		if err := r.read(t.Context(), l, strings.NewReader(strings.Repeat(`{"places":["p"]}`+"\n", lines))); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Fatal(err)
		}
		if took := time.Since(began); took < lines*lineRest || took > 2*lines*lineRest {
			t.Errorf("%d lines took %v", lines, took)
		}
		began = time.Now()
		long := `{"places":["p"` + strings.Repeat(`,"place-of-a-tenant"`, 40_000) + "]}\n"
		if err := r.read(t.Context(), l, strings.NewReader(strings.Repeat(long, 10))); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Fatal(err)
		}
		if took, least := time.Since(began), time.Duration(10*len(long))*time.Second/lineRate; took < least {
			t.Errorf("%d bytes took %v, want %v at least", 10*len(long), took, least)
		}
		l.end() // reading does not wait for a link that has ended
		began = time.Now()
		_ = r.read(t.Context(), l, strings.NewReader(strings.Repeat("{}\n", lines)))
		if took := time.Since(began); took > 0 {
			t.Errorf("a link that has ended is read for %v", took)
		}
	})
}

// The buffered answers are bounded. A tenant that has used up the bound gets answers
// without buffering, and other tenants get theirs as before.
func TestHeldAnswersAreBounded(t *testing.T) {
	r := newRig(t, nil)
	begin := "data: " + strings.Repeat("x", 64<<10) // more than fits into the buffers on the way
	more := make(chan struct{})
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if bytes.Contains(body, []byte("stream")) {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, begin)
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, " end\n\n")
	}, "p")
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.front.ServeRequest(w, req, Request{Tenant: req.URL.Query().Get("tenant"), Place: "p", Caller: "caller"})
	})
	if !r.front.answers.acquire("a", maxAnswers/tenantPart) {
		t.Fatal("a tenant does not get its share")
	}
	for _, method := range []string{"call", "stream"} {
		for tenant, early := range map[string]bool{"a": true, "b": false} {
			answer := make(chan *http.Response, 1)
			go func() {
				res, err := http.Post(r.http.URL+"?tenant="+tenant, "application/json", strings.NewReader(fmt.Sprintf(`{"id":1,"method":%q}`, method)))
				if err != nil {
					t.Error(err)
				}
				answer <- res
			}()
			var text []byte
			var res *http.Response
			if early {
				res = <-answer // before the worker has sent the rest
				text = make([]byte, len(begin)/2)
				if _, err := io.ReadFull(res.Body, text); err != nil {
					t.Error(err)
				}
			} else {
				r.until("room for what is held", func() bool {
					r.front.answers.mu.Lock()
					defer r.front.answers.mu.Unlock()
					return r.front.answers.by["b"] > 0
				})
			}
			more <- struct{}{}
			if res == nil {
				res = <-answer
			}
			rest, err := io.ReadAll(res.Body)
			res.Body.Close()
			if got := string(text) + string(rest); got != begin+" end\n\n" || err != nil {
				t.Errorf("%s of tenant %s: %d bytes, %v", method, tenant, len(got), err)
			}
		}
	}
	r.front.answers.release("a", maxAnswers/tenantPart)
	r.until("end of all answers", func() bool { return r.front.answers.taken() == 0 })
}

// Headers that belong to a connection are not passed on.
func TestHeadersOfAConnection(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		fmt.Fprintf(w, "%q", req.Header)
	}, "p")
	c, err := net.Dial("tcp", strings.TrimPrefix(r.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "POST /p/mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close, X-Hop , x-other\r\nX-Hop: 1\r\nX-Other: 2\r\nX-Stays: 3\r\nTe: trailers\r\nUpgrade: h2c\r\n\r\n{}")
	if err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReader(c)
	res, err := http.ReadResponse(from, nil)
	if err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(from, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(text, []byte("X-Stays")) {
		t.Fatalf("%s, %v", text, err)
	}
	for _, name := range []string{"Expect", "Connection", "X-Hop", "X-Other", "Te", "Upgrade"} {
		if bytes.Contains(text, []byte(name+`"`)) {
			t.Errorf("%s is sent on: %s", name, text)
		}
	}
}

// The same holds for HTTP/2, where net/http removes fewer of these headers.
func TestCopiedHeaders(t *testing.T) {
	got := make(http.Header)
	copyHeaders(got, http.Header{"Expect": {"100-continue"}, "Cookie": {"a=b"}, "Belljar-Place": {"p"}, "X-Stays": {"1"}})
	if len(got) != 1 || got.Get("X-Stays") != "1" {
		t.Errorf("%v are sent on", got)
	}
}

// A stream is cut at the end of events, in whatever pieces it arrives. Nothing of it is
// lost or sent twice, and the answer in it is found.
func TestCutterProperty(t *testing.T) {
	n, random := testenv.Cases(t, 300)
	for range n {
		var whole bytes.Buffer
		at := random.IntN(5)
		for i := range 5 {
			text := strings.Repeat("x", random.IntN(40))
			if i == at {
				text = `{"answer":7}`
			}
			fmt.Fprintf(&whole, "data: %s\n\n", text)
		}
		room := random.IntN(2) == 0
		taken := 0
		c := cutter{message: Message{ID: []byte("7")}, protocol: texts{}, acquire: func() bool {
			if room {
				taken++
			}
			return room
		}, release: func() { taken-- }}
		var got bytes.Buffer
		for rest := whole.Bytes(); len(rest) > 0; {
			size := min(1+random.IntN(30), len(rest))
			piece := bytes.Clone(rest[:size])
			out := c.next(piece)
			if room && len(out) > 0 && !bytes.HasSuffix(out, []byte("\n\n")) {
				t.Fatalf("%q is not whole events", out)
			}
			got.Write(out)
			if c.room && taken != 1 {
				t.Fatalf("room is taken %d times while an event is held", taken)
			}
			c.written()
			clear(piece) // the reader uses this memory again
			rest = rest[size:]
		}
		if !bytes.Equal(got.Bytes(), whole.Bytes()) {
			t.Fatalf("got %q, want %q", got.Bytes(), whole.Bytes())
		}
		if room && (!c.answered || c.torn) {
			t.Fatalf("answered %v, torn %v: %q", c.answered, c.torn, whole.Bytes())
		}
		if c.free(); taken != 0 {
			t.Fatalf("room is taken %d times more than it is given back", taken)
		}
	}
	large := cutter{message: Message{ID: []byte("7")}, protocol: texts{}, acquire: func() bool { return true }, release: func() {}}
	sent := 0
	for range 40 {
		sent += len(large.next(bytes.Repeat([]byte("x"), pieceSize)))
		large.written()
		if len(large.pending) > maxBuffered+pieceSize {
			t.Fatalf("%d bytes are held", len(large.pending))
		}
	}
	if sent < 40*pieceSize-maxBuffered || !large.torn {
		t.Errorf("%d bytes of a large event were sent, torn %v", sent, large.torn)
	}
}

// Buffered bytes of a stream count against the bound until they have been written: a client
// that does not read keeps its room occupied.
func TestRoomOfWhatIsWritten(t *testing.T) {
	for name, last := range map[string]string{
		"a whole event":        "\n\n",
		"too large a one":      strings.Repeat("x", maxBuffered),
		"a begin of a further": "\n\ndata:",
	} {
		released := 0
		c := cutter{message: Message{ID: []byte("7")}, protocol: texts{}, acquire: func() bool { return true }, release: func() { released++ }}
		if out := c.next([]byte("data: a begin")); len(out) != 0 {
			t.Fatalf("%q is no whole event", out)
		}
		out := c.next([]byte(last))
		if !bytes.HasPrefix(out, []byte("data: a begin")) || released != 0 {
			t.Errorf("%s: room is given back %d times before %.20q is written", name, released, out)
		}
		want := 1
		if strings.HasSuffix(last, ":") {
			want = 0
		}
		if c.written(); released != want || (len(c.pending) == 0) != (want == 1) {
			t.Errorf("%s: room is given back %d times, want %d; %d bytes are held", name, released, want, len(c.pending))
		}
	}
}

// pieces is a connection that records each write.
type pieces struct {
	net.Conn
	all []string
	err error
}

func (c *pieces) Write(p []byte) (int, error) {
	c.all = append(c.all, string(p))
	return len(p), c.err
}

// borrowed is a connection that records whether it is given a text itself, and not a copy.
type borrowed struct {
	pieces
	text []byte
	same bool
}

func (c *borrowed) Write(p []byte) (int, error) {
	c.same = c.same || len(p) > 0 && &p[0] == &c.text[0]
	return c.pieces.Write(p)
}

// A chunk has its size before it and a line end after it. A large chunk is not copied.
func TestChunks(t *testing.T) {
	for _, size := range []int{1, 15, 16, pieceSize, pieceSize + 1, maxBuffered} {
		text := bytes.Repeat([]byte("x"), size)
		conn := &borrowed{text: text}
		c := &chunked{conn: conn}
		n, err := c.Write(text)
		if err != nil || n != size || c.sent != int64(size) {
			t.Errorf("%d of %d bytes, %d are counted: %v", n, size, c.sent, err)
		}
		if got, want := strings.Join(conn.all, ""), fmt.Sprintf("%x\r\n%s\r\n", size, text); got != want {
			t.Errorf("a chunk of %d bytes is %.20q with %d bytes, want %.20q with %d", size, got, len(got), want, len(want))
		}
		if (len(conn.all) == 1) != (size <= pieceSize) || conn.same != (size > pieceSize) {
			t.Errorf("a chunk of %d bytes is written in %d pieces, not copied %t", size, len(conn.all), conn.same)
		}
	}
	failing := &chunked{conn: &pieces{err: io.ErrClosedPipe}}
	if n, err := failing.Write(make([]byte, 2*pieceSize)); n != 0 || err == nil || failing.sent != 0 {
		t.Errorf("a client that has gone: %d, %d, %v", n, failing.sent, err)
	}
}

// greet makes the handshake of a link over a connection.
func greet(c net.Conn, certs *certificates, says hello) (over net.Conn, said welcome, err error) {
	s := tls.Client(c, certs.client("127.0.0.1"))
	_ = s.SetDeadline(time.Now().Add(20 * time.Second))
	if err = s.HandshakeContext(context.Background()); err == nil {
		err = send(s, says)
	}
	if err == nil {
		err = receive(s, &said)
	}
	return s, said, err
}

// A list in the state of a worker is not decoded beyond its maximum length.
func TestStateIsBounded(t *testing.T) {
	for _, key := range []string{"places", "moves"} {
		var s state
		if err := json.Unmarshal([]byte(`{"`+key+`":[`+strings.TrimSuffix(strings.Repeat(`{"place":"p"},`, 2), ",")+`]}`), &s); (err == nil) != (key == "moves") {
			t.Errorf("%s: %v", key, err)
		}
		one := map[string]string{"places": `"p",`, "moves": "{},"}[key]
		err := json.Unmarshal([]byte(`{"`+key+`":[`+strings.TrimSuffix(strings.Repeat(one, maxPlaces+1), ",")+`]}`), &s)
		if !errors.Is(err, jsonlist.ErrFull) {
			t.Errorf("too many %s: %v", key, err)
		}
	}
}
