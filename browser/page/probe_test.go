package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// probeURL is the base URL of the probes.
const probeURL = "https://docs.example.org/guide/page.html"

// convertString converts a whole page of HTML to markdown.
func convertString(t *testing.T, src string, o Options) *Page {
	t.Helper()
	if o.URL == "" {
		o.URL = probeURL
	}
	if o.ContentType == "" {
		o.ContentType = "text/html; charset=utf-8"
	}
	p, err := Convert(t.Context(), []byte(src), o)
	if err != nil {
		t.Fatalf("convert %.80q: %v", src, err)
	}
	return p
}

// TestProbes contains HTML that converters are known to lose: each piece as a generator or
// a site writes it, and the whole markdown that it must become.
func TestProbes(t *testing.T) {
	for _, probe := range []struct{ name, html, want string }{
		{"language class", `<pre><code class="language-go">package main
func f() {}</code></pre>`, "```go\npackage main\nfunc f() {}\n```"},
		{"token lines of Docusaurus", `<div class="language-js codeBlockContainer"><div class="codeBlockContent"><pre class="prism-code language-js"><code><span class="token-line"><span class="token plain">let a</span><br></span><span class="token-line"><span class="token plain">let b</span><br></span></code></pre><div class="buttonGroup"><button>Copy</button></div></div></div>`, "```js\nlet a\nlet b\n```"},
		{"nested lists with code", `<ul><li>one<ul><li>two<pre><code>x
  y</code></pre></li></ul></li></ul>`, "- one\n\n  - two\n\n    ```\n    x\n      y\n    ```"},
		{"escapes", `<p>1. a * b_c_d [x] # h</p>`, `1\. a * b_c_d [x] # h`},
		{"spans of columns", `<table><tr><th>A</th><th colspan="2">B</th></tr><tr><td>1</td><td>2</td><td>3</td></tr></table>`, "| A | B | |\n| --- | --- | --- |\n| 1 | 2 | 3 |"},
		{"spans of rows", `<table><tr><th>A</th><th>B</th></tr><tr><td rowspan="2">1</td><td>2</td></tr><tr><td>3</td></tr></table>`, "| A | B |\n| --- | --- |\n| 1 | 2 |\n| | 3 |"},
		{"table without a head", `<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>`, "| a | b |\n| --- | --- |\n| c | d |"},
		{"keys and strikes", `<p><kbd>Ctrl</kbd> <del>old</del> <s>older</s></p>`, "`Ctrl` ~~old~~ ~~older~~"},
		{"comments", `<p>a<!-- secret -->b</p>`, "ab"},
		{"links", `<p><a href="../up?q=1,2#f">up</a> <a href="//h.example/x y">h</a> <a href="#here">here</a></p>`, "[up](https://docs.example.org/up?q=1,2#f) [h](https://h.example/x%20y) [here](#here)"},
		{"language of GitHub", `<div class="highlight highlight-source-go"><pre>package main</pre></div>`, "```go\npackage main\n```"},
		{"language of Sphinx", `<div class="highlight-python3 notranslate"><div class="highlight"><pre><span></span><span class="kn">import</span> x
</pre></div></div>`, "```python\nimport x\n```"},
		{"language as data", `<pre data-language="rust"><code>fn main() {}</code></pre><pre><code data-lang="toml">a=1</code></pre>`, "```rust\nfn main() {}\n```\n\n```toml\na=1\n```"},
		{"line numbers in a table", `<div class="highlight"><table class="lntable"><tr><td class="lntd"><pre><code><span class="lnt">1
</span><span class="lnt">2
</span></code></pre></td><td class="lntd"><pre><code class="language-sh" data-lang="sh"><span class="line">ls
</span><span class="line">pwd</span></code></pre></td></tr></table></div>`, "```sh\nls\npwd\n```"},
		{"line numbers in the code", `<pre class="highlight"><span class="linenos">1</span>a
<span class="linenos">2</span>b</pre>`, "```\na\nb\n```"},
		{"lines as elements", `<pre><code><div class="line">one</div><div class="line">  two</div></code></pre>`, "```\none\n  two\n```"},
		{"lists in cells", `<table><tr><th>A</th><th>B</th></tr><tr><td><ul><li>x</li><li>y</li></ul></td><td>z</td></tr></table>`, "| A | B |\n| --- | --- |\n| - x<br>- y | z |"},
		{"breaks and pipes in cells", `<table><tr><th>A</th><th>B</th></tr><tr><td>p<br>q</td><td>a|b</td></tr></table>`, "| A | B |\n| --- | --- |\n| p<br>q | a\\|b |"},
		{"code in cells", `<table><tr><th>A</th></tr><tr><td><pre>a = 1
b | c</pre></td></tr><tr><td>z</td></tr></table>`, "| A |\n| --- |\n| `a = 1`<br>`b \\| c` |\n| z |"},
		{"KaTeX", `<p>Energy <span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>E</mi></mrow><annotation encoding="application/x-tex">E=mc^2</annotation></semantics></math></span><span class="katex-html" aria-hidden="true">E=mc2</span></span>.</p>`, "Energy $E=mc^2$."},
		{"MathJax", `<p>Let <span class="MathJax_Preview">a</span><script type="math/tex">\alpha_1</script> be <script type="math/tex; mode=display">x^2</script></p>`, "Let $\\alpha_1$ be\n\n$$\nx^2\n$$"},
		{"MathML", `<p><math><mfrac><mi>a</mi><msup><mi>b</mi><mn>2</mn></msup></mfrac></math></p>`, `$\frac{a}{b^{2}}$`},
		{"MathML in other words", `<p><math><mo>(</mo><mfrac linethickness="0"><mi>n</mi><mi>k</mi></mfrac><mo>)</mo></math> <math><mi mathvariant="double-struck">R</mi></math> <math><mover><mi>x</mi><mo>→</mo></mover></math> <math><mover><mi>x</mi><mo>˙</mo></mover></math> <math><mmultiscripts><mi>C</mi><mn>2</mn><none/><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts></math></p>`, `$\binom{n}{k}$ $\mathbb{R}$ $\vec{x}$ $\dot{x}$ ${}_{6}^{14}C_{2}$`},
		{"math between marks", `<p>Take \(a_1*b_1\) and $$c &lt; d$$</p>`, "Take $a_1*b_1$ and\n\n$$\nc < d\n$$"},
		{"tasks", `<ul><li><input type="checkbox" checked disabled> done</li><li><input type="checkbox">todo</li></ul>`, "- [x] done\n- [ ] todo"},
		{"lists that count in their own way", `<ol start="3"><li>c</li><li value="7">g</li><li>h</li></ol><p>x</p><ol reversed><li>b</li><li>a</li></ol>`, "3. c\n\n7. g\n8. h\n\nx\n\n2. b\n\n1. a"},
		{"buttons that open", `<h3><button aria-expanded="false">Why?</button></h3><div style="display:none">So.</div><button aria-controls="p">Who?</button><div id="p" hidden>Ann.</div>`, "### Why?\n\nSo.\n\n**Who?**\n\nAnn."},
		{"buttons that open nothing", `<p>x</p><button style="display:none" aria-expanded="false">seen?</button><div hidden>A</div><button>Copy</button><div hidden>B</div><nav><button aria-expanded="false">Menu</button><div hidden>C</div></nav><button aria-expanded="false" aria-haspopup="menu">More</button><div hidden>D</div>`, "x"},
		{"tabs", `<div><ul role="tablist"><li role="tab">One</li><li role="tab">Two</li></ul><div role="tabpanel">1</div><div role="tabpanel" hidden>2</div></div><div role="tabpanel" hidden>of no tab</div>`, "- One\n- Two\n\n1\n\n2"},
		{"cards", `<div><a href="/a"><h3>A</h3><p>one</p></a><a href="/b"><h3>B</h3><p>two</p></a></div>`, "[**A** — one](https://docs.example.org/a)\n\n[**B** — two](https://docs.example.org/b)"},
		{"the way back", `<p>word<sup><a href="#n">1</a></sup></p><ol><li id="n">note <a href="#r">↩︎</a></li></ol>`, "word[1](#n)\n\n1. note"},
		{"definitions", `<dl><dt>Term</dt><dd>Meaning</dd><dt><code>f()</code></dt><dd><p>one</p><p>two</p></dd></dl>`, "Term\n: Meaning\n\n`f()`\n: one\n\n  two"},
		{"raised and lowered", `<p>H<sub>2</sub>O x<sup>2</sup> word<sup><a href="#n1">[1]</a></sup></p>`, "H<sub>2</sub>O x<sup>2</sup> word[\\[1\\]](#n1)"},
		{"lazy images", `<img src="data:image/gif;base64,R0lGOD" data-src="/lazy.png" alt="lazy">`, "![lazy](https://docs.example.org/lazy.png)"},
		{"images in sizes", `<picture><source srcset="/b.webp 2x, /s.webp 1x"><img alt="pic"></picture> <img srcset="/s.jpg 300w, /m.jpg 900w" alt="set">`, "![pic](https://docs.example.org/b.webp) ![set](https://docs.example.org/m.jpg)"},
		{"images without scripts", `<p>a <img class="lazy" alt=""><noscript><img src="/ns.png" alt="ns"></noscript></p>`, "a ![ns](https://docs.example.org/ns.png)"},
		{"frames and films", `<iframe src="https://video.example/embed/1" title="Film"></iframe><video src="/v.mp4"></video>`, "[Embedded: Film](https://video.example/embed/1)\n\n[Video: docs.example.org](https://docs.example.org/v.mp4)"},
		{"permalinks", `<h2 id="s">Section<a class="headerlink" href="#s" title="Permalink">¶</a></h2><h3><a class="anchor" href="#t"><svg></svg></a>Other</h3>`, "## Section\n\n### Other"},
		{"links of scripts", `<p><a href="javascript:alert(1)">click</a> <a href="data:text/html,x">data</a></p>`, "click data"},
		{"controls", `<p>x <button>Copy</button><svg><text>icon</text></svg><select><option>1</option></select></p>`, "x"},
		{"hidden text", `<p>seen</p><p style="display:none">A</p><p hidden>B</p><span aria-hidden="true">C</span><p style="position:absolute;left:-9999px">D</p><p style="color:#fff;background:#FFFFFF">E</p><p style="font-size:0">F</p><p class="sr-only">G</p>`, "seen"},
		{"hidden by other means", `<style>body{background:#fff}.n{color:#fefefe}.dark{background:#000}@media screen{.m{display:none}}@media print{.s{display:none}}div.x p{display:none}a{color:#fff}</style><p>seen</p><p class="n">A</p><p class="m">B</p><div class="x"><p>C</p></div><p style="color:#fffffe">D</p><p style="transform:translateX(-9999px)">E</p><p style="left:-9999px;position:relative">F</p><p style="letter-spacing:-1em">G</p><p style="filter:opacity(0)">H</p><p style="mask:linear-gradient(transparent,transparent)">I</p><div popover>J</div><p style="position:fixed;top:-500px">K</p><p style="line-height:0;overflow:hidden">L</p><p style="color:hsl(0,0%,100%);background:white">seen, too</p><div class="dark"><p class="n">on black</p></div><p class="s"><a href="#a">not on paper</a></p><p style="transform:translateX(-100%)">slides in</p><p style="letter-spacing:-0.02em">narrow</p>`, "seen\n\nseen, too\n\non black\n\n[not on paper](#a)\n\nslides in\n\nnarrow"},
		{"code in quotes", `<blockquote><p>q</p><pre>x
y</pre></blockquote>`, "> q\n>\n> ```\n> x\n> y\n> ```"},
		{"deep nesting", strings.Repeat("<div>", 5000) + "<p>deep</p>" + strings.Repeat("</div>", 5000) + "<p>after</p>", "deep\n\nafter"},
	} {
		t.Run(probe.name, func(t *testing.T) {
			p := convertString(t, "<!doctype html><title>T</title><body>"+probe.html, Options{Whole: true})
			if got := strings.TrimSuffix(p.Content, "\n"); got != probe.want {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", probe.html[:min(len(probe.html), 300)], got, probe.want)
			}
		})
	}
}

