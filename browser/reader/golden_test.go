package reader_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/fetch"
	"belljar.dev/browser/reader"
)

var update = flag.Bool("update", false, "write the golden files")

// html answers with a page of HTML.
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

// codePage is documentation with a block of code in each language.
func codePage() string {
	var b strings.Builder
	b.WriteString("<html><head><title>Code</title><meta name=generator content=mkdocs></head><body><nav>menu</nav><main><h1>Code</h1>")
	for _, l := range languages {
		fmt.Fprintf(&b, "<h2 id=%s>%s</h2><pre><code class=\"language-%s\">line_1(\"%s\") &lt; 2\n\tindented *not* emphasis\n</code></pre>", l, l, l, l)
	}
	return b.String() + "</main></body></html>"
}

// sites are pages of all kinds: each becomes a golden file, or the
// refusal that it names.
func sites(t testing.TB) map[string]http.HandlerFunc {
	words := strings.Repeat("Some words of the page. ", 20)
	article, err := os.ReadFile("../page/testdata/article.html")
	if err != nil {
		t.Fatal(err)
	}
	pdf, err := os.ReadFile("../page/testdata/small.pdf")
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		z.Write(bytes.Repeat([]byte("bomb "), 200_000))
	}
	z.Close()
	all := map[string]http.HandlerFunc{
		"article": html("; charset=utf-8", string(article)),
		"spa":     html("", `<title>App</title><div id="app"></div><script>fetch("/data.json")</script>`),
		"scroll":  html("", "<title>Feed</title><main><h1>Feed</h1>"+repeated(5, "<article><h2>Entry %d</h2><p>"+words+"</p></article>")+"</main><script>onscroll = more</script>"),
		"table":   html("", "<title>Table</title><main><table><tr><th>n</th><th>words</th></tr>"+repeated(5000, "<tr><td>%d</td><td>some</td></tr>")+"</table></main>"),
		"deep":    html("", "<title>Deep</title>"+strings.Repeat("<div>", 3000)+"<p>At the bottom: "+words+"</p>"),
		"alert":   html("", "<title>Alert</title><main><h1>Alert</h1><p>"+words+"</p></main><script>alert(1); onbeforeunload = () => 'stay'</script>"),
		"popup":   html("", "<title>Popup</title><main><h1>Popup</h1><p>"+words+"</p></main><script>window.open('http://other.example/')</script>"),
		"rtl":     html("; charset=utf-8", "<html lang=ar dir=rtl><title>\u0645\u0631\u062d\u0628\u0627</title><main><h1>\u0645\u0631\u062d\u0628\u0627</h1><p>"+strings.Repeat("\u0646\u0635 \u0639\u0631\u0628\u064a \u0648 English. ", 10)+"</p></main>"),
		"code":    html("", codePage()),
		"math":    html("", `<title>Math</title><main><h1>Math</h1><p>`+words+`</p><p>So <math><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup><annotation encoding="application/x-tex">E=mc^2</annotation></math>.</p></main>`),
		"meta":    html("", `<meta http-equiv=refresh content="0; url=/next">`),
		"download": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", "attachment; filename=setup.bin")
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 600)...))
		},
		"pdf": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/pdf")
			w.Write(pdf)
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for range 50 << 4 {
				if _, err := io.WriteString(w, strings.Repeat("sixteen letters\n", 4096)); err != nil {
					return
				}
			}
		},
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		},
		"slow": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<title>Stream</title><main><h1>Stream</h1><p>"+words+"</p>")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
		"auth": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Digest x")
			w.WriteHeader(401)
		},
		"chain": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/article", http.StatusMovedPermanently)
		},
		"next": html("", "<title>Next</title><main><h1>Next</h1><p>"+words+"</p></main>"),
		"markdown": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Accept"), "text/markdown") {
				w.Header().Set("Content-Type", "text/markdown")
				io.WriteString(w, "# Markdown\n\nAs it was *served*.\n")
			}
		},
	}
	return all
}

// summary is a result in words, long content by its ends.
func summary(res *reader.Result, err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		return fmt.Sprintf("REFUSED (%v): %s; instead: %s\n", e.Kind, e.Message, e.Instead)
	}
	if err != nil {
		return "ERROR: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, r := range res.Redirects {
		fmt.Fprintf(&b, "redirected (%d) to %s\n", r.Status, r.To)
	}
	if res.Stop != nil {
		return b.String() + "STOP: " + res.Stop.To + ": " + res.Stop.Why + "\n"
	}
	p := res.Page
	fmt.Fprintf(&b, "%s %s by %s, rendered %s (%s), %d characters", p.Kind, p.Format, p.Extraction, res.Rendered, res.Why, len([]rune(p.Content)))
	if p.Truncated {
		b.WriteString(", truncated")
	}
	if res.Partial != "" {
		b.WriteString(", partial: " + res.Partial)
	}
	b.WriteByte('\n')
	for _, n := range append(res.Notes, p.Notes...) {
		b.WriteString("note: " + n + "\n")
	}
	content := []rune(p.Content)
	const most = 4000
	if len(content) > most {
		return b.String() + "\n" + string(content[:most/2]) + "\n[...]\n" + string(content[len(content)-most/2:])
	}
	return b.String() + "\n" + string(content)
}

// Every one of these pages is the markdown of its golden file, or the
// refusal that stands there.
func TestGoldenSites(t *testing.T) {
	r := newRig(t, false)
	all := sites(t)
	r.Serve(t, "site.example", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if h := all[strings.TrimPrefix(req.URL.Path, "/")]; h != nil {
			h(w, req)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	r.ServeTLS(t, "badtls.example", html("", "x"), []string{"other.example"}, time.Now().Add(time.Hour))
	g := r.grant(t, "")
	check := func(name, url string) {
		t.Run(name, func(t *testing.T) {
			q := reader.Query{URL: url}
			if name == "slow" || name == "stream" {
				q.Timeout = 600 * time.Millisecond
			}
			got := summary(r.r.Read(t.Context(), g, q))
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for name := range all {
		check(name, "http://site.example/"+name)
	}
	check("badtls", "https://badtls.example/")
}
