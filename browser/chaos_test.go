package browser_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// processes returns the PIDs of the Chrome processes below this process, by their type; the
// browser process has the type "".
func processes(t testing.TB) map[string][]int {
	t.Helper()
	found := map[string][]int{}
	for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		line := string(text)
		if !strings.Contains(line, "chrom") || !strings.Contains(line, "headless") {
			continue
		}
		_, kind, _ := strings.Cut(line, "--type=")
		kind, _, _ = strings.Cut(strings.ReplaceAll(kind, "\x00", " "), " ")
		found[kind] = append(found[kind], p.PID)
	}
	return found
}

// healed checks that the pool loads a page again, and then two more: the cause of the fault
// may fail the next load as well.
func (r *rig) healed(t *testing.T) {
	t.Helper()
	var l *browser.Loaded
	var err error
	loads := func() bool {
		l, err = r.load(browser.Request{URL: r.url("/plain"), Timeout: 20 * time.Second})
		return err == nil && strings.Contains(l.HTML, "plain")
	}
	if !testenv.Until(20*time.Second*testenv.Patience(t), loads) || !loads() || !loads() {
		t.Errorf("afterwards: %+v, %v", l, err)
	}
}

// outcome checks that a call ended with a page or a clear error in its time.
func outcome(t *testing.T, what string, took, timeout time.Duration, l *browser.Loaded, err error) {
	t.Helper()
	if took > timeout+3*time.Second*testenv.Patience(t) {
		t.Errorf("%s: it took %s, and had %s", what, took, timeout)
	}
	switch kind := browser.KindOf(err); {
	case err == nil && l.HTML == "":
		t.Errorf("%s: no error and no page", what)
	case err != nil && kind != browser.KindCrashed && kind != browser.KindTimedOut && kind != browser.KindUnreachable:
		t.Errorf("%s: %v: %v", what, kind, err)
	}
	if err == nil {
		t.Logf("%s: a page after %s, retried %v", what, took.Round(time.Millisecond), l.Retried)
	} else {
		t.Logf("%s: %v after %s", what, err, took.Round(time.Millisecond))
	}
}

func TestChaos(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/plain", "<!doctype html><p>plain")
	asked, release := make(chan struct{}, 16), make(chan struct{})
	r.mux.HandleFunc("/wait", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><p>begun")
		w.(http.Flusher).Flush() //nolint:forcetypeassert // of net/http
		asked <- struct{}{}
		select {
		case <-release:
		case <-q.Context().Done():
		}
		fmt.Fprint(w, "<p>plain")
	})
	r.healed(t)
	const timeout = 9 * time.Second
	for _, tt := range []struct {
		kind   string
		signal unix.Signal
	}{
		{"", unix.SIGKILL},
		{"renderer", unix.SIGKILL},
		{"gpu-process", unix.SIGKILL},
		{"utility", unix.SIGKILL},
		{"zygote", unix.SIGKILL},
		{"", unix.SIGSTOP},
		{"renderer", unix.SIGSTOP},
		{"gpu-process", unix.SIGSTOP},
		{"utility", unix.SIGSTOP},
	} {
		name := fmt.Sprintf("%v of %q", tt.signal, tt.kind)
		t.Run(name, func(t *testing.T) {
			type end struct {
				l   *browser.Loaded
				err error
			}
			done := make(chan end, 1)
			var start time.Time
			for tries, begun := 0, false; !begun; tries++ {
				start = time.Now()
				go func() {
					l, err := r.load(browser.Request{URL: r.url("/wait"), Timeout: timeout})
					done <- end{l, err}
				}()
				select {
				case <-asked:
					begun = true
				case e := <-done: // on a busy machine, the time of the call may end before that
					if browser.KindOf(e.err) != browser.KindTimedOut || tries == 3 {
						t.Fatalf("before it asked for the page: %+v, %v", e.l, e.err)
					}
				}
			}
			victims := processes(t)[tt.kind]
			if len(victims) == 0 {
				t.Logf("no process is a %q", tt.kind)
			}
			for _, pid := range victims {
				_ = unix.Kill(pid, tt.signal)
			}
			var e end
			for waiting := true; waiting; {
				select {
				case e = <-done:
					waiting = false
				case <-asked: // the page was requested once more
				case release <- struct{}{}:
				}
			}
			outcome(t, name, time.Since(start), timeout, e.l, e.err)
			r.healed(t)
		})
	}
	t.Run("pipe", func(t *testing.T) {
		for range 5 {
			var cut sync.WaitGroup
			cut.Go(func() {
				testenv.Delay(t.Context(), time.Duration(rand.IntN(40))*time.Millisecond)
				r.pool.Cut()
			})
			start := time.Now()
			l, err := r.load(browser.Request{URL: r.url("/plain"), Timeout: timeout})
			outcome(t, "cut", time.Since(start), timeout, l, err)
			cut.Wait()
		}
		r.healed(t)
	})
	s := r.pool.Stats()
	t.Logf("%+v", s)
	r.gone(t)
}

