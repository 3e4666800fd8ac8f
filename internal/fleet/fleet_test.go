package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/fleet/pki"
	"belljar.dev/internal/testenv"
)

// rig is the front of a fleet, for clients without a login. The first label of the path is
// the place.
type rig struct {
	other *rig // another front, to which workers connect as well; nil if there is none
	t     testing.TB
	dir   string
	front *Front
	link  net.Listener
	http  *httptest.Server
	log   *testenv.Log

	configure func(*WorkerConfig) // changes the configuration of workers; may be nil
	// answers handles all requests to a worker, in place of next; may be nil. It must be set
	// before the worker starts, because the front sends the first request immediately.
	answers func(w http.ResponseWriter, req *http.Request, next http.HandlerFunc)
	invalid *atomic.Bool // whether callers of streams without a handler are not valid any more

	far    bool              // whether the links of workers have bulk connections
	movers map[string]*mover // movers of the workers, by name
	times  moveTimes         // times of the workers
}

// texts is a protocol with messages of the form {"id": N, "method": TEXT}.
type texts struct{}

func (texts) Read(_ http.Header, body []byte) Message {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	return Message{ID: m.ID, Method: m.Method, Lasts: m.Method == "listen"}
}

func (texts) Answers(event []byte, m Message) bool {
	return bytes.Contains(event, fmt.Appendf(nil, `"answer":%s`, m.ID))
}

func (texts) Lost(m Message) []byte { return fmt.Appendf(nil, `{"lost":%s}`, m.ID) }

func newRig(t testing.TB, change func(*FrontConfig)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), log: new(testenv.Log), invalid: new(atomic.Bool)}
	if err := pki.Init(r.dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	journal, err := claims.OpenJournal(filepath.Join(r.dir, "claims"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	cfg := FrontConfig{Claims: journal, Settled: true, Return: time.Second}
	if change != nil {
		change(&cfg)
	}
	r.serve(cfg)
	return r
}

// serve starts the front of a rig.
func (r *rig) serve(cfg FrontConfig) {
	r.t.Helper()
	name := "front"
	if r.other != nil {
		name = "front2"
	}
	cfg.Credentials, cfg.Protocol, cfg.Log = r.cert(name, "", "127.0.0.1"), texts{}, slog.New(slog.NewTextHandler(r.log, nil))
	var err error
	if r.front, err = NewFront(cfg); err != nil {
		r.t.Fatal(err)
	}
	if r.link, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		r.t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- r.front.Serve(context.Background(), r.link) }()
	r.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		place, _, _ := strings.Cut(req.URL.Path[1:], "/")
		r.front.ServeRequest(w, req, Request{Place: place, Caller: "caller"})
	}))
	r.t.Cleanup(func() {
		r.link.Close()
		r.front.Close()
		r.http.Close()
		if err := <-over; err != nil {
			r.t.Error(err)
		}
	})
}

