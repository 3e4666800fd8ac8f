package browser_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// TestLooksAgain checks that a page is read out as it is after it has settled, and not as
// it was at its load event: changes by its own listeners of that event are made after the
// look ahead.
func TestLooksAgain(t *testing.T) {
	r := newRig(t, browser.Config{})
	const hidden = "data-belljar-hidden"
	for _, tt := range []struct{ name, html, want, unwanted string }{
		{"nothing", `<p hidden>x</p>`, hidden, ""},
		{"attribute", `<p id=p hidden>x</p><script>onload = () => { p.hidden = false }</script>`, "<p id=\"p\">x", hidden},
		{"class", `<style>p { display: none } .on p { display: block }</style><p>x</p><script>onload = () => { document.body.className = "on" }</script>`, "<p>x", hidden},
		{"text", `<p id=p>before</p><script>onload = () => { p.firstChild.data = "after" }</script>`, "after", "before"},
		{"element", `<div id=d></div><script>onload = () => { d.innerHTML = "<p>after" }</script>`, "<p>after", ""},
		{"shadow", `<div id=d></div><script>const s = d.attachShadow({mode: "open"}); s.innerHTML = "<p>before"; onload = () => { s.innerHTML = "<p>after" }</script>`, "<p>after", "before"},
		{"frame", `<iframe id=f srcdoc="<p>before"></iframe><script>onload = () => { f.contentDocument.body.innerHTML = "<p>after" }</script>`, "<p>after", "before"},
		{"fading", `<style>@keyframes in { from { opacity: 0 } } p { animation: in 1s }</style><p>x</p>`, "<p>x", hidden},
		{"unseen", `<style>@keyframes in { from, to { opacity: 0 } } p { animation: in 1s infinite }</style><p>x</p>`, hidden, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.page("/"+tt.name, "<!doctype html><title>t</title>"+strings.Repeat("<h1>Enough to read.</h1>", 5)+tt.html)
			l := r.must(browser.Request{URL: r.url("/" + tt.name)})
			if !strings.Contains(l.HTML, tt.want) || tt.unwanted != "" && strings.Contains(l.HTML, tt.unwanted) {
				t.Errorf("want %q and not %q in %s", tt.want, tt.unwanted, l.HTML)
			}
		})
	}
	t.Run("rewritten", func(t *testing.T) {
		// document.open removes the listeners of the document.
		r.mux.HandleFunc("/late.png", func(_ http.ResponseWriter, q *http.Request) { testenv.Delay(q.Context(), 300*time.Millisecond) })
		r.page("/rewritten", `<!doctype html><title>t</title><p>before<img src=/late.png><script>setTimeout(() => { document.open(); document.write("<p>after"); document.close() }, 50)</script>`)
		if l := r.must(browser.Request{URL: r.url("/rewritten")}); !strings.Contains(l.HTML, "<p>after") || l.Partial != "" {
			t.Errorf("partial %q: %s", l.Partial, l.HTML)
		}
	})
	t.Run("address", func(t *testing.T) {
		r.page("/address", `<!doctype html><title>t</title><p>Enough to read.<script>onload = () => history.replaceState(null, "", "/else")</script>`)
		if l := r.must(browser.Request{URL: r.url("/address")}); l.URL != r.url("/else") {
			t.Errorf("got %s", l.URL)
		}
	})
}