// TestServedMarkdown checks the conversion of a page that was served as markdown.
func TestServedMarkdown(t *testing.T) {
	const src = "# T\n\n[a](b.md) ![i](../i.png \"t\") [q](?x=(1)) <a href=\"c.md\">c</a> `[k](k.md)` [f](#f) [w](https://w.example/)\n\n<!-- SECRET -->\nseen <!-- SECRET\n```\nSECRET -->\n\n[d]: e.md \"t\"\n[^1]: a note\n\n```html\n<!-- kept --> [a](b.md)\n```\n~~~\n```\n<!-- kept -->\n~~~\nend <!-- SECRET"
	const want = "# T\n\n[a](https://docs.example.org/guide/b.md) ![i](https://docs.example.org/i.png \"t\") [q](https://docs.example.org/guide/page.html?x=%281%29) <a href=\"https://docs.example.org/guide/c.md\">c</a> `[k](k.md)` [f](#f) [w](https://w.example/)\n\n\nseen \n\n[d]: https://docs.example.org/guide/e.md \"t\"\n[^1]: a note\n\n```html\n<!-- kept --> [a](b.md)\n```\n~~~\n```\n<!-- kept -->\n~~~\nend "
	p := convertString(t, src, Options{ContentType: "text/markdown"})
	if p.Content != want {
		t.Errorf("got:\n%s\nwant:\n%s", p.Content, want)
	}
	if p.Hidden != len("SECRETSECRET```SECRETSECRET") {
		t.Errorf("got %d hidden characters, want %d", p.Hidden, len("SECRETSECRET```SECRETSECRET"))
	}
}

