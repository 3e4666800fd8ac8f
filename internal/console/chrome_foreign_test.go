package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	chromelog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"

	"belljar.dev/internal/people/approval"
)

// foreignPage is a page on a port that an agent has published. It tries everything that a
// page can do to a server on another port of its host. It cannot read the person's token,
// so it sends a guessed token or none. The arguments are %[1]s, the URL of the console,
// %[2]s, the path of an approval, %[3]s, the path of the files, and %[4]s, the version of
// the approval, which a real attacker would not know.
const foreignPage = `<!doctype html><title>foreign</title><body><script>
const at = %[1]q, answer = at + %[2]q, done = [];
document.cookie = 'belljar=1; path=/';
for (let i = 0; i < 30; i++) document.cookie = 'c' + i + '=' + 'x'.repeat(300) + '; path=/';
const body = JSON.stringify({yes: true, version: %[4]q});
const tries = {
  read: () => fetch(at + 'api/v1/me', {credentials: 'include'}).then(r => r.text()),
  page: () => fetch(at, {credentials: 'include'}).then(r => r.text()),
  header: () => fetch(at + 'api/v1/me', {headers: {Authorization: 'Bearer guess'}}).then(r => r.text()),
  blind: () => fetch(answer, {method: 'POST', mode: 'no-cors', credentials: 'include', body}).then(r => r.type + r.status),
  json: () => fetch(answer, {method: 'POST', headers: {'Content-Type': 'application/json'}, body}).then(r => r.text()),
  beacon: () => Promise.resolve(navigator.sendBeacon(answer, body)).then(() => ''),
  socket: () => new Promise((yes, no) => { const s = new WebSocket(at.replace('http', 'ws') + 'api/v1/events'); s.onopen = () => yes('open'); s.onerror = () => no('refused') }),
  stream: () => new Promise((yes, no) => { const s = new EventSource(at + 'api/v1/events'); s.onmessage = e => yes(e.data); s.onerror = () => { s.close(); no('refused') } }),
  image: () => new Promise((yes, no) => { const i = new Image(); i.onload = () => yes('loaded'); i.onerror = () => no('refused'); i.src = at + 'api/v1/me' }),
  script: () => new Promise((yes, no) => { const s = document.createElement('script'); s.onload = () => yes('loaded'); s.onerror = () => no('refused'); s.src = at + %[3]q + 'main.js'; document.body.append(s) }),
  style: () => new Promise((yes, no) => { const s = document.createElement('link'); s.rel = 'stylesheet'; s.onload = () => yes('loaded'); s.onerror = () => no('refused'); s.href = at + %[3]q + 'style.css'; document.body.append(s) }),
  prefetch: () => { const l = document.createElement('link'); l.rel = 'prefetch'; l.href = at + 'api/v1/inbox'; document.head.append(l); return Promise.resolve('') },
  frame: () => new Promise((yes, no) => {
    const f = document.createElement('iframe'); f.src = at; f.onload = () => { try { yes(f.contentDocument.body.textContent) } catch (e) { no('refused') } }; document.body.append(f)
  }),
  opened: () => {
    const w = window.open(at, 'console')
    if (!w) return Promise.resolve('')
    w.postMessage({token: 'guess'}, '*')
    try { return Promise.resolve(w.document.body.textContent || '') } catch (e) { return Promise.reject('refused') }
  },
  form: () => { const f = document.createElement('form'); f.method = 'post'; f.action = answer; f.enctype = 'text/plain'; f.target = 'sink'
    const i = document.createElement('input'); i.name = '{"yes":true,"version":"' + %[4]q + '","note":"'; i.value = '"}'; f.append(i)
    const s = document.createElement('iframe'); s.name = 'sink'; document.body.append(s, f); f.submit(); return Promise.resolve('') },
};
window.results = {};
Promise.all(Object.entries(tries).map(([name, f]) => f().then(v => { window.results[name] = 'got ' + v }, e => { window.results[name] = 'refused' }))).then(() => { window.over = true });
</script>`

// assetsOf returns the directory of a console's files, as its page names it.
func assetsOf(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	dir := regexp.MustCompile(`assets/[0-9a-f]+/`).Find(page)
	if err != nil || dir == nil {
		t.Fatalf("the page names no file: %v, %s", err, page)
	}
	return string(dir)
}

