package act_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	believe()
	testenv.Main(m)
}

// local resolves every name of example to this machine.
type local struct {
	note func(name string) // called with each name that is looked up
}

func (l local) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	l.note(host)
	if strings.HasSuffix(strings.TrimSuffix(host, "."), ".example") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// stage is a web server with many names, a seat, and a record of the requests to the
// server.
type stage struct {
	t           *testing.T
	mux         *http.ServeMux
	port        int
	scheme, net string // scheme of the site, and network of a grant
	sup         *sandbox.Supervisor
	pool        *browser.Pool
	seats       *act.Seats
	seat        *act.Seat

	mu   sync.Mutex
	hits []string // method, host, path and query of each request
	asks []act.Navigation
	// names contains the host names that the door has looked up.
	names []string
}

// open returns a stage whose seat allows everything that the door allows.
func open(t *testing.T, change ...func(*act.Options)) *stage {
	t.Helper()
	s := newStage(t)
	s.seat = s.another(change...)
	return s
}

func newStage(t *testing.T) *stage { return newStageWith(t, nil) }

func newStageWith(t *testing.T, log *slog.Logger) *stage {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	s := &stage{t: t, mux: http.NewServeMux(), scheme: "http", net: `net: {mode: proxy, allow_private: [NAMES], limits: {connections: 512, rate: 10000, bytes: 100GiB}}`}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.mu.Lock()
		host, _, _ := strings.Cut(q.Host, ":")
		s.hits = append(s.hits, q.Method+" "+host+q.URL.String())
		s.mu.Unlock()
		s.mux.ServeHTTP(w, q)
	}))
	t.Cleanup(web.Close)
	_, port, _ := strings.Cut(web.Listener.Addr().String(), ":")
	s.port, _ = strconv.Atoi(port)
	s.mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	var err error
	if s.sup, err = sandbox.New(sandbox.Config{Resolver: local{s.named}}); err != nil {
		t.Fatal(err)
	}
	s.closing(s.sup.Close)
	s.pool, err = browser.New(browser.Config{Supervisor: s.sup, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s.closing(s.pool.Close)
	if s.seats, err = act.New(act.Config{Pool: s.pool, Log: log}); err != nil {
		t.Fatal(err)
	}
	s.closing(s.seats.Close)
	return s
}

// resting returns a stage with one seat whose Chrome is frozen and parked after these
// times.
func resting(t *testing.T, freeze, park time.Duration) *stage {
	t.Helper()
	s := newStage(t)
	var err error
	if s.seats, err = act.New(act.Config{Pool: s.pool, Freeze: freeze, Park: park}); err != nil {
		t.Fatal(err)
	}
	s.closing(s.seats.Close)
	s.seat = s.another()
	return s
}

// named notes a name that the door has looked up.
func (s *stage) named(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) < 10000 {
		s.names = append(s.names, name)
	}
}

// closing registers a function that closes something at the end of the test.
func (s *stage) closing(close func() error) {
	s.t.Cleanup(func() {
		if err := close(); err != nil {
			s.t.Error(err)
		}
	})
}

// maxDownloads is Options.Downloads of the seats.
const maxDownloads = 4 << 20

// another opens one more seat.
func (s *stage) another(change ...func(*act.Options)) *act.Seat {
	s.t.Helper()
	o := act.Options{Downloads: maxDownloads, Uploads: 1 << 20, Eval: true, Judge: func(_ context.Context, n act.Navigation) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.asks) < 10000 {
			s.asks = append(s.asks, n)
		}
		if strings.Contains(n.URL, "refused") {
			return fmt.Errorf("the policy refuses that")
		}
		return nil
	}}
	for _, f := range change {
		f(&o)
	}
	seat, err := s.seats.Open(s.t.Context(), s.grant("t"), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return seat
}

func (s *stage) grant(tenant string) policies.Grant {
	return s.grantOf(tenant, s.net)
}

