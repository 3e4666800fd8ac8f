package reader_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/browser/browsertest"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/golden"
	"belljar.dev/internal/testenv"
)

// drawn contains pages that are empty, or something else, without a browser. Each must
// become the text of its golden file, or the refusal in it.
var drawn = []struct {
	name string
	html string // HTML of the page
	q    reader.Query
}{
	{name: "spa", html: `<title>App</title><div id="app"></div><script>
		fetch("/data.json").then(r => r.json()).then(all => { app.innerHTML = "<main><h1>Items</h1><ul>" + all.map(x => "<li>" + x.name + ": <code>" + x.code + "</code></li>").join("") + "</ul></main>"; })</script>`},
	{name: "chain", html: `<title>Chain</title><div id="root">Loading...</div><script>(async () => {
		let next = "/step/1", text = ""; while (next) { const s = await (await fetch(next)).json(); text += "<p>" + s.text + "</p>"; next = s.next; } root.innerHTML = "<h1>Chain</h1>" + text; })()</script>`},
	{name: "timer", html: `<title>Timer</title><div id="root"></div><script>setTimeout(() => root.innerHTML = "<h1>Timer</h1><p>Drawn after a while, by a clock that nobody can see.</p>", 300)</script>`},
	{name: "scroll", html: `<title>Feed</title><div id="root"></div><script>
		const more = n => { for (let i = 0; i < 3; i++) { const a = document.createElement("article"); a.style.height = "400px"; a.innerHTML = "<h2>Entry " + (n * 3 + i) + "</h2><p>What entry " + (n * 3 + i) + " says to those who come so far.</p>"; list.append(a); } };
		root.innerHTML = "<main><h1>Feed</h1><div id=list></div><div id=sentinel></div></main>"; let n = 0; more(n++);
		new IntersectionObserver(es => { if (es[0].isIntersecting && n < 4) fetch("/data.json").then(() => more(n++)); }).observe(sentinel)</script>`},
	{name: "images", html: `<title>Images</title><div id="root"></div><script>
		root.innerHTML = "<main><h1>Images</h1><p>One that is there: <img src=/dot.png alt=there></p><div style='height:2500px'>Far above the other.</div><p><img alt='seen late' id=late></p><p><img alt='in an attribute' data-src=/attribute.png></p></main>";
		new IntersectionObserver(es => es.forEach(e => { if (e.isIntersecting) e.target.src = "/late.png"; })).observe(late)</script>`},
	{name: "dialogs", html: `<title>Dialogs</title><div id="root"></div><script>
		alert("Hello"); const yes = confirm("Are you?"), name = prompt("Who?"); onbeforeunload = () => "stay";
		root.innerHTML = "<h1>Dialogs</h1><p>The answers were " + yes + " and " + name + ", and the page went on after them.</p>"</script>`},
	{name: "popups", html: `<title>Popups</title><div id="root"></div><script>
		for (let i = 0; i < 3; i++) window.open("/plain.html?" + i); root.innerHTML = "<h1>Popups</h1><p>The page goes on whether its windows open or do not.</p>"</script>`},
	{name: "shadow", html: `<title>Shadow</title><div id="root"></div><my-card><b slot="title">A title of the light</b><p>A paragraph of the light.</p></my-card><iframe srcdoc="<h2>Framed</h2><p>A <a href='/x'>link</a> in a frame.</p>"></iframe><script>
		document.querySelector("my-card").attachShadow({mode: "open"}).innerHTML = "<style>p{color:red}</style><h2><slot name=title></slot></h2><p>A paragraph of the shadow.</p><slot></slot>"</script>`},
	{name: "frame", html: `<title>Frames</title><div id="root"></div><iframe src="/plain.html"></iframe><script>root.innerHTML = "<h1>Frames</h1><p>Around a frame of its own server, with words enough.</p>"</script>`},
	{name: "hidden", html: `<title>Hidden</title><style>.off{position:absolute;left:-9999px}</style><div id="root"></div><script>
		root.innerHTML = "<h1>Hidden</h1><p>What people see is all that there is to read here.</p><p style='display:none'>SECRET one</p><p class=off>SECRET two</p><p style='color:#fff;background:#fff'>SECRET three</p><p style='font-size:0'>SECRET four</p>"</script>`},
	{name: "consent", html: `<title>Consent</title><div id="root"></div><script>
		root.innerHTML = "<main><h1>Consent</h1><p>Words that are worth reading, and more of them than the box has.</p></main><div id=onetrust-consent-sdk><p>We value your privacy.</p><button>Accept all</button></div>"</script>`},
	{name: "formulas", html: `<title>Formulas</title><div id="root"></div><script>
		root.innerHTML = "<main><h1>Formulas</h1><p>Euler wrote <span class=katex><span class=katex-mathml><math><semantics><mrow><mi>e</mi></mrow><annotation encoding='application/x-tex'>e^{i\\pi}+1=0</annotation></semantics></math></span><span class=katex-html aria-hidden=true>eiπ+1=0</span></span> and others did, too.</p></main>"</script>`},
	{name: "rows", html: `<title>Rows</title><div id="root"></div><script>
		root.innerHTML = "<main><h1>Rows</h1><table><tr><th>n</th><th>square</th></tr>" + Array.from({length: 5000}, (_, i) => "<tr><td>" + i + "</td><td>" + i * i + "</td></tr>").join("") + "</table></main>"</script>`},
	{name: "nested", html: `<title>Nested</title><div id="root"></div><script>
		let e = root; for (let i = 0; i < 1000; i++) { const d = document.createElement("div"); e.append(d); e = d; } e.innerHTML = "<p>At the bottom of a thousand elements there are some words.</p>"</script>`},
	{name: "leads", html: `<title>Leads</title><div id="root"></div><script>location.href = "/plain.html"</script>`},
	{name: "leads-away", html: `<title>Leads</title><div id="root"></div><script>location.href = location.href.replace("site.example", "other.example").replace("leads-away", "plain.html")</script>`},
	{name: "downloads", html: `<title>Downloads</title><div id="root"></div><script>location.href = "/file.bin"; root.innerHTML = "<h1>Downloads</h1><p>The page stays where it is, and its file comes nowhere.</p>"</script>`},
	{name: "stops", html: `<title>Stops</title><main><h1>Stops</h1><p>A page that stops its own loading is read as far as it came.</p></main><img src="/never"><script>window.stop()</script><p>After that.</p>`, q: reader.Query{Render: "always"}},
	{name: "polls", html: `<title>Polls</title><div id="root"></div><script>root.innerHTML = "<h1>Polls</h1><p>It asks for more for as long as anybody looks at it.</p><b id=n></b>"; setInterval(() => fetch("/data.json"), 20)</script>`},
	{name: "broken-script", html: `<title>Broken</title><div id="root"></div><script>root.innerHTML = "<h1>Broken</h1><p>What was there before the fault is there after it.</p>"; undefined.fault()</script>`},
	{name: "refused-parts", html: `<title>Parts</title><div id="root"></div><script src="http://elsewhere.example/lib.js"></script><script>root.innerHTML = "<h1>Parts</h1><p>A library is missing, and the words are here all the same.</p>"</script>`},
	{name: "spins", html: `<title>Spins</title><div id="root"></div><script>for (;;);</script>`, q: reader.Query{Timeout: 4 * time.Second}},
	{name: "never-loads", html: `<title>Never</title><main><h1>Never</h1><p>What came before the picture that never comes is what there is to read.</p></main><img src="/never"><script>1</script>`, q: reader.Query{Timeout: 4 * time.Second, Until: browser.UntilLoad}},
	{name: "dom-is-enough", html: `<title>Dom</title><main><h1>Dom</h1><p>The picture that never comes is not waited for.</p></main><img src="/never"><script>1</script>`, q: reader.Query{Until: browser.UntilDOM}},
	{name: "waits", html: `<title>Waits</title><main><h1>Waits</h1><p id=p>Enough words of the page to be read, and not the last ones.</p></main><script>setTimeout(() => p.textContent = "The last words came late, as the call knew.", 500)</script>`, q: reader.Query{Wait: 700 * time.Millisecond}},
	{name: "selects", html: `<title>Selects</title><main><h1>Selects</h1><p>Not this.</p><div id=d></div></main><script>setTimeout(() => d.innerHTML = "<p class=late>But this, when it comes.</p>", 400)</script>`, q: reader.Query{Selector: ".late"}},
	{name: "selects-nothing", html: `<title>Selects</title><main><h1>Selects</h1><p>Nothing here is what was asked for.</p></main><script>1</script>`, q: reader.Query{Selector: ".none", Timeout: 4 * time.Second}},
}

