package reader_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// html returns a handler that answers with a page of HTML.
func html(charset, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html"+charset)
		io.WriteString(w, body)
	}
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

var languages = []string{"go", "python", "javascript", "rust", "c", "java", "ruby", "bash", "sql", "html"}

// codePage returns documentation with a block of code in each language.
func codePage() string {
	var b strings.Builder
	b.WriteString("<html><head><title>Code</title><meta name=generator content=mkdocs></head><body><nav>menu</nav><main><h1>Code</h1>")
	for _, l := range languages {
		fmt.Fprintf(&b, "<h2 id=%s>%s</h2><pre><code class=\"language-%s\">line_1(\"%s\") &lt; 2\n\tindented *not* emphasis\n</code></pre>", l, l, l, l)
	}
	return b.String() + "</main></body></html>"
}

// served returns a handler that answers with bytes of a type.
func served(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Write(body)
	}
}

// status returns a handler that answers with a status, headers (name, value and so on) and
// a page.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// endless returns a handler that answers with 50 MB of lines between a head and a foot.
func endless(contentType, head, line string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		io.WriteString(w, head)
		lines := strings.Repeat(line, 1<<16/len(line)+1)
		for sent := 0; sent < 50_000_000; sent += len(lines) {
			if _, err := io.WriteString(w, lines); err != nil {
				return
			}
		}
	}
}