// cert makes a certificate for a worker with a DNS name, or for a front.
func (r *rig) cert(name, dns string, hosts ...string) Credentials {
	r.t.Helper()
	c, k, err := pki.Issue(r.dir, pki.Node{Name: name, DNS: dns, Hosts: hosts, Life: time.Hour}, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return Credentials{Cert: c, Key: k, CA: filepath.Join(r.dir, pki.CAFile)}
}

// mill is a worker that is tested.
type mill struct {
	*Worker
	stop func() // stops the worker and waits for it

	mu      sync.Mutex
	places  map[string]bool // guarded by mu
	without bool            // guarded by mu: whether its policy names no place
	book    *book           // its checkpoints; nil without an audit log
}

// worker starts a worker with the handler h, and waits until it is linked.
func (r *rig) worker(name string, files Credentials, h http.HandlerFunc, places ...string) *mill {
	r.t.Helper()
	m := r.unlinked(name, files, h, places...)
	r.until("a link of "+name, func() bool {
		l := r.front.roster.named(name)
		return l != nil && l.Process == m.process && (!r.far || l.bulk.Load() != nil)
	})
	return m
}

func (r *rig) unlinked(name string, files Credentials, h http.HandlerFunc, places ...string) *mill {
	r.t.Helper()
	return r.unlinkedOf(name, files, h, nil, places...)
}

// unlinkedOf is unlinked for a worker with an audit log.
func (r *rig) unlinkedOf(name string, files Credentials, h http.HandlerFunc, b *book, places ...string) *mill {
	r.t.Helper()
	m := &mill{places: make(map[string]bool), book: b}
	for _, p := range places {
		m.places[p] = true
	}
	var err error
	fronts := []string{"https://" + r.link.Addr().String()}
	if r.other != nil {
		fronts = append(fronts, "https://"+r.other.link.Addr().String())
	}
	cfg := WorkerConfig{
		Name: name, Fronts: fronts, Credentials: files, Handler: h, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Places: func() (all []string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for p := range m.places {
				all = append(all, p)
			}
			slices.Sort(all)
			return all
		},
		Enter: func(p string) (func(), bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return func() {}, m.places[p]
		},
		Claim: func(_ context.Context, p string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if p == "nowhere" || m.without {
				return ErrNoPlace
			}
			m.places[p] = true
			return nil
		},
		Audit: m.book.audit(), Mover: r.movers[name].mover(), times: r.times, far: r.far,
	}
	if r.configure != nil {
		r.configure(&cfg)
	}
	m.Worker, err = NewWorker(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	if answers := r.answers; answers != nil {
		for i := range m.servers {
			m.servers[i].Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { answers(w, req, m.Worker.serve) })
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(m.stop)
	return m
}

func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	if !testenv.Until(10*time.Second*testenv.Patience(r.t), ok) {
		r.t.Fatalf("no %s\n%s", what, r.log)
	}
}

// ask sends a message to a place, and returns the status and the text of the answer.
func (r *rig) ask(place, body string) (int, string, error) {
	res, err := http.Post(r.http.URL+"/"+place+"/mcp", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

func (r *rig) says(place string, status int, want string) {
	r.t.Helper()
	const body = `{"id":1}`
	got, text, err := r.ask(place, body)
	if err != nil || got != status || !strings.Contains(text, want) {
		r.t.Errorf("%s %s: got %d %q, %v; want %d %q", place, body, got, text, err, status, want)
	}
}

// echo returns a handler that answers with the worker's name and the request.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %s", name, r.Header.Get(PlaceHeader), r.Header.Get(CallerHeader), slices.Concat(r.Header["Authorization"], r.Header["Belljar-Anything"]), body)
	}
}

// A request is answered by the worker that has its place. The worker gets the headers of
// the front, and no such headers from the client. New places are made at the worker with
// the fewest places.
func TestForward(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "old", "older")
	r.says("old", 200, `w1 old caller [] {"id":1}`)
	r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	r.says("new", 200, "w2 new caller")
	r.says("nowhere", 404, "no such place")
	r.says("old", 200, "w1 old")
	req, _ := http.NewRequest(http.MethodPost, r.http.URL+"/new/mcp", strings.NewReader("{}"))
	for _, name := range []string{PlaceHeader, CallerHeader, "belljar-place", "Belljar-Anything"} {
		req.Header.Add(name, "old")
	}
	req.Header.Set("Authorization", "Bearer secret")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); string(text) != "w2 new caller [] {}" {
		t.Errorf("with headers of a link: %s", text)
	}
	if status, _, _ := r.ask("new", strings.Repeat(" ", maxBody+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", status)
	}
}

// The front answers in place of a lost worker: with a message of its own if nothing was
// sent yet or after the whole events of a stream, and by closing the connection if a part
// of an answer was sent. An answer that the client already has is not sent twice.
func TestAnswerForLostWorker(t *testing.T) { nearAndFar(t, answerForLostWorker) }

func answerForLostWorker(t *testing.T, far bool) {
	begun := make(chan string, 1)
	var m *mill
	r := newRig(t, nil)
	r.far = far
	m = r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		flush := func() { _ = http.NewResponseController(w).Flush() }
		switch {
		case bytes.Contains(body, []byte("stream")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: one\n\ndata: tw")
			flush()
		case bytes.Contains(body, []byte("answered")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"answer\":3}\n\n")
			flush()
		case bytes.Contains(body, []byte("half")):
			fmt.Fprint(w, strings.Repeat("x", 2*maxBuffered))
			flush()
		case bytes.Contains(body, []byte("torn")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: "+strings.Repeat("x", 2*maxBuffered))
			flush()
		}
		begun <- string(body)
		<-Detached(req.Context())
	}, "p")
	for _, tt := range []struct {
		body, want string
		cut        bool
	}{
		{`{"id":1,"method":"silent"}`, `{"lost":1}`, false},
		{`{"id":2,"method":"stream"}`, "data: one\n\nevent: message\ndata: {\"lost\":2}\n\n", false},
		{`{"id":3,"method":"answered"}`, "data: {\"answer\":3}\n\n", true},
		{`{"id":4,"method":"half"}`, strings.Repeat("x", 2*maxBuffered), true},
		{`{"id":5,"method":"torn"}`, "data: x", true},
	} {
		type answer struct {
			status int
			text   string
			err    error
		}
		got := make(chan answer, 1)
		go func() {
			status, text, err := r.ask("p", tt.body)
			got <- answer{status, text, err}
		}()
		<-begun
		testenv.Delay(t.Context(), 20*time.Millisecond) // until the written bytes have arrived
		l := r.front.roster.named("w1")
		l.Close()
		a := <-got
		if a.status != http.StatusOK || (a.err != nil) != tt.cut || !tt.cut && a.text != tt.want || tt.cut && !strings.HasPrefix(a.text, tt.want[:min(len(tt.want), 7)]) || strings.Contains(a.text, "lost") != strings.Contains(tt.want, "lost") {
			t.Errorf("%s: got %d %.80q, %v; want %.80q, cut %v", tt.body, a.status, a.text, a.err, tt.want, tt.cut)
		}
		r.until("another link", func() bool { now := r.front.roster.named("w1"); return now != nil && now != l })
	}
	m.stop()
	got, text, err := r.ask("p", `{"id":6}`)
	if err != nil || got != http.StatusServiceUnavailable || !strings.Contains(text, "can be sent again") {
		t.Errorf("without a worker: %d %s, %v", got, text, err)
	}
}

// A client that disconnects cancels its request. A front that disconnects does not: the
// worker's request is detached first.
func TestCancelAgainstLoss(t *testing.T) { nearAndFar(t, cancelAgainstLoss) }

func cancelAgainstLoss(t *testing.T, far bool) {
	type end struct {
		err      error
		detached bool
	}
	begun, ends := make(chan struct{}, 1), make(chan end, 1)
	r := newRig(t, nil)
	r.far = far
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(_ http.ResponseWriter, req *http.Request) {
		begun <- struct{}{}
		<-req.Context().Done()
		detached := false
		select {
		case <-Detached(req.Context()):
			detached = true
		default:
		}
		ends <- end{req.Context().Err(), detached}
	}, "p")
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.http.URL+"/p/mcp", strings.NewReader(`{"id":1}`))
	go func() {
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	<-begun
	cancel()
	if e := <-ends; e.err == nil || e.detached {
		t.Errorf("a client that goes away: %+v", e)
	}
	go func() { _, _, _ = r.ask("p", `{"id":2}`) }()
	<-begun
	r.front.roster.named("w1").Close()
	if e := <-ends; !e.detached {
		t.Errorf("a front that goes away: %+v", e)
	}
}

