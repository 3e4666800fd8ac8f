package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// The page contains no secret: the code is removed from its address, the token is in the
// storage of the tab, and a new tab gets the token from an open one. Ten tabs work at the
// same time: WC3, WC9, WC-A28.
func TestChromeTabs(t *testing.T) {
	g := start(t, full)
	browser := chrome(t)
	p := g.open(browser)
	p.login(Viewer)
	if got := value[string](p, `location.href + ' ' + document.cookie + ' ' + localStorage.length + ' ' + (sessionStorage.getItem('token') || '').length`); got != g.URL()+"  0 43" {
		t.Errorf("the address, cookies, and storage: %q", got)
	}
	if page := g.send("GET", "", "", nil); strings.Contains(string(page.body), value[string](p, `sessionStorage.getItem('token')`)) || page.header.Get("Set-Cookie") != "" {
		t.Error("the page has the token")
	}
	for range 9 {
		next := g.open(browser)
		began := time.Now()
		next.visit(g.URL())
		next.until(`document.querySelector('.tile')`)
		t.Logf("a tab shows its page after %v", time.Since(began).Round(time.Millisecond))
	}
	t.Logf("first paint: %.0f ms", value[float64](p, `performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0`))
}

// serveAt serves a console at an address until ctx ends, and then closes done.
func serveAt(ctx context.Context, t *testing.T, addr string) (g *rig, done chan struct{}) {
	t.Helper()
	c, err := Open(ctx, Config{Addr: addr, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, done = &rig{Console: c, t: t}, make(chan struct{})
	v := Views{Server: g, Counts: counts{}}
	g.mount(v)
	go func() {
		defer close(done)
		if err := g.serve(ctx); err != nil {
			t.Error(err)
		}
	}()
	return g, done
}

// When the server ends, the page says so and connects again later. The token ends with the
// server, so people log in again, with a link that is opened in the same tab: WC29.
func TestChromeRestart(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	g, done := serveAt(ctx, t, "127.0.0.1:0")
	p := g.open(chrome(t))
	p.mayFail("ERR_")
	p.mayFail("401")
	p.login(Viewer)
	end()
	<-done
	p.until(`document.querySelector('.state.lost') && document.body.innerText.includes('Trying again')`)
	ctx, end = context.WithCancel(t.Context())
	next, done := serveAt(ctx, t, strings.Trim(strings.TrimPrefix(g.URL(), "http://"), "/"))
	p.until(`document.querySelector('.login') && document.body.innerText.includes('belljar console')`)
	p.visit(first(next.Link("ann (uid 7)", Viewer)))
	p.until(`document.querySelector('.state.live') && document.querySelector('.chart')`)
	t.Cleanup(func() {
		end()
		<-done
	})
}

// A hidden tab has no stream of events. It resumes the stream when it is visible again:
// WC9.
func TestChromeHiddenTab(t *testing.T) {
	g := start(t)
	p := g.open(chrome(t))
	p.login(Viewer)
	p.eval(`Object.defineProperty(document, 'hidden', {get: () => window.away === true, configurable: true}); window.away = true; document.dispatchEvent(new Event('visibilitychange'))`)
	p.until(`document.querySelector('.state.hidden')`)
	for g.ring.streams() != 0 { // the server has noticed the end of the connection
		p.until(`true`)
	}
	g.ask("git push")
	p.eval(`window.away = false; document.dispatchEvent(new Event('visibilitychange'))`)
	p.until(`document.querySelector('.badge').textContent === '1'`)
}

// The element that has the focus keeps it when its numbers change.
func TestChromeFocusStays(t *testing.T) {
	g := start(t, full)
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/overview")
	p.until(`document.querySelector('.tile[href="#/inbox"]')`)
	p.eval(`document.querySelector('.tile[href="#/inbox"]').focus()`)
	g.ask("git push")
	g.Look()
	p.until(`document.querySelector('.tile[href="#/inbox"]').textContent.startsWith('1')`)
	if at := value[string](p, `document.activeElement.getAttribute('href')`); at != "#/inbox" {
		t.Errorf("the focus is at %q", at)
	}
}

// Many events lead to few requests: the page collects changes for at most 150 ms, and then
// requests them once: WC-A8.
func TestChromeManyEvents(t *testing.T) {
	g := start(t, full)
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/sessions")
	p.until(`document.querySelector('tbody tr')`)
	// The answer is immediate, so only the page itself can delay its requests.
	p.eval(`window.asked = 0; window.waits = 0; window.began = performance.now(); window.fetch = (real => (url, init) => {
		if (String(url).endsWith('/inbox')) window.waits++
		if (!String(url).endsWith('/sessions')) return real(url, init)
		window.asked++
		return Promise.resolve(new Response('[]'))
	})(window.fetch)`)
	for range 200 { // 100,000 events in all
		for range 500 {
			g.ring.add(thing{kind: "session", id: "x"})
		}
		p.until(`true`)
	}
	g.ring.add(thing{kind: "approval", id: "last"}) // makes the page request the inbox
	p.until(`window.waits > 0`)
	if most, asked := value[float64](p, `(performance.now() - window.began) / 150 + 2`), value[int](p, `window.asked`); asked == 0 || float64(asked) > most {
		t.Errorf("%d requests for 100,000 events, want at most %.0f", asked, most)
	}
	p.until(`document.querySelector('.state.live')`)
}

// While an answer is slow, changes are collected, and are requested once when the answer
// has arrived: WC-A8.
func TestChromeSlowAnswers(t *testing.T) {
	g := start(t, full)
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/sessions")
	p.until(`document.querySelector('tbody tr')`)
	p.eval(`window.asked = 0; window.heard = 0; window.fetch = (real => (url, init) => {
		if (String(url).endsWith('/inbox')) window.heard++
		if (!String(url).endsWith('/sessions')) return real(url, init)
		window.asked++
		return new Promise(f => { window.go = () => f(new Response('[]')) })
	})(window.fetch)`)
	for i := range 5 {
		g.ring.add(thing{kind: "session", id: "x"})
		g.ring.add(thing{kind: "approval", id: "x"}) // makes the page request the inbox
		p.until(fmt.Sprintf(`window.heard > %d`, i))
	}
	if asked := value[int](p, `window.asked`); asked != 1 {
		t.Errorf("%d requests wait for an answer, want 1", asked)
	}
	p.eval(`window.go()`)
	p.until(`window.asked === 2`)
	p.eval(`window.go()`)
	p.until(`document.querySelectorAll('tbody tr').length === 0`)
}

// A program that writes a megabyte per second does not fill the page: WC8, WC-A7.
func TestChromeLargeOutput(t *testing.T) {
	out := &runs{output: bytes.Repeat([]byte("\x1b[32mok\x1b[0m 0123456789 0123456789 0123456789\n"), 200_000)}
	out.output = append(out.output, strings.Repeat("x", 5<<20)+strings.Repeat("\n1", 60_000)+"\nend of it\n"...)
	g := start(t, full, func(_ *rig, v *Views) { v.Runs = out })
	p := g.open(chrome(t))
	p.login(Viewer)
	must(t)(chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{}))
	p.at("#/jobs/s-1/3")
	p.until(`document.querySelector('.output').innerText.includes('end of it')`)
	bound := fmt.Sprintf(`document.querySelectorAll('.lines-out div').length <= 2000 && document.querySelector('.lines-out').textContent.length <= %d`, 80<<10)
	if !value[bool](p, bound) {
		t.Error("the page keeps too much of the output")
	}
	for range 20 {
		p.eval(`[...document.querySelectorAll('.page button')].find(b => b.textContent === 'Earlier').click()`)
		p.until(`!document.querySelector('[aria-busy]')`)
		if !value[bool](p, bound) {
			t.Fatal("the page keeps too much of the output")
		}
	}
	got, err := chromedp.Call(p.ctx, performance.GetMetrics, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Metrics {
		if m.Name == "JSHeapUsedSize" {
			if t.Logf("heap: %.1f MiB", m.Value/(1<<20)); m.Value > 80<<20 {
				t.Errorf("the heap has %.0f bytes", m.Value)
			}
		}
	}
}

// A page that follows a program keeps the end of its output, whether it is in many lines or
// in one: WC-A7.
func TestChromeGrowingOutput(t *testing.T) {
	for what, line := range map[string]string{"one line": "0123456789", "long lines": strings.Repeat("0123456789", 500) + "\n"} {
		out := &growing{}
		g := start(t, full, func(_ *rig, v *Views) { v.Runs = out })
		p := g.open(chrome(t))
		p.login(Viewer)
		p.at("#/jobs/s-1/3")
		p.until(`document.querySelector('.output')`)
		for i := range 8 {
			mark := fmt.Sprintf("(%d)", i)
			out.write(30_000, line)
			out.write(len(mark), mark)
			p.until(`document.querySelector('.lines-out').textContent.includes(` + quote(mark) + `)`)
			if size := value[int](p, `document.querySelector('.lines-out').textContent.length`); size > 80<<10 {
				t.Fatalf("%s: the page keeps %d characters", what, size)
			}
		}
	}
}

// If a program writes faster than the page reads, the page that follows it skips the middle
// of the output, and soon shows the end: WC8, WC-A8.
func TestChromeFastOutput(t *testing.T) {
	out := &growing{}
	out.write(10, "0123456789\n")
	g := start(t, full, func(_ *rig, v *Views) { v.Runs = out })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/jobs/s-1/3")
	p.until(`document.querySelector('.lines-out').textContent.includes('0123456789')`)
	out.write(8<<20, strings.Repeat("0123456789", 6)+"\n") // to read this in parts would take more than a minute
	out.write(8, "the end\n")
	p.until(`document.querySelector('.lines-out').textContent.includes('the end')`)
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := 0
	for _, url := range p.sent {
		if strings.Contains(url, "/output?") {
			parts++
		}
	}
	if parts > 8 {
		t.Errorf("%d parts were read", parts)
	}
}

// The page loads only the console's own files, and loads them once: WC26.
func TestChromeRequests(t *testing.T) {
	g := start(t, full)
	p := g.open(chrome(t))
	p.login(Viewer)
	p.mu.Lock()
	defer p.mu.Unlock()
	static := 0
	for _, url := range p.sent {
		if strings.Contains(url, "/assets/") {
			static++
		}
	}
	if static != 2 {
		t.Errorf("%d files were asked for, want the script and the style sheet once", static)
	}
}

// A page requests what it shows once, and again when it changes: WC26.
func TestChromeAsksOnce(t *testing.T) {
	g := start(t, full)
	browser := chrome(t)
	before := g.open(browser)
	before.login(Viewer) // makes the server look at its state once
	g.ask("rm x")
	g.Look()
	before.until(`document.querySelector('.badge').textContent === '1'`)
	p := g.open(browser)
	p.visit(g.URL())
	p.until(`document.querySelector('.state.live') && document.querySelector('.tile strong')?.textContent === '1'`)
	g.ask("rm y")
	g.Look()
	p.until(`document.querySelector('.tile strong').textContent === '2'`)
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := make(map[string]int)
	for _, url := range p.sent {
		if name, ok := strings.CutPrefix(url, g.URL()+api); ok {
			asked[name]++
		}
	}
	if want := map[string]int{"me": 1, "stats": 1, "boxes": 1, "sessions": 1, "jobs": 1, "inbox": 2}; !maps.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}