// TestJSONIsNotInflated checks that small values stay on one line, and that no byte is
// lost.
func TestJSONIsNotInflated(t *testing.T) {
	var small strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&small, `,{"id":%d,"v":"x, [y] \\" \\\\"}`, i)
	}
	for _, src := range []string{
		`[` + small.String()[1:] + `]`,
		`{"a": {"b": [1, 2, 3], "c": "` + strings.Repeat("long {", 40) + `"}, "d": []}`,
		strings.Repeat(`[`, 150) + `"` + strings.Repeat("x", 100) + `"` + strings.Repeat(`]`, 150),
		strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000),
		`[1, 2`,
	} {
		p := convertString(t, src, Options{ContentType: "application/json", Format: Text})
		var got, want bytes.Buffer
		if json.Compact(&want, []byte(src)) == nil {
			if err := json.Compact(&got, []byte(p.Content)); err != nil || got.String() != want.String() {
				t.Errorf("%.60s: %v, got %.200s", src, err, p.Content)
			}
		}
		if len(p.Content) > len(src)*3/2+1024 {
			t.Errorf("%.60s: %d bytes became %d", src, len(src), len(p.Content))
		}
	}
	p := convertString(t, `{"a": {"b": [1, 2, 3]}, "c": "`+strings.Repeat("x", 160)+`"}`, Options{ContentType: "application/json", Format: Text})
	if want := "{\n  \"a\": {\"b\":[1,2,3]},\n  \"c\": \"" + strings.Repeat("x", 160) + "\"\n}\n"; p.Content != want {
		t.Errorf("got\n%swant\n%s", p.Content, want)
	}
}