// A worker that drains accepts no further requests: a new call waits for its next process.
func TestDrain(t *testing.T) { nearAndFar(t, drain) }

func drain(t *testing.T, far bool) {
	r := newRig(t, nil)
	r.far = far
	files := r.cert("w1", WorkerDNS("w1"))
	begun, through := make(chan struct{}, 1), make(chan struct{})
	m := r.worker("w1", files, func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-through
		fmt.Fprint(w, "first")
	}, "p")
	texts := make(chan string, 2)
	ask := func() {
		_, text, err := r.ask("p", `{"id":1}`)
		texts <- fmt.Sprint(text, err)
	}
	go ask()
	<-begun
	drained := make(chan struct{})
	go func() {
		m.Drain(context.Background())
		close(drained)
	}()
	r.until("drain", func() bool { l := r.front.roster.named("w1"); return l != nil && !r.front.roster.open(l) })
	go ask()
	r.until("request that waits", func() bool { return r.front.waiting.taken() == 1 })
	close(through)
	<-drained
	if m.flights.begin(new(http.Request)) { // also while the front does not know of the drain yet
		t.Error("a worker that drains takes a request")
	}
	if text := <-texts; text != "first<nil>" {
		t.Errorf("the one that had begun: %s", text)
	}
	m.stop()
	r.worker("w1", files, echo("second"), "p")
	if text := <-texts; !strings.HasPrefix(text, "second p") {
		t.Errorf("the one that waited: %s", text)
	}
}