// pdfBomb returns a document of one page whose content unpacks to a thousand times its
// size.
func pdfBomb() []byte {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	io.WriteString(z, "BT /F1 12 Tf 72 720 Td ")
	for range 256 {
		z.Write(bytes.Repeat([]byte("(bomb ) Tj\n"), 50_000))
	}
	z.Close()
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	var at []int
	for _, object := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", packed.Len(), packed.Bytes()),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), object)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

// sites returns pages of all kinds. Each must become its golden file, or the refusal in it.
func sites(t testing.TB) map[string]http.HandlerFunc {
	t.Helper()
	file := func(name string) []byte {
		b, err := os.ReadFile("../page/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	words := strings.Repeat("Some words of the page. ", 20)
	pdf := file("small.pdf")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		z.Write(bytes.Repeat([]byte("bomb "), 200_000))
	}
	z.Close()
	dot, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]http.HandlerFunc{
		// Pages with different content.
		"article":      html("; charset=utf-8", string(file("article.html"))),
		"spa":          html("", `<title>App</title><div id="app"></div><script>fetch("/data.json")</script>`),
		"feed-page":    html("", "<title>Feed</title><main><h1>Feed</h1>"+repeated(5, "<article><h2>Entry %d</h2><p>"+words+"</p></article>")+"</main><script>onscroll = more</script>"),
		"rows":         html("", "<title>Table</title><main><table><tr><th>n</th><th>words</th></tr>"+repeated(5000, "<tr><td>%d</td><td>some</td></tr>")+"</table></main>"),
		"cells":        html("", "<title>Table</title><main><table>"+repeated(2500, "<tr><td>%d</td><td>b</td><td><code>c|d</code></td><td>e<br>f</td></tr>")+"</table></main>"),
		"deep":         html("", "<title>Deep</title>"+strings.Repeat("<div>", 3000)+"<p>At the bottom: "+words+"</p>"),
		"deep-lists":   html("", "<title>Deep</title><main>"+strings.Repeat("<ul><li>in", 300)+"</main>"),
		"deep-quotes":  html("", "<title>Deep</title><main>"+strings.Repeat("<blockquote>", 300)+"<p>quoted</p></main>"),
		"alert":        html("", "<title>Alert</title><main><h1>Alert</h1><p>"+words+"</p></main><script>alert(1); onbeforeunload = () => 'stay'</script>"),
		"popup":        html("", "<title>Popup</title><main><h1>Popup</h1><p>"+words+"</p></main><script>window.open('http://other.example/')</script>"),
		"rtl":          html("; charset=utf-8", "<html lang=ar dir=rtl><title>\u0645\u0631\u062d\u0628\u0627</title><main><h1>\u0645\u0631\u062d\u0628\u0627</h1><p>"+strings.Repeat("\u0646\u0635 \u0639\u0631\u0628\u064a \u0648 English. ", 10)+"</p></main>"),
		"code":         html("", codePage()),
		"math-mathml":  html("", `<title>Math</title><main><h1>Math</h1><p>`+words+`</p><p>So <math><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></math>, and <math display=block><semantics><mfrac><mn>1</mn><mn>2</mn></mfrac><annotation encoding="application/x-tex">\frac{1}{2}</annotation></semantics></math></p></main>`),
		"math-katex":   html("", `<title>Math</title><main><h1>Math</h1><p>`+words+`</p><p>So <span class=katex><span class=katex-mathml><math><semantics><mi>x</mi><annotation encoding="application/x-tex">x_1^2</annotation></semantics></math></span><span class=katex-html aria-hidden=true>x12</span></span>.</p><span class=katex-display><span class=katex><span class=katex-mathml><math display=block><semantics><mi>y</mi><annotation encoding="application/x-tex">\sum_i y_i</annotation></semantics></math></span><span class=katex-html aria-hidden=true>yi</span></span></span></main>`),
		"math-mathjax": html("", `<title>Math</title><main><h1>Math</h1><p>`+words+`</p><p>So \(a+b\), <span class=MathJax_Preview>...</span><span class=MathJax>shown</span><script type="math/tex">c \le d</script> and</p><p>$$e = \int f$$</p><mjx-container display=true><mjx-math aria-hidden=true>g</mjx-math><mjx-assistive-mml><math display=block><mi>g</mi></math></mjx-assistive-mml></mjx-container></main>`),
		"empty":        html("", ""),
		"empty-body":   html("", "<!DOCTYPE html><html><head><title>Nothing</title></head><body></body></html>"),
		"consent":      html("", "<title>Page</title><main><p>"+words+"</p></main><div class=cc-window><p>We use cookies.</p><button>Got it!</button></div>"),
		"untitled":     html("", "<p>"+words),
		// Large and slow answers, and answers with an error status.
		"large":      endless("text/plain", "", "sixteen letters\n"),
		"large-html": endless("text/html", "<title>Large</title><main><h1>Large</h1>", "<p>"+strings.Repeat("One of many paragraphs that are all the same. ", 20)+"</p>\n"),
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<title>Stream</title><main><h1>Stream</h1><p>"+words+"</p>")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"missing":        status(404, "<title>Gone</title><h1>Gone</h1><p>There is no such page, but there is one beside it.</p>"),
		"missing-silent": status(404, ""),
		"busy":           status(429, "slow down", "Retry-After", "120"),
		"busy-unsaid":    status(429, "<p>Slow down."),
		"down":           status(503, "<p>In repair.", "Retry-After", "3600"),
		"down-unsaid":    status(503, "<p>In repair."),
		"fault":          status(500, "<p>Something broke."),
		"auth":           status(401, "", "WWW-Authenticate", "Digest x"),
		"auth-proxy":     status(407, "", "Proxy-Authenticate", "Basic"),
		"forbidden":      status(403, "<p>Robots are not wanted here."),
		// Redirects.
		"chain":      status(301, "", "Location", "/chain-2"),
		"chain-2":    status(307, "", "Location", "chain-3?x=y"),
		"chain-3":    status(303, "", "Location", "http://SITE.example:80/next#part"),
		"loop":       status(302, "", "Location", "/loop-2"),
		"loop-2":     status(302, "", "Location", "/loop"),
		"self":       status(302, "", "Location", "/self"),
		"away":       status(302, "", "Location", "https://elsewhere.example/a?b"),
		"to-file":    status(302, "", "Location", "file:///etc/passwd"),
		"to-nowhere": status(302, ""),
		"meta":       html("", `<meta http-equiv=refresh content="0; url=/next">`),
		"meta-away":  html("", `<meta http-equiv=refresh content="0; url=http://elsewhere.example/">`),
		"refresh":    status(200, "", "Refresh", "0; url=/next"),
		"next":       html("", "<title>Next</title><main><h1>Next</h1><p>"+words+"</p></main>"),
		// Kinds of bodies.
		"download": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", "attachment; filename=setup.bin")
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 600)...))
		},
		"archive":       served("application/zip", []byte("PK\x03\x04")),
		"archive-html":  served("text/html", append([]byte("PK\x03\x04"), make([]byte, 600)...)),
		"pdf":           served("application/pdf", pdf),
		"pdf-untyped":   served("application/octet-stream", pdf),
		"pdf-broken":    served("application/pdf", pdf[:len(pdf)/2]),
		"pdf-encrypted": served("application/pdf", bytes.Replace(pdf, []byte("/Root 1 0 R"), []byte("/Root 1 0 R /Encrypt 8 0 R"), 1)),
		"pdf-bomb":      served("application/pdf", pdfBomb()),
		"json":          served("application/json; charset=utf-8", file("data.json")),
		"json-broken":   served("application/json", []byte(`{"a": [1, 2`)),
		"xml":           served("application/xml", file("config.xml")),
		"rss":           served("application/rss+xml", file("rss.xml")),
		"atom":          served("application/atom+xml", file("atom.xml")),
		"json-feed":     served("application/feed+json", file("feed.json")),
		"plain":         served("text/plain", []byte("Plain *text*\n\twith <b>no</b> markup.\n")),
		"image":         served("image/png", dot),
		"image-untyped": served("application/octet-stream", dot),
		"image-svg":     served("image/svg+xml", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)),
		"video":         served("video/mp4", []byte("x")),
		"markdown": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Accept"), "text/markdown") {
				w.Header().Set("Content-Type", "text/markdown")
				io.WriteString(w, "# Markdown\n\nAs it was *served*.\n")
			}
		},
	}
}
