package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// taken returns the amount that all users have.
func (s *shares) taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// One tenant cannot keep another out of a front: neither with bodies that it announces as
// large, nor with requests, nor with requests that wait for a worker.
func TestSharesOfTenants(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	for name, s := range map[string]*shares{"bodies": r.front.bodies, "requests": r.front.requests, "waiting": r.front.waiting} {
		n := int64(0)
		for step := s.most / 64; s.acquire("a", step); n += step {
			if n > s.most {
				t.Fatalf("%s: a tenant takes %d of %d", name, n, s.most)
			}
		}
		if n != s.most/tenantPart || !s.acquire("b", 1) {
			t.Errorf("%s: a tenant takes %d of %d, and leaves none", name, n, s.most)
		}
		s.release("b", 1)
	}
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.front.ServeRequest(w, req, Request{Tenant: req.URL.Query().Get("tenant"), Place: "p", Caller: "caller"})
	})
	for tenant, want := range map[string]int{"a": 503, "b": 200} {
		res, err := http.Post(r.http.URL+"?tenant="+tenant, "application/json", strings.NewReader(`{"id":1}`))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("tenant %s: status %d, want %d", tenant, res.StatusCode, want)
		}
	}
	for name, s := range map[string]*shares{"bodies": r.front.bodies, "requests": r.front.requests} {
		if s.release("a", s.by["a"]); s.all != 0 || len(s.by) != 0 {
			t.Errorf("%s: %d are left of %v", name, s.all, s.by)
		}
	}
}

// Clients that do not read their answers do not block other clients of the same worker.
func TestUnreadAnswersStopNobody(t *testing.T) {
	r := newRig(t, nil)
	large := bytes.Repeat([]byte("x"), 16<<20)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		if body, _ := io.ReadAll(req.Body); bytes.Contains(body, []byte("large")) {
			_, _ = w.Write(large)
			return
		}
		_, _ = io.WriteString(w, "small")
	}, "p")
	client := &http.Client{Timeout: 20 * time.Second * testenv.Patience(t)}
	for range 64 {
		res, err := client.Post(r.http.URL+"/p/mcp", "application/json", strings.NewReader(`{"id":1,"method":"large"}`))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() }) // the body is not read
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.says("p", 200, "small")
	}()
	select {
	case <-over:
	case <-time.After(10 * time.Second * testenv.Patience(t)):
		t.Error("a request waits for clients that do not read")
		r.front.Close()
		<-over
	}
}

// A request whose token was revoked while its body arrived, or while it waited for its
// worker, is not run.
func TestTokensThatLapse(t *testing.T) {
	r := newRig(t, nil)
	var ran atomic.Int64
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(http.ResponseWriter, *http.Request) { ran.Add(1) }, "p")
	var valid atomic.Bool
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.front.ServeRequest(w, req, Request{Place: "p", Caller: "caller", Valid: valid.Load})
	})
	for _, body := range []string{`{"id":1,"method":"call"}`, `{"id":2,"method":"listen"}`} {
		for holds, want := range map[bool]int{true: 200, false: 401} {
			valid.Store(true)
			rest, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, body[:1])
				valid.Store(holds)
				_, _ = io.WriteString(writer, body[1:])
				writer.Close()
			}()
			res, err := http.Post(r.http.URL, "application/json", rest)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want || (res.Header.Get("WWW-Authenticate") == "") != holds {
				t.Errorf("%s of a token that holds %t: %d, want %d", body, holds, res.StatusCode, want)
			}
		}
	}
	if n := ran.Load(); n != 2 {
		t.Errorf("%d requests ran, want 2", n)
	}
}

// poor is a listener that fails for its first connections, because there are too many open
// files.
type poor struct {
	net.Listener
	left atomic.Int64
}

func (p *poor) Accept() (net.Conn, error) {
	if p.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return p.Listener.Accept()
}

// After a front had too many open files, it accepts workers again.
func TestLinksAfterTooManyFiles(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &poor{Listener: l}
	p.left.Store(3)
	over := make(chan error, 1)
	go func() { over <- r.front.Serve(context.Background(), p) }()
	own := *r
	own.link = l
	own.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	l.Close()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A worker that never reports its places does not keep the front from ending, and only one
// of its links stays.
func TestSilentWorker(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("bad", WorkerDNS("bad"))
	var first net.Conn
	for i := range 10 {
		c, said := r.raw(files, hello{Name: "bad", Process: strings.Repeat("x", i), Protocol: helloProtocol})
		if said.Refused != "" {
			t.Fatal(said.Refused)
		}
		if i == 0 {
			first = c
		}
	}
	if _, err := io.Copy(io.Discard, first); errors.Is(err, context.DeadlineExceeded) {
		t.Error("the first of ten links of one name is still there")
	}
	r.front.roster.mu.Lock()
	n := len(r.front.roster.coming)
	r.front.roster.mu.Unlock()
	if n != 1 {
		t.Errorf("%d links are kept", n)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.front.Close()
	}()
	select {
	case <-over:
	case <-time.After(20 * time.Second * testenv.Patience(t)):
		t.Fatal("the front does not end")
	}
}

// If the policy of a worker does not name a place any more, the worker still owns the
// place: another worker would make it again, without its files.
func TestPlaceThatAWorkerDoesNotName(t *testing.T) {
	r := newRig(t, nil)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	r.says("p", 200, "w1")
	r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	m.mu.Lock()
	delete(m.places, "p")
	m.without = true
	m.mu.Unlock()
	for range 3 {
		r.says("p", 404, "no such place")
	}
	m.mu.Lock()
	m.without = false
	m.mu.Unlock()
	r.says("p", 200, "w1")
}