// When the time for draining is over, the remaining requests of a worker continue without
// their callers.
func TestDrainDetaches(t *testing.T) { nearAndFar(t, drainDetaches) }

func drainDetaches(t *testing.T, far bool) {
	r := newRig(t, nil)
	r.far = far
	begun := make(chan struct{}, 1)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(w http.ResponseWriter, req *http.Request) {
		begun <- struct{}{}
		<-Detached(req.Context())
		fmt.Fprint(w, "in the background")
	}, "p")
	texts := make(chan string, 1)
	go func() {
		_, text, err := r.ask("p", `{"id":1}`)
		texts <- fmt.Sprint(text, err)
	}()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m.Drain(ctx)
	if text := <-texts; text != "in the background<nil>" {
		t.Errorf("got %s", text)
	}
}

// A place that two workers have is served by neither, and the front names both. When one of
// them does not have it any more, the other serves it.
func TestPlaceOfTwo(t *testing.T) {
	r := newRig(t, nil)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"), "p")
	r.says("p", 200, "w1")
	two := r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"), "p", "q")
	r.says("p", 503, "several workers")
	if got := r.front.Info().Frozen["p"]; !slices.Equal(got, []string{"w1", "w2"}) {
		t.Errorf("frozen: %q", got)
	}
	r.says("q", 200, "w2")
	two.mu.Lock()
	delete(two.places, "p")
	two.mu.Unlock()
	two.Changed()
	r.until("thaw", func() bool { return len(r.front.Info().Frozen) == 0 })
	r.says("p", 200, "w1")
}

// A place whose directory reappears under another name of its worker is not served, and
// cannot be forgotten: otherwise its contents would be lost.
func TestPlaceOfAnotherName(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	first := r.worker("w1", files, echo("w1"), "p")
	r.says("p", 200, "w1")
	first.stop()
	r.until("end of w1", func() bool { return r.front.roster.named("w1") == nil })
	renamed := r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"), "p")
	r.says("p", 503, "belongs to one worker and is on another")
	if i := r.front.Info(); i.Claimed["p"] != "w1" || i.Places["p"] != "w2" || len(i.Frozen) > 0 {
		t.Errorf("claimed %q, places %q, frozen %q", i.Claimed, i.Places, i.Frozen)
	}
	if err := r.front.Forget(t.Context(), "p"); err == nil || !strings.Contains(err.Error(), "only a place that no worker has") {
		t.Errorf("forget: %v", err)
	}
	renamed.stop()
	r.until("end of w2", func() bool { return r.front.roster.named("w2") == nil })
	r.worker("w1", files, echo("w1"), "p")
	r.says("p", 200, "w1")
}

// If two processes have the same name, the first one stays linked as long as it answers.
func TestTwoOfOneName(t *testing.T) {
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	first := r.worker("w1", files, echo("first"), "p")
	r.unlinked("w1", files, echo("second"), "p")
	r.until("refusal", func() bool { return strings.Contains(r.log.String(), "a worker of the name w1 is linked from") })
	r.says("p", 200, "first")
	first.stop()
	r.until("second", func() bool { _, text, _ := r.ask("p", `{"id":1}`); return strings.HasPrefix(text, "second") })
}