// A page on another port of this host, for example a port that an agent has published, can
// neither read from the console nor do anything there: WC-A9, WC-A21. A person is logged in
// with the same browser.
func TestChromeForeignPort(t *testing.T) {
	g := start(t, full)
	browser := chrome(t)
	a := g.ask("rm x")
	own := g.open(browser)
	own.login(Operator)
	var mu sync.Mutex
	var heard []string // requests that browsers sent to the foreign server
	text := fmt.Sprintf(foreignPage, g.URL(), "api/v1/approvals/"+a.ID+"/answer", assetsOf(t, g.URL()), a.Version())
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		heard = append(heard, r.Header.Get("Authorization")+r.Header.Get("Referer"))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(text))
	}))
	defer foreign.Close()
	ctx, cancel := chromedp.NewContext(browser)
	defer cancel()
	frames := visitForeign(ctx, t, foreign.URL+"/")
	if len(frames) == 0 || !strings.Contains(frames[0], "frame-ancestors 'none'") {
		t.Errorf("what the browser says of the frame: %q", frames)
	}
	results, err := chromedp.Run(ctx, chromedp.Evaluate[map[string]string](`window.results`))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 15 {
		t.Errorf("%d attempts have ended: %v", len(results), results)
	}
	for name, got := range results {
		switch got {
		case "refused", "got ", "got opaque0", "got false":
		default:
			t.Errorf("%s: %.200s", name, got)
		}
	}
	if now, err := g.approvals.Get(t.Context(), a.ID); err != nil || now.State != approval.Pending {
		t.Errorf("the approval is %s, %v", now.State, err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, text := range heard {
		if strings.Contains(text, "Bearer") || strings.Contains(text, g.URL()) {
			t.Errorf("the foreign server was sent %q", text)
		}
	}
	own.until(`document.querySelector('.state.live')`) // the person's own page still works
}

// visitForeign opens a page, and waits until it has tried everything. It returns the
// messages of the browser about frames.
func visitForeign(ctx context.Context, t *testing.T, url string) (frames []string) {
	t.Helper()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	p := &tab{ctx: ctx, t: t}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		t.Fatal(err)
	}
	must(t)(chromedp.Call(ctx, chromelog.Enable, struct{}{}))
	p.visit(url)
	p.until(`window.over`)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if strings.Contains(f, "raming") {
			frames = append(frames, f)
		}
	}
	return frames
}

// However many cookies a page on another port sets, no request for data contains them. So
// they cannot stop a page of the console from working: WC-A10.
func TestChromeCookieBomb(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><title>foreign</title><script>
			for (const name of ['belljar', 'token', '__Host-belljar']) document.cookie = name + '=planted; path=/'
			for (let i = 0; i < 100; i++) document.cookie = 'c' + i + '=' + 'x'.repeat(4000) + '; path=/'
			window.size = document.cookie.length
			window.over = true
		</script>`)
	}))
	defer foreign.Close()
	browser := chrome(t)
	g := start(t, full)
	p := g.open(browser)
	p.login(Approver)
	ctx, cancel := chromedp.NewContext(browser)
	defer cancel()
	visitForeign(ctx, t, foreign.URL+"/")
	if size := value[int](p, `document.cookie.length`); size < 100_000 {
		t.Fatalf("the page of the console has %d bytes of cookies; the other page has set too few", size)
	}
	a := g.ask("git push")
	g.Look()
	p.until(`document.querySelector('.badge').textContent === '1'`)
	p.at("#/inbox/approval/" + a.ID)
	p.sure("No")
	p.until(`window.told === '#/inbox'`)
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Declined {
		t.Errorf("after the answer: %+v", is)
	}
}

// earlierPage is a page that an agent serves on the port of a console before the console
// runs. It leaves everything in the browser that stays there when a page is closed. Its
// service worker sees each request of a later page.
const earlierPage = `<!doctype html><title>earlier</title><script>
(async () => {
  localStorage.setItem('token', 'planted')
  const cache = await caches.open('planted')
  await cache.put('/x', new Response('planted'))
  await new Promise(done => { const db = indexedDB.open('planted'); db.onsuccess = done })
  await navigator.serviceWorker.register('worker.js')
  await navigator.serviceWorker.ready
  window.over = true
})()
</script>`

// A program that used the port earlier may have left a service worker, storage and caches
// in the browser. A login removes them: WC-A29.
func TestChromeEarlierServer(t *testing.T) {
	earlier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, text := "text/html; charset=utf-8", earlierPage
		if r.URL.Path == "/worker.js" {
			kind, text = "text/javascript", `self.addEventListener('fetch', e => e.respondWith(fetch(e.request)))`
		}
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}))
	defer earlier.Close()
	browser := chrome(t)
	ctx, cancel := chromedp.NewContext(browser)
	defer cancel()
	visitForeign(ctx, t, earlier.URL+"/")
	earlier.Close()

	serving, end := context.WithCancel(t.Context())
	g, done := serveAt(serving, t, earlier.Listener.Addr().String())
	t.Cleanup(func() {
		end()
		<-done
	})
	p := g.open(browser)
	const left = `(async () => [(await navigator.serviceWorker.getRegistrations()).length, localStorage.length, (await caches.keys()).length, (await indexedDB.databases()).length].join(' '))()`
	p.visit(g.URL())
	p.until(`document.querySelector('.login')`)
	if got := value[string](p, left, chromedp.EvalAwaitPromise); got != "1 1 1 1" {
		t.Fatalf("before the login there are service workers, stored items, caches and databases: %s", got)
	}
	p.login(Viewer)
	if got := value[string](p, left, chromedp.EvalAwaitPromise); got != "0 0 0 0" {
		t.Errorf("behind the login there are service workers, stored items, caches and databases: %s", got)
	}
}