// TestIndentsAreBounded checks that a document with many deep values takes no more memory
// than a few times its size, and is then not indented.
func TestIndentsAreBounded(t *testing.T) {
	for media, src := range map[string]string{
		"application/json": strings.Repeat("[", 190) + strings.Repeat("1,", 500_000) + "1" + strings.Repeat("]", 190),
		"application/xml":  strings.Repeat("<a>", 190) + strings.Repeat("<b/>", 250_000) + strings.Repeat("</a>", 190),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := convertString(t, src, Options{ContentType: media, Format: Text})
		runtime.ReadMemStats(&after)
		if strings.TrimSpace(p.Content) != src {
			t.Errorf("%s: %d bytes became %d", media, len(src), len(p.Content))
		}
		// The tree of the XML has 250,000 nodes.
		if took := after.TotalAlloc - before.TotalAlloc; took > 150<<20 {
			t.Errorf("%s: %d bytes took %d MiB", media, len(src), took>>20)
		}
	}
}

// TestFeedIsBounded checks that the entries of a feed have a bounded number of elements
// together.
func TestFeedIsBounded(t *testing.T) {
	entry := "<item><title>Entry</title><description><![CDATA[" + strings.Repeat("<br>", 600_000) + "]]></description></item>"
	p := convertString(t, "<rss><channel><title>Feed</title>"+entry+entry+"<item><title>Last</title></item></channel></rss>", Options{ContentType: "application/rss+xml", Format: Text})
	if !p.Truncated || !strings.Contains(strings.Join(p.Notes, " "), "The feed has 1 more entries") || strings.Contains(p.Content, "Last") {
		t.Errorf("truncated %v, notes %q", p.Truncated, p.Notes)
	}
}