// Fronts with the same list of workers choose the same worker for a new place, and wait for
// it. A front without a list makes no new place if a worker has a second front.
func TestNewPlacesOfTwoFronts(t *testing.T) {
	names := []string{"w1", "w2", "w3"}
	count := make(map[string]int)
	for i := range 3000 {
		place := fmt.Sprintf("tenant-%d/site", i)
		best := rendezvous(names, place)
		count[best]++
		if best != rendezvous([]string{"w3", "w1", "w2"}, place) {
			t.Fatalf("%s: another order is another worker", place)
		}
		if more := rendezvous(append(names, "w4"), place); more != best && more != "w4" {
			t.Fatalf("%s moves from %s to %s where w4 comes", place, best, more)
		}
	}
	for _, name := range names {
		if count[name] < 900 {
			t.Errorf("of 3000 places: %v", count)
		}
	}
	r := newRig(t, func(cfg *FrontConfig) { cfg.Workers = names })
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"))
	for i := range 20 {
		place := fmt.Sprintf("p%d", i)
		if rendezvous(names, place) == "w1" {
			r.says(place, 200, "w1 "+place)
		} else if _, why, _, err := r.front.find(t.Context(), place); err != nil || !strings.Contains(why, "is not linked") {
			t.Errorf("%s: %q, %v", place, why, err)
		}
	}
	alone := newRig(t, nil)
	w := alone.unlinked("w1", alone.cert("w1", WorkerDNS("w1")), echo("w1"))
	alone.until("link", func() bool { return alone.front.roster.named("w1") != nil })
	w.stop()
	alone.until("end of the link", func() bool { return alone.front.roster.named("w1") == nil })
	_, roots := alone.front.files.now()
	known := &peer{chain: []*x509.Certificate{{NotAfter: time.Now().Add(time.Hour)}}, roots: roots}
	alone.front.roster.mu.Lock()
	alone.front.roster.links["w1"] = &link{hello: hello{Name: "w1", Fronts: 2}, peer: known, conn: newConn(&net.TCPConn{})}
	alone.front.roster.mu.Unlock()
	if l, why := alone.front.choose("p"); l != nil || !strings.Contains(why, "--workers") {
		t.Errorf("a worker with two fronts: %v %q", l, why)
	}
	alone.front.roster.mu.Lock()
	delete(alone.front.roster.links, "w1")
	alone.front.roster.mu.Unlock()
}

// A link needs a certificate of the fleet, for the right end and the right name.
func TestCertificates(t *testing.T) {
	r := newRig(t, nil)
	other := newRig(t, nil)
	stranger := other.cert("w1", WorkerDNS("w1"))
	stranger.CA = filepath.Join(r.dir, pki.CAFile) // the stranger trusts our front
	for name, files := range map[string]Credentials{
		"of another fleet":        stranger,
		"of a front":              r.cert("front2", "", "127.0.0.1", "w1"+workerDomain),
		"of another worker":       r.cert("w2", WorkerDNS("w2")),
		"of a name above":         r.cert("above", "worker.belljar"),
		"of this front's address": r.cert("address", "127.0.0.1"),
	} {
		m := r.unlinked("w1", files, echo("w1"), "p")
		r.until("refusal of a certificate "+name, func() bool { return strings.Count(r.log.String(), "a front is not linked") > 0 })
		testenv.Delay(t.Context(), 50*time.Millisecond)
		if r.front.roster.named("w1") != nil {
			t.Errorf("a certificate %s is good for a link", name)
		}
		m.stop()
	}
	// First a good certificate as a control, then a worker that connects to a false front.
	m := r.worker("w1", r.cert("any", WorkerDNS("*")), echo("w1"), "p")
	r.says("p", 200, "w1")
	m.stop()
	imposter := r.cert("imposter", WorkerDNS("w9"))
	cfg := FrontConfig{Credentials: imposter, Claims: r.front.cfg.Claims, Settled: true, Protocol: texts{}, Log: r.front.cfg.Log}
	f, err := NewFront(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- f.Serve(context.Background(), l) }()
	w, err := NewWorker(WorkerConfig{Name: "w3", Fronts: []string{"https://" + l.Addr().String()}, Credentials: r.cert("w3", WorkerDNS("w3")), Log: r.front.cfg.Log, Places: func() []string { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.link(t.Context(), w.fronts[0]); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a worker's certificate is good for a front: %v", err)
	}
	l.Close()
	f.Close()
	<-over
}

// Strangers who connect to the port for links get no further than the handshake, and the
// front continues to work.
func TestStrangersAtTheLink(t *testing.T) {
	n, random := testenv.Cases(t, 500)
	r := newRig(t, nil)
	files := r.cert("w1", WorkerDNS("w1"))
	r.worker("w1", files, echo("w1"), "p")
	address := r.link.Addr().String()
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	room := make(chan struct{}, 32)
	for range n {
		kind, seed := random.IntN(5), random.Uint64()
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			own := rand.New(rand.NewPCG(seed, 0))
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Second))
			garbage := make([]byte, own.IntN(2048)+1)
			for i := range garbage {
				garbage[i] = byte(own.Uint32())
			}
			switch kind {
			case 0:
				_, _ = c.Write(garbage)
			case 1: // the beginning of a handshake
				_, _ = c.Write(append([]byte{22, 3, 1, byte(own.Uint32()), byte(own.Uint32()), 1}, garbage...))
			case 2: // TLS without a certificate
				over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
				_ = over.Handshake()
				_ = send(over, hello{Name: "w1", Protocol: helloProtocol})
				var said welcome
				if err := receive(over, &said); err == nil {
					t.Errorf("a stranger is answered: %+v", said)
				}
			case 3:
				_, _ = io.WriteString(c, "GET /link/state HTTP/1.1\r\nHost: x\r\n\r\n")
			default:
				_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+string(garbage))
			}
			if kind != 2 {
				text, _ := io.ReadAll(io.LimitReader(c, 1<<10))
				if bytes.Contains(text, []byte("places")) || bytes.Contains(text, []byte("HTTP/1.1 200")) {
					t.Errorf("a stranger is answered: %q", text)
				}
			}
		})
	}
	wg.Wait()
	if got := r.front.Info().Workers; len(got) != 1 {
		t.Errorf("workers: %+v", got)
	}
	r.says("p", 200, "w1")
	r.until("end of the handshakes", func() bool { return runtime.NumGoroutine() < before+20 })
}

