package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/sandbox"
)

// TestSchemes checks that a call loads nothing but http and https as its page, and that no
// page reaches a file of its box or one of Chrome's own pages in any way. Each file and
// data: page here requests an allowed address as soon as it is shown, and in a Chrome
// without walls it does so.
func TestSchemes(t *testing.T) {
	if !inWorld(t) {
		return
	}
	w := newWorld(t, browser.Config{Slots: 4})
	g := w.grant("t", "")
	w.dns.set("shown.example", "93.184.216.35")
	w.dns.set("site.example", "93.184.216.34")
	shown := func() int { return len(w.at(number("93.184.0.0", 216<<8|35))) }
	const telltale = `<!doctype html><img src="http://shown.example/hit/">`
	file := filepath.Join(t.TempDir(), "x.html")
	if err := os.WriteFile(file, []byte(telltale), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"file://" + file, "data:text/html," + telltale} {
		before := shown()
		if !w.bare(url, func() bool { return shown() > before }) {
			t.Errorf("%s shows nothing without walls, so this test shows nothing", url)
		}
	}
	before := shown()
	for _, url := range []string{
		"file:///tmp/x.html", "FILE:///tmp/x.html", " file:///tmp/x.html", "\tfile:///tmp/x.html", "fi\nle:///tmp/x.html", "file:/tmp/x.html", "file:tmp/x.html", "//tmp/x.html", "/tmp/x.html",
		"view-source:file:///tmp/x.html", "view-source:http://shown.example/", "filesystem:http://site.example/temporary/x", "blob:http://site.example/0", "blob:null/0",
		"data:text/html," + telltale, "javascript:location='http://shown.example/hit/'", "chrome://version", "chrome://inspect", "devtools://devtools/bundled/inspector.html",
		"chrome-extension://a/b", "chrome-untrusted://print", "about:blank", "ftp://shown.example/", "ws://shown.example/", "intent://shown.example/#Intent;end", "http:shown.example/hit/", "http:/shown.example/hit/",
		`http:\\shown.example/hit/`, "http://shown.example\x00@site.example/", "http://site.example@shown.example/hit/", "http://", "",
	} {
		if l, err := w.load(g, browser.Request{URL: url}); browser.KindOf(err) != browser.KindRefused {
			t.Errorf("%q: got %+v, %v; want a refusal", url, l, err)
		}
	}
	w.page("site.example/", "<!doctype html><p>x")
	if _, err := w.load(g, browser.Request{URL: "http://site.example/"}); err != nil {
		t.Fatal(err)
	}
	b := w.sup.Boxes()[0]
	if r, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Shell: "cat >/tmp/x.html", In: strings.NewReader(telltale), Timeout: 10 * time.Second}); err != nil || r.Code != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	w.redirect("site.example/file", "file:///tmp/x.html")
	w.redirect("site.example/data", "data:text/html,"+telltale)
	ways := map[string]string{
		"frame": `<iframe src="{URL}"></iframe>`, "object": `<object data="{URL}" type="text/html"></object>`, "embed": `<embed src="{URL}" type="text/html">`,
		"fetch":    inline(`fetch("{URL}").then(r => r.text()).then(x => document.body.innerHTML += x).catch(() => {})`),
		"XHR":      inline(`const x = new XMLHttpRequest(); x.onload = () => document.body.innerHTML += x.response; x.open("GET", "{URL}"); x.send()`),
		"location": inline(`location = "{URL}"`), "replace": inline(`location.replace("{URL}")`), "refresh": `<meta http-equiv=refresh content="0;url={URL}">`,
		"pop-up": inline(`open("{URL}")`), "link": `<a id=a href="{URL}">x</a>` + inline(`a.click()`), "form": `<form id=f action="{URL}"></form>` + inline(`f.submit()`),
		"worker": inline(`try { new Worker("{URL}") } catch {}`), "script": `<script src="{URL}"></script>`, "style": `<link rel=stylesheet href="{URL}">`,
	}
	urls := []string{"file:///tmp/x.html", "view-source:file:///tmp/x.html", "http://site.example/file", "chrome://version"}
	var wg sync.WaitGroup
	for name, html := range ways {
		wg.Go(func() {
			for i, url := range urls {
				path := "site.example/" + name + string(rune('a'+i))
				w.page(path, "<!doctype html><title>t</title><p>x"+strings.ReplaceAll(html, "{URL}", url))
				l, err := w.load(g, browser.Request{URL: "http://" + path, Wait: 50 * time.Millisecond, Timeout: 6 * time.Second})
				if err != nil {
					continue
				}
				if strings.Contains(l.HTML, "shown.example") || !strings.HasPrefix(l.URL, "http://site.example/") {
					t.Errorf("%s of %s: %s %s", name, url, l.URL, l.HTML)
				}
			}
		})
	}
	wg.Wait()
	for _, path := range []string{"file", "data"} {
		if l, err := w.load(g, browser.Request{URL: "http://site.example/" + path}); err == nil {
			t.Errorf("a redirect to %s: a page: %+v", path, l)
		}
	}
	if n := shown() - before; n > 0 {
		t.Errorf("%d pages of other schemes were shown", n)
	}
	t.Logf("%d ways of a page to %d addresses", len(ways), len(urls))
}