// TestTitlesShow checks that a title has no characters that act on a terminal or reverse
// the text next to them.
func TestTitlesShow(t *testing.T) {
	p := convertString(t, "<title>A\u202e \u009b31m title\u200b</title><p>words", Options{})
	if p.Title != "A 31m title" {
		t.Errorf("got %q", p.Title)
	}
}

// TestPagesOfPDFs checks that the headings of a PDF are found at their offsets although
// characters that do not show were removed before them, and that a text that is too long is
// said to be cut.
func TestPagesOfPDFs(t *testing.T) {
	var b strings.Builder
	b.WriteString("%PDF-1.4\n")
	var at []int
	object := func(s string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), s)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [3 0 R 5 0 R] /Count 2 >>")
	for n, text := range []string{"BT /F1 12 Tf 72 720 Td (a\\255b\\255c first) Tj ET", "BT /F1 12 Tf 72 720 Td (second) Tj ET"} {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 7 0 R >> >> >>", 4+2*n))
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(text), text))
	}
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, offset := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	p := convertString(t, b.String(), Options{ContentType: "application/pdf"})
	if !strings.Contains(p.Content, "abc first") || len(p.Headings) != 2 {
		t.Fatalf("got %q with %+v", p.Content, p.Headings)
	}
	for _, h := range p.Headings {
		if rest := string([]rune(p.Content)[h.Offset:]); !strings.HasPrefix(rest, "## "+h.Text) {
			t.Errorf("%s is at %d, where the content is %.20q", h.Text, h.Offset, rest)
		}
	}
}

// TestTypeset checks that typeset undoes what typesetting does to words.
func TestTypeset(t *testing.T) {
	for src, want := range map[string]string{
		"speciﬁc oﬃces and ﬂags":                       "specific offices and flags",
		"list\n\ufffd one\n  \uf0b7 two\n• three":      "list\n• one\n  • two\n• three",
		"how it is hyphen-\nated at the end":           "how it is hyphenated\nat the end",
		"well-known and well-\nknown things":           "well-known and well-known\nthings",
		"Anglo-\nSaxon and 1-\n2 and a-\nb":            "Anglo-\nSaxon and 1-\n2 and a-\nb",
		"one hyphen-\nated, then\nhyphen-\nated\nends": "one hyphenated,\nthen\nhyphenated\nends",
		"a \ufffd in a line":                           "a \ufffd in a line",
	} {
		if got := typeset(src); got != want {
			t.Errorf("%q: got %q, want %q", src, got, want)
		}
	}
}