// parts serves the files that the pages load.
func parts(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/data.json":
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `[{"name": "first", "code": "a[0]"}, {"name": "second", "code": "b_1"}, {"name": "third *", "code": "c"}]`)
	case "/step/1", "/step/2", "/step/3":
		n := int(r.URL.Path[6] - '0')
		next := "null"
		if n < 3 {
			next = fmt.Sprintf(`"/step/%d"`, n+1)
		}
		fmt.Fprintf(w, `{"text": "Answer %d of a row in which each names the next.", "next": %s}`, n, next)
	case "/plain.html":
		html("; charset=utf-8", "<title>Plain</title><main><h1>Plain</h1><p>A page of "+strings.Repeat("plain words, ", 30)+"and no scripts.</p></main>")(w, r)
	case "/file.bin":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write([]byte{0, 1, 2, 3})
	case "/never":
		<-r.Context().Done()
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

var port = regexp.MustCompile(`example:\d+`)

// TestGoldenDrawn checks that each page that a browser renders becomes the markdown of its
// golden file, or the refusal in that file.
func TestGoldenDrawn(t *testing.T) {
	s := browsertest.NewStudio(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, site := range drawn {
			if r.URL.Path == "/"+site.name {
				html("; charset=utf-8", "<!DOCTYPE html>"+site.html)(w, r)
				return
			}
		}
		parts(w, r)
	}))
	reads, err := reader.New(reader.Config{Fetch: s.Fetch, Browser: s.Pool})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Grant(t)
	for _, site := range drawn {
		t.Run(site.name, func(t *testing.T) {
			q := site.q
			q.URL = s.Base + "/" + site.name
			if q.Timeout == 0 {
				q.Timeout = 30 * time.Second * testenv.Patience(t)
			}
			got := summary(reads.Read(t.Context(), g, q))
			golden.Equal(t, "drawn-"+site.name+".golden", port.ReplaceAllString(got, "example"))
		})
	}
}
