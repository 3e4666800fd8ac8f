package browser_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
)

// TestIntercept checks that, if the door decrypts TLS, pages load as usual and the door
// still verifies their servers. If it does not, Chrome verifies them with its own roots,
// which do not contain the authority of these servers.
func TestIntercept(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 2})
	for _, name := range []string{"site.example", "cdn.example", "bad.example", "forged.example"} {
		w.dns.set(name, "93.184.216.34")
		w.page(name+"/", `<!doctype html><title>t</title><p id=p>served<p>`+
			inline(`fetch("https://cdn.example/data").then(r => r.text()).then(x => p.textContent += x, e => p.textContent += e)`))
	}
	w.file("cdn.example/data", "text/plain", " with data", "Access-Control-Allow-Origin: *")
	opened, passed := w.grant("opened", intercepted), w.grant("passed", "")

	l, err := w.load(opened, browser.Request{URL: "https://site.example/"})
	if err != nil || l.Status != 200 || !strings.Contains(l.HTML, "served with data") {
		t.Errorf("a page with TLS that is opened: %+v, %v", l, err)
	}
	for _, name := range []string{"bad.example", "forged.example"} {
		l, err = w.load(opened, browser.Request{URL: "https://" + name + "/"})
		if err != nil || l.Status != 502 || strings.Contains(l.HTML, "served") || !strings.Contains(l.HTML, "x509: certificate") {
			t.Errorf("the door at a server with a bad certificate, %s: %+v, %v", name, l, err)
		}
	}
	for _, name := range []string{"site.example", "bad.example", "forged.example"} {
		l, err = w.load(passed, browser.Request{URL: "https://" + name + "/"})
		if browser.KindOf(err) != browser.KindBadTLS {
			t.Errorf("Chrome at a server that nobody vouches for, %s: %+v, %v", name, l, err)
		}
	}
}

// TestTrustedKey checks that Chrome is told to trust a key and not an authority. An
// authority would work for anyone who shows its certificate, since the certificate is
// public and Chrome checks nothing else.
func TestTrustedKey(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 1})
	g := w.grant("t", intercepted)
	w.dns.set("site.example", "93.184.216.34")
	w.dns.set("forged.example", "93.184.216.35")
	believed, refused := make(chan bool, 64), make(chan bool, 64)
	w.pageThen("forged.example/", "x", func() { believed <- true })
	w.pageThen("site.example/refused", "x", func() { refused <- true })
	w.page("site.example/", inline(`fetch("https://forged.example/", {mode: "no-cors"}).catch(() => fetch("/refused"))`))
	if _, err := w.load(g, browser.Request{URL: "https://site.example/"}); err != nil {
		t.Fatal(err)
	}
	boxes := w.sup.Boxes()
	if len(boxes) != 1 || boxes[0].Pin() == "" || boxes[0].Pin() == w.pin {
		t.Fatalf("%d boxes, want one with a key", len(boxes))
	}
	for _, tt := range []struct {
		name, key string
		want      chan bool
	}{
		{"the authority's key", w.pin, believed},
		{"the key of the box", boxes[0].Pin(), refused},
	} {
		if !w.bare("http://site.example/", func() bool { return len(tt.want) > 0 }, "--ignore-certificate-errors-spki-list="+tt.key) {
			t.Errorf("%s is trusted: %d believed and %d refused chains with the authority in them, not signed by it", tt.name, len(believed), len(refused))
		}
		for _, c := range []chan bool{believed, refused} {
			for len(c) > 0 {
				<-c
			}
		}
	}
	other := w.grant("u", intercepted)
	if _, err := w.load(other, browser.Request{URL: "https://site.example/"}); err != nil {
		t.Fatal(err)
	}
	var pins []string
	for _, b := range w.sup.Boxes() {
		pins = append(pins, b.Pin())
	}
	if slices.Sort(pins); len(slices.Compact(pins)) != 2 {
		t.Errorf("two Chromes trust %q, want a key for each", pins)
	}
}

// TestWorkersEnd checks that workers without end are ended with their call, and that they
// answer no later call of the same tenant.
func TestWorkersEnd(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 2})
	g := w.grant("t", intercepted)
	w.dns.set("site.example", "93.184.216.34")
	w.dns.set("beat.example", "93.184.216.35")
	beat := number("93.184.0.0", 216<<8|35)
	const beating = `const go = () => fetch("https://beat.example/hit/", {mode: "no-cors"}).catch(() => {}).then(() => new Promise(r => setTimeout(r, 100))).then(go);`
	for name, text := range map[string]string{
		"service": `onfetch = e => e.respondWith(new Response("from the worker")); oninstall = () => skipWaiting();
onactivate = e => { clients.claim(); e.waitUntil(go()) }; onmessage = e => e.waitUntil(go())`,
		"shared": `go()`, "plain": `go()`,
	} {
		w.file("site.example/"+name+".js", "text/javascript", beating+text)
	}
	for name, html := range map[string]string{
		"service": `<script>navigator.serviceWorker.register("/service.js").then(() => navigator.serviceWorker.ready).then(r => r.active.postMessage("go"))</script>`,
		"shared":  `<script>new SharedWorker("/shared.js")</script>`,
		"plain":   `<script>new Worker("/plain.js")</script>`,
		"still":   ``,
	} {
		w.page("site.example/"+name, "<!doctype html><title>t</title><p>"+name+html)
	}
	still := func(wait time.Duration) *browser.Loaded {
		t.Helper()
		l, err := w.load(g, browser.Request{URL: "https://site.example/still", Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, name := range []string{"service", "shared", "plain"} {
		before := len(w.at(beat))
		for wait := 500 * time.Millisecond; len(w.at(beat)) == before && wait < 10*time.Second; wait *= 3 {
			if _, err := w.load(g, browser.Request{URL: "https://site.example/" + name, Wait: wait}); err != nil {
				t.Fatal(err)
			}
		}
		during := len(w.at(beat)) - before
		if l := still(300 * time.Millisecond); !strings.Contains(l.HTML, "<p>still") {
			t.Errorf("%s: a worker of the call before answered: %s", name, l.HTML)
		}
		ended := len(w.at(beat))
		still(time.Second)
		after := len(w.at(beat)) - ended
		if during == 0 || after > 0 {
			t.Errorf("%s worker: %d requests while its page was loaded, %d after that", name, during, after)
		}
		t.Logf("%-8s worker: %d requests during its call, %d after it", name, during, after)
	}
}