// grantOf returns a grant whose network is a line of a profile. NAMES in the line stands
// for all names of the stage.
func (s *stage) grantOf(tenant, network string) policies.Grant {
	var names []string
	for _, n := range []string{"site", "other", "third", "shop", "evil"} {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("%s.example:%d", n, s.port)))
	}
	return policytest.GrantFor(s.t, fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    browser: sandboxed
    %s
`, strings.Replace(network, "NAMES", strings.Join(names, ", "), 1)), policies.Facts{Tenant: tenant, Tool: "ReadDocs"})
}

// page serves HTML.
func (s *stage) page(path, html string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(strings.ReplaceAll(html, "PORT", strconv.Itoa(s.port))))
	})
}

func (s *stage) url(host, path string) string {
	return fmt.Sprintf("%s://%s.example:%d%s", s.scheme, host, s.port, path)
}

// heard returns the number of requests whose method, host or path contains part.
func (s *stage) heard(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hits {
		if strings.Contains(h, part) {
			n++
		}
	}
	return n
}

func (s *stage) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second*testenv.Patience(s.t))
	s.t.Cleanup(cancel)
	return ctx
}

// do prepares and does a step.
func (s *stage) do(step act.Step) (*act.Outcome, error) { return s.doIn(s.ctx(), step) }

func (s *stage) doIn(ctx context.Context, step act.Step) (*act.Outcome, error) {
	p, err := s.seat.Prepare(ctx, "", step)
	if err != nil {
		return nil, err
	}
	return s.seat.Do(ctx, p, step)
}

// upload gives a small file a.txt to a field.
func (s *stage) upload(ref int) error {
	step := act.Step{Do: act.DoUpload, Ref: ref, Path: "/workspace/a.txt"}
	p, err := s.seat.Prepare(s.ctx(), "", step)
	if err != nil {
		return err
	}
	step.File = &act.File{Name: "a.txt", Content: nobody{strings.NewReader("text")}}
	_, err = s.seat.Do(s.ctx(), p, step)
	return err
}

func (s *stage) must(step act.Step) *act.Outcome {
	s.t.Helper()
	o, err := answered(s, func() (*act.Outcome, error) { return s.do(step) })
	if err != nil {
		s.t.Fatalf("%s: %v (%v)", step.Do, err, cause(err))
	}
	return o
}

// answered calls ask again if the page did not answer in time and did nothing: on a busy
// machine, a page needs longer.
func answered[T any](s *stage, ask func() (T, error)) (out T, err error) {
	testenv.Until(20*time.Second*testenv.Patience(s.t), func() bool {
		out, err = ask()
		r, _ := errors.AsType[*act.Refusal](err)
		return r == nil || r.Reason != act.ReasonTimeout || r.Ran
	})
	return out, err
}

func cause(err error) error {
	if r, ok := err.(*act.Refusal); ok { //nolint:errorlint // it is shown
		return r.Err
	}
	return nil
}

// goTo opens a page and looks at it.
func (s *stage) goTo(url string) string {
	s.t.Helper()
	return s.goFor(url, "")
}

// goFor opens a page and looks at it until the look contains what, for example a control of
// a frame that is still loading.
func (s *stage) goFor(url, what string) (look string) {
	s.t.Helper()
	s.must(act.Step{Do: act.DoOpen, URL: url})
	testenv.Until(10*time.Second*testenv.Patience(s.t), func() bool {
		look = s.look(act.LookRequest{})
		return strings.Contains(look, what)
	})
	return look
}

func (s *stage) look(q act.LookRequest) string {
	s.t.Helper()
	l, err := answered(s, func() (*act.Look, error) { return s.seat.Look(s.ctx(), q) })
	if err != nil {
		s.t.Fatalf("look: %v (%v)", err, cause(err))
	}
	return l.Text
}

// ref returns the number of a control in a look, by the text that follows the number.
func (s *stage) ref(look, what string) int {
	s.t.Helper()
	m := regexp.MustCompile(`\[(\d+)\] ` + regexp.QuoteMeta(what)).FindStringSubmatch(look)
	if m == nil {
		s.t.Fatalf("%q has no number in:\n%s", what, look)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// eval returns the value of an expression of the page.
func (s *stage) eval(expression string) string {
	s.t.Helper()
	o, err := answered(s, func() (*act.Outcome, error) { return s.do(act.Step{Do: act.DoEval, Text: expression}) })
	if err != nil {
		s.t.Fatalf("eval: %v (%v)", err, cause(err))
	}
	return o.Value
}

// refs returns the numbers of all controls in a look that are followed by what.
func refs(look, what string) (out []int) {
	for _, m := range regexp.MustCompile(`\[(\d+)\] `+regexp.QuoteMeta(what)).FindAllStringSubmatch(look, -1) {
		n, _ := strconv.Atoi(m[1])
		out = append(out, n)
	}
	return out
}

// answer serves each word once, and nothing while there is none to serve.
func (s *stage) answer(path string, words <-chan string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case word := <-words:
			_, _ = w.Write([]byte(word))
		default:
		}
	})
}

// hold serves nothing until let is closed. The first request closes came.
func (s *stage) hold(path string, came, let chan struct{}) {
	first := sync.OnceFunc(func() { close(came) })
	s.mux.HandleFunc(path, func(_ http.ResponseWriter, q *http.Request) {
		first()
		select {
		case <-let:
		case <-q.Context().Done():
		}
	})
}

func (s *stage) wait(ok func() bool) {
	s.t.Helper()
	if !testenv.Until(10*time.Second*testenv.Patience(s.t), ok) {
		tabs, _ := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtTabs})
		files, _ := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtDownloads})
		page, err := s.seat.Look(s.ctx(), act.LookRequest{})
		s.t.Fatalf("it did not come; the tabs are %+v, the downloads are %+v, the page is %+v, %v", tabs, files, page, err)
	}
}

// until looks until a look contains a text. A look at a page that is left meanwhile fails,
// and is repeated.
func (s *stage) until(q act.LookRequest, text string) {
	s.t.Helper()
	s.wait(func() bool {
		l, err := answered(s, func() (*act.Look, error) { return s.seat.Look(s.ctx(), q) })
		return err == nil && strings.Contains(l.Text, text)
	})
}

// plainMarks returns a look without the parts that differ from run to run.
func plainMarks(s *stage, text string) string {
	text = regexp.MustCompile(`\b[0-9a-f]{16}\b`).ReplaceAllString(text, "MARK")
	text = regexp.MustCompile(`of [\d,]+ px`).ReplaceAllString(text, "of N px")
	return strings.ReplaceAll(text, strconv.Itoa(s.port), "PORT")
}