// gone closes the pool and checks that nothing of it is left.
func (r *rig) gone(t *testing.T) {
	t.Helper()
	if err := r.pool.Close(); err != nil {
		t.Error(err)
	}
	if left := processes(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left := r.sup.Boxes(); len(left) > 0 {
		t.Errorf("%d boxes are left", len(left))
	}
	if s := r.pool.Stats(); s.Chromes != 0 || s.Busy != 0 || s.Warm != 0 {
		t.Errorf("left: %+v", s)
	}
	if _, err := r.load(browser.Request{URL: r.url("/plain")}); browser.KindOf(err) != browser.KindClosed {
		t.Errorf("after Close: %v", err)
	}
}

// TestHostilePages checks that pages that use up the machine do not keep other pages from
// loading.
func TestHostilePages(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/plain", "<!doctype html><p>plain")
	r.page("/memory", `<!doctype html><p>bomb<script>const a = []; for (;;) a.push(new Uint8Array(8 << 20).fill(1))</script>`)
	r.page("/strings", `<!doctype html><p>bomb<script>const a = []; for (let i = 0;; i++) a.push(("x" + i).repeat(1 << 20))</script>`)
	r.page("/workers", `<!doctype html><p>workers<script>const u = URL.createObjectURL(new Blob(["for(;;);"])); for (let i = 0; i < 200; i++) new Worker(u)</script>`)
	r.page("/tabs", `<!doctype html><p>tabs<script>for (let i = 0; i < 100; i++) window.open("/plain?" + i)</script>`)
	r.page("/alerts", `<!doctype html><p>alerts<script>for (let i = 0; i < 200; i++) alert(i)</script>`)
	r.page("/spin", `<!doctype html><p>spin<script>for(;;);</script>`)
	r.page("/nodes", `<!doctype html><p>nodes<script>for (let i = 0; i < 2e6; i++) document.body.append(document.createElement("i"))</script>`)
	r.page("/deep", "<!doctype html><p>deep"+strings.Repeat("<div>", 100_000)+"bottom")
	r.page("/frames", `<!doctype html><p>frames<script>for (let i = 0; i < 200; i++) document.body.append(Object.assign(document.createElement("iframe"), {src: "/plain?" + i}))</script>`)
	r.page("/moves", `<!doctype html><p>moves<script>location.href = "/moves?" + Math.random()</script>`)
	r.mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html>")
		line := "<p>" + strings.Repeat("many words ", 1000)
		for range 4000 {
			fmt.Fprint(w, line)
		}
	})
	g := r.grantWith("t", "limits: {memory: 700MiB, pids: 256}")
	for _, path := range []string{"/memory", "/strings", "/workers", "/tabs", "/alerts", "/spin", "/nodes", "/deep", "/frames", "/moves", "/huge"} {
		timeout := 2 * time.Second // most of these pages use all of this time, and a processor for it
		if path == "/memory" || path == "/strings" {
			timeout *= 2 // until they have all the memory
		}
		start := time.Now()
		l, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url(path), Timeout: timeout})
		outcome(t, path, time.Since(start), timeout, l, err)
		start = time.Now()
		// The next load is in time if it loads within this longer timeout: the machine may
		// do other work.
		l, err = r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/plain"), Timeout: 20 * time.Second})
		if err != nil || !strings.Contains(l.HTML, "plain") {
			t.Errorf("after %s: %+v, %v", path, l, err)
		}
		t.Logf("after %s: %s", path, time.Since(start).Round(time.Millisecond))
	}
	t.Logf("%+v", r.pool.Stats())
	r.gone(t)
}

