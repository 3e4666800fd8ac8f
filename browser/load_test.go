package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

const app = `<!doctype html><title>App</title><div id=root></div><script>
fetch("/data").then(r => r.json()).then(d => {
  document.getElementById("root").innerHTML = d.map(x => "<p class=item>item " + x + "</p>").join("");
});</script>`

func (r *rig) serveApp() {
	r.page("/app", app)
	r.mux.HandleFunc("/data", func(w http.ResponseWriter, _ *http.Request) {
		items := make([]string, 100)
		for i := range items {
			items[i] = fmt.Sprint(i)
		}
		fmt.Fprintf(w, "[%s]", strings.Join(items, ","))
	})
}

func TestLoad(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.serveApp()
	r.page("/plain", `<!doctype html><html lang=de><title>Plain &amp; simple</title><p>Grüße`)
	r.mux.Handle("/hop", http.RedirectHandler("/hop2", http.StatusFound))
	r.mux.Handle("/hop2", http.RedirectHandler("/plain", http.StatusMovedPermanently))
	r.page("/hidden", `<!doctype html><p>seen</p><p style="display:none">none</p><p style="visibility:hidden">vis</p>
		<p style="opacity:0">opa</p><p style="position:absolute;left:-9999px">off</p><p style="color:white;background:white">white</p>
		<span style="position:absolute;width:1px;height:1px;overflow:hidden">tiny</span><p style="font-size:0">zero</p>`)
	r.page("/blends", `<!doctype html><style>body{background:#fff;color:#222}.n{color:#fff}.m{color:#fefefe}.dark{background:#000;color:#fff}.pic{background:linear-gradient(#000,#000)}
		.hero{position:relative;height:80px}.hero i{position:absolute;inset:0;background:#000}.hero b{position:relative;color:#fff}.before::before{content:"";position:absolute;inset:0;background:#000}</style>
		<p>seen</p><p class=n>blended</p><div><div><p class=m>almost</p></div></div><div class=dark><p>on black</p></div><div class=pic><p class=n>on a picture</p></div>
		<div class=hero><i></i><b>on a layer</b></div><div class="hero before"><b>on a layer before</b></div>
		<div class=hero><img style="position:absolute;inset:0;width:99%;height:80px" src="data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>"><b>on an image</b></div>`)
	r.page("/shadow", `<!doctype html><div id=h><b slot=a>given</b></div><script>
		const s = h.attachShadow({mode: "open"}); s.innerHTML = "<p>in the shadow</p><slot name=a></slot><slot name=b>fallback</slot>";</script>
		<iframe srcdoc="<p>framed <a href='/x'>link</a></p>"></iframe>`)
	r.page("/timer", `<!doctype html><div id=d>early</div><script>setTimeout(() => d.textContent = "late", 400)</script>`)
	r.page("/refresh", `<!doctype html><meta http-equiv=refresh content="0;url=/plain"><p>old`)
	r.page("/refresh-slowly", `<!doctype html><meta http-equiv=refresh content="0;url=/slow"><p>old`)
	r.mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		testenv.Delay(q.Context(), 300*time.Millisecond)
		http.Redirect(w, q, "/plain", http.StatusFound)
	})
	r.page("/js", `<!doctype html><script>location.href = "/app"</script><p>old`)
	r.page("/lazy", `<!doctype html><div id=d style="height:3000px">top</div><div id=end></div><script>
		let n = 0; new IntersectionObserver(es => { if (es[0].isIntersecting && n < 3) { n++; d.insertAdjacentHTML("beforeend", "<p>more " + n + "</p>"); } }).observe(end);</script>`)
	t.Run("plain", func(t *testing.T) {
		l := r.must(browser.Request{URL: r.url("/plain")})
		if l.Status != 200 || l.Title != "Plain & simple" || !strings.Contains(l.HTML, "Grüße") || l.ContentType != "text/html" || l.URL != r.url("/plain") || l.Partial != "" || l.Degraded || !l.Timing.Cold {
			t.Errorf("got %+v", l)
		}
	})
	t.Run("redirects", func(t *testing.T) {
		l := r.must(browser.Request{URL: r.url("/hop")})
		if len(l.Redirects) != 2 || l.Redirects[0].Status != 302 || l.Redirects[1].To != r.url("/plain") || l.URL != r.url("/plain") || l.Timing.Cold {
			t.Errorf("got %+v", l)
		}
	})
	for _, tt := range []struct {
		name     string
		req      browser.Request
		want     []string
		unwanted []string
	}{
		{"app", browser.Request{URL: "/app"}, []string{"item 0<", "item 99<"}, []string{"<script"}},
		{"selector", browser.Request{URL: "/app", Until: browser.UntilDOM, Selector: ".item:nth-child(100)"}, []string{"item 99<"}, nil},
		{"hidden", browser.Request{URL: "/hidden"}, []string{
			"<p>seen", `<p style="display:none" data-belljar-hidden="display">none`, `data-belljar-hidden="visibility">vis`, `data-belljar-hidden="opacity">opa`,
			`data-belljar-hidden="off-screen">off`, `data-belljar-hidden="colour">white`, `data-belljar-hidden="clipped">tiny`, `data-belljar-hidden="font-size">zero`,
		}, nil},
		{"blends", browser.Request{URL: "/blends"}, []string{
			"<p>seen", `<p class="n" data-belljar-hidden="colour">blended`, `<p class="m" data-belljar-hidden="colour">almost`,
			"<p>on black", `<p class="n">on a picture`, "<b>on a layer", "<b>on a layer before", "<b>on an image",
		}, nil},
		{"flat", browser.Request{URL: "/shadow"}, []string{"in the shadow", "given", "fallback", "framed", `href="http://site.example`}, []string{"<iframe", "<template"}},
		{"wait", browser.Request{URL: "/timer", Wait: 600 * time.Millisecond}, []string{"late"}, nil},
		{"refresh", browser.Request{URL: "/refresh"}, []string{"Grüße"}, []string{"old"}},
		{"refresh slowly", browser.Request{URL: "/refresh-slowly"}, []string{"Grüße"}, []string{"old"}},
		{"by script", browser.Request{URL: "/js"}, []string{"item 99<"}, []string{"old"}},
		{"scroll", browser.Request{URL: "/lazy", Scrolls: 10}, []string{"more 1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.URL = r.url(tt.req.URL)
			l := r.must(tt.req)
			for _, want := range tt.want {
				if !strings.Contains(l.HTML, want) {
					t.Errorf("%q is missing in %s", want, l.HTML)
				}
			}
			for _, unwanted := range tt.unwanted {
				if strings.Contains(l.HTML, unwanted) {
					t.Errorf("%q is in %s", unwanted, l.HTML)
				}
			}
			if l.Partial != "" {
				t.Errorf("partial: %s", l.Partial)
			}
			t.Logf("%+v", l.Timing)
		})
	}
	t.Run("picture", func(t *testing.T) {
		l := r.must(browser.Request{URL: r.url("/plain"), Shot: &browser.Shot{}})
		if !strings.HasPrefix(string(l.Picture), "\x89PNG") {
			t.Errorf("got %d bytes", len(l.Picture))
		}
		l = r.must(browser.Request{URL: r.url("/lazy"), Shot: &browser.Shot{Full: true, JPEG: 80, Width: 400, Height: 300}})
		if !strings.HasPrefix(string(l.Picture), "\xff\xd8\xff") {
			t.Errorf("got %d bytes", len(l.Picture))
		}
	})
}