// After a claim is released, another worker can make the place. The claim of a linked
// worker cannot be released.
func TestForget(t *testing.T) {
	r := newRig(t, nil)
	m := r.worker("w1", r.cert("w1", WorkerDNS("w1")), echo("w1"))
	r.says("p", 200, "w1")
	if err := r.front.Forget(t.Context(), "p"); err == nil {
		t.Error("a place is forgotten that a worker has")
	}
	m.stop()
	r.until("end of the link", func() bool { return r.front.roster.named("w1") == nil })
	r.worker("w2", r.cert("w2", WorkerDNS("w2")), echo("w2"))
	if _, why, _, err := r.front.find(t.Context(), "p"); err != nil || !strings.Contains(why, "not linked") {
		t.Errorf("a place of another worker: %q, %v", why, err)
	}
	if err := r.front.Forget(t.Context(), "p"); err != nil {
		t.Error(err)
	}
	r.says("p", 200, "w2")
	// The first worker returns with its directory: now two workers have the place.
	r.worker("w1", r.cert("w1b", WorkerDNS("w1")), echo("w1"), "p")
	r.says("p", 503, "several workers")
}

// A stream ends when its caller is not valid any more. A call continues.
func TestRecheck(t *testing.T) {
	r := newRig(t, nil)
	begun, ended := make(chan string, 2), make(chan string, 2)
	r.worker("w1", r.cert("w1", WorkerDNS("w1")), func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		begun <- string(body)
		<-req.Context().Done()
		ended <- string(body)
	}, "p")
	valid := true
	r.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.front.ServeRequest(w, req, Request{Place: "p", Caller: "caller", Valid: func() bool { return valid }})
	})
	for _, body := range []string{`{"id":1,"method":"call"}`, `{"id":2,"method":"listen"}`} {
		go func() { _, _, _ = r.ask("p", body) }()
		<-begun
	}
	r.front.Recheck()
	select {
	case what := <-ended:
		t.Fatalf("%s ended although its caller holds", what)
	case <-time.After(50 * time.Millisecond):
	}
	valid = false
	r.front.Recheck()
	if what := <-ended; !strings.Contains(what, "listen") {
		t.Errorf("%s ended", what)
	}
	r.front.Close()
	<-ended
}