// TestManyPages checks that many callers get their pages, with the tenants in turn, while
// Chromes are replaced.
func TestManyPages(t *testing.T) {
	pages := 64
	if n, err := strconv.Atoi(os.Getenv("BELLJAR_TEST_PAGES")); err == nil {
		pages = n
	}
	r := newRig(t, browser.Config{Pages: 20, Queue: 64})
	r.serveApp()
	var failed, retried atomic.Int64
	var next atomic.Int64
	var wg sync.WaitGroup
	for caller := range 16 {
		g := r.grant(fmt.Sprint("tenant", caller%2))
		wg.Go(func() {
			for int(next.Add(1)) <= pages {
				l, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/app"), Timeout: 30 * time.Second})
				switch {
				case err != nil:
					failed.Add(1)
					t.Error(err)
				case !strings.Contains(l.HTML, "item 99<"):
					failed.Add(1)
					t.Errorf("not all is there: %d bytes, %+v", len(l.HTML), l.Timing)
				case l.Retried:
					retried.Add(1)
				}
			}
		})
	}
	wg.Wait()
	s := r.pool.Stats()
	t.Logf("%d pages, %d failed, %d retried, %+v", pages, failed.Load(), retried.Load(), s)
	if s.Died > 0 {
		t.Errorf("%d Chromes died", s.Died)
	}
	r.gone(t)
}

// TestHungPage checks that a page that was made for a call and hangs is replaced by another
// page. A page that is slow, or whose server is slow, is not.
func TestHungPage(t *testing.T) {
	r := newRig(t, browser.Config{Slots: 1})
	r.page("/plain", "<!doctype html><p>plain")
	r.page("/slow", "<!doctype html><p>plain<script>for (const end = performance.now() + 4000; performance.now() < end;);</script>")
	r.mux.HandleFunc("/late", func(w http.ResponseWriter, q *http.Request) {
		testenv.Delay(q.Context(), 4*time.Second)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><p>plain")
	})
	for _, path := range []string{"/slow", "/late"} {
		if l := r.must(browser.Request{URL: r.url(path)}); !strings.Contains(l.HTML, "plain") {
			t.Errorf("%s: got %+v", path, l)
		}
	}
	if s := r.pool.Stats(); s.Hung > 0 {
		t.Errorf("pages that are slow only: %+v", s)
	}
	for _, tt := range []struct {
		name   string
		signal unix.Signal
		load   func() error
		hangs  int
	}{
		{"page", unix.SIGSTOP, func() error { _, err := r.load(browser.Request{URL: r.url("/plain")}); return err }, 1},
		{"picture", unix.SIGSTOP, func() error {
			_, err := r.load(browser.Request{URL: r.url("/plain"), Shot: &browser.Shot{Width: 400}})
			return err
		}, 1},
		{"drawing", unix.SIGSTOP, func() error {
			_, err := r.pool.Draw(t.Context(), r.grant("t"), browser.Drawing{SVG: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)})
			return err
		}, 1},
		{"dead page", unix.SIGKILL, func() error { _, err := r.load(browser.Request{URL: r.url("/plain")}); return err }, 0},
	} {
		if err := tt.load(); err != nil { // so that a Chrome runs
			t.Errorf("%s: %v", tt.name, err)
		}
		var before browser.Stats
		if !testenv.Until(30*time.Second, func() bool { before = r.pool.Stats(); return before.Warm >= before.Chromes }) {
			t.Errorf("%s: no page is ready before it: %+v", tt.name, before)
		}
		for _, pid := range processes(t)["renderer"] {
			_ = unix.Kill(pid, tt.signal)
		}
		if err := tt.load(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := r.pool.Stats().Hung - before.Hung; got != tt.hangs {
			t.Errorf("%s: %d pages were given up, want %d", tt.name, got, tt.hangs)
		}
	}
}
