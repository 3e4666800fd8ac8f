package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// TestPartsMakeThePage reads pages in parts of many sizes, and checks that the parts
// contain every byte once and cut no character.
func TestPartsMakeThePage(t *testing.T) {
	content := strings.Repeat("Ein Wört, 日本語 🦀 and\nlines.\n\nمرحبا ", 3000)
	p := &Page{Content: content}
	for _, size := range []int{1 << 20, 25_000, 999, 77} {
		var b strings.Builder
		for offset := 0; ; {
			part, err := p.Part(offset, size)
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(part.Text) || utf8.RuneCountInString(part.Text) > size || part.Total != utf8.RuneCountInString(content) {
				t.Fatalf("size %d, offset %d: got a part of %d characters of %d, valid %v", size, offset, utf8.RuneCountInString(part.Text), part.Total, utf8.ValidString(part.Text))
			}
			b.WriteString(part.Text)
			if part.More() == "" {
				break
			}
			if want := fmt.Sprintf("continue with offset %d of %d", part.Next, part.Total); part.More() != want {
				t.Fatalf("got %q, want %q", part.More(), want)
			}
			offset = part.Next
		}
		if b.String() != content {
			t.Errorf("size %d: the parts are not the page", size)
		}
	}
	for _, wrong := range [][2]int{{-1, 5}, {len(content), 5}, {0, 0}} {
		if _, err := p.Part(wrong[0], wrong[1]); err == nil {
			t.Errorf("part %v: got no error", wrong)
		}
	}
}

// TestCharsets converts the same kind of page in every charset that pages use, announced by
// header, by meta element, by byte order mark, or not at all.
func TestCharsets(t *testing.T) {
	texts := map[string]string{
		"windows-1252": "Café “naïve” — 5 €", "iso-8859-2": "Zażółć gęślą jaźń", "iso-8859-15": "Œuvre à 5 €", "windows-1250": "Příliš žluťoučký kůň",
		"windows-1251": "Привет, это обычный русский текст о цаплях", "koi8-r": "Привет, это обычный русский текст о цаплях", "koi8-u": "Привіт, їжаче", "windows-1253": "Καλημέρα κόσμε", "iso-8859-7": "Καλημέρα κόσμε",
		"windows-1254": "Günaydın dünya ışık", "windows-1255": "שלום עולם, זה דף ארוך בעברית", "windows-1256": "مرحبا بالعالم", "windows-1257": "Labas rytas, šiandien gražus oras ąžuolų ūksmėje", "windows-1258": "Xin chào", "windows-874": "สวัสดีชาวโลก",
		"shift_jis": "こんにちは、世界。これは日本語の文章です。", "euc-jp": "こんにちは、世界。これは日本語の文章です。", "iso-2022-jp": "こんにちは、世界。これは日本語の文章です。",
		"gb18030": "你好，世界。这是一个中文的网页，我们在这里。", "gbk": "你好，世界。这是一个中文的网页，我们在这里。", "big5": "你好，世界。這是一個中文的網頁，我們在這裡。", "euc-kr": "안녕하세요 세계. 이것은 한국어 문장입니다.",
		"macintosh": "Café déjà", "utf-8": "Grüße 世界 🦀", "utf-16le": "Grüße 世界 🦀", "utf-16be": "Grüße 世界 🦀",
	}
	guessed := map[string]bool{
		"euc-jp": true, "iso-2022-jp": true, "gb18030": true, "big5": true, "euc-kr": true, "windows-1251": true,
		"koi8-r": true, "utf-8": true, "windows-1252": true, "iso-8859-2": true, "windows-1250": true, "windows-1253": true,
		"iso-8859-7": true, "windows-1254": true, "windows-1255": true, "windows-1256": true, "windows-1257": true, "windows-874": true,
	}
	for name, text := range texts {
		e, _ := charset.Lookup(name)
		encode := func(s string) []byte {
			b, err := e.NewEncoder().Bytes([]byte(s))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return b
		}
		check := func(how, contentType, head string, mark []byte) {
			t.Helper()
			src := append(mark, encode("<html><head>"+head+"<title>x</title></head><body><p>"+strings.Repeat(text+" ", 3)+"</p></body></html>")...)
			p, err := Convert(t.Context(), src, Options{ContentType: contentType, Format: Text})
			if err != nil {
				t.Errorf("%s by %s: %v", name, how, err)
			} else if !strings.Contains(p.Content, text) {
				t.Errorf("%s by %s: got %q as %s, want %q", name, how, p.Content, p.Charset, text)
			}
		}
		wide := strings.HasPrefix(name, "utf-16")
		check("header", "text/html; charset="+name, "", nil)
		if !wide {
			check("meta", "text/html", `<meta charset="`+name+`">`, nil)
			check("http-equiv", "text/html", `<meta http-equiv="Content-Type" content="text/html; charset=`+name+`">`, nil)
		}
		switch name {
		case "utf-8":
			check("mark", "text/html; charset=windows-1252", "", []byte("\xef\xbb\xbf"))
			check("itself, against the header", "text/html; charset=iso-8859-1", "", nil)
		case "utf-16le":
			check("mark", "text/html", "", []byte("\xff\xfe"))
		case "utf-16be":
			check("mark", "text/html", "", []byte("\xfe\xff"))
		}
		if guessed[name] {
			check("its bytes", "text/html", "", nil)
			check("its bytes, against a script's", "text/html", "<script src=x charset=shift_jis></script>", nil)
			if name != "windows-1252" && name != "iso-2022-jp" {
				check("its bytes, against what it says", "text/html; charset=utf-8", "<meta charset=utf-8>", nil)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		o    Options
		want string
	}{
		"png":       {"\x89PNG\r\n\x1a\n\x00\x00", Options{}, "use ReadImage"},
		"svg":       {"<svg/>", Options{ContentType: "image/svg+xml"}, "use ReadImage"},
		"zip":       {"PK\x03\x04", Options{ContentType: "application/zip"}, "download it"},
		"html lie":  {"\x89PNG\r\n\x1a\n\x00\x00", Options{ContentType: "text/html"}, "image/png"},
		"video":     {"x", Options{ContentType: "video/mp4"}, "transcript"},
		"format":    {"<p>x", Options{Format: "docx"}, "want text, html or markdown"},
		"selector":  {"<p>x", Options{Selector: "p["}, `selector "p["`},
		"no match":  {"<p>x", Options{Selector: "h1"}, "matches nothing"},
		"max bytes": {"<p>x", Options{MaxBytes: -1}, "MaxBytes"},
		"timeout":   {"<p>x", Options{Timeout: -1}, "Timeout"},
		"no pdf":    {"%PDF-1.4 rubbish", Options{}, "read application/pdf: it is malformed"},
	} {
		_, err := Convert(t.Context(), []byte(c.src), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Convert(ctx, []byte("<p>x"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestOptions(t *testing.T) {
	const src = `<html><body><nav><a href=/>Home</a></nav><main><h1>Head</h1><p class=a>One <a href="/1">link</a> <img src=i.png alt=pic></p></main><p class=b>Two</p></body></html>`
	for want, o := range map[string]Options{
		"# Head\n\nOne [link](https://docs.example.org/1) ![pic](https://docs.example.org/guide/i.png)\n": {},
		"# Head\n\nOne link ![pic](https://docs.example.org/guide/i.png)\n":                               {OmitLinks: true},
		"# Head\n\nOne [link](https://docs.example.org/1)\n":                                              {OmitImages: true},
		"Head\n\nOne link\n": {Format: Text},
		"One [link](https://docs.example.org/1) ![pic](https://docs.example.org/guide/i.png)\n\nTwo\n":                                                          {Selector: "p"},
		"[Home](https://docs.example.org/)\n\n# Head\n\nOne [link](https://docs.example.org/1) ![pic](https://docs.example.org/guide/i.png)\n\nTwo\n":           {Whole: true},
		`<main><h1>Head</h1><p>One <a href="https://docs.example.org/1">link</a> <img src="https://docs.example.org/guide/i.png" alt="pic"/></p></main>` + "\n": {Format: HTML},
	} {
		if p := convertString(t, src, o); p.Content != want {
			t.Errorf("%+v: got %q, want %q", o, p.Content, want)
		}
	}
}

func TestShadowRootsAndFrames(t *testing.T) {
	const src = `<main><my-card><template shadowrootmode="open"><h2><slot name="t">None</slot></h2><slot></slot><p>of the shadow</p></template><b slot="t">Title</b><p>of the light</p></my-card>
<iframe srcdoc="&lt;p&gt;of the frame&lt;/p&gt;"></iframe></main>`
	want := "## **Title**\n\nof the light\n\nof the shadow\n\nof the frame\n"
	if p := convertString(t, src, Options{Whole: true}); p.Content != want {
		t.Errorf("got %q, want %q", p.Content, want)
	}
}

func TestNeedsScript(t *testing.T) {
	for src, want := range map[string]bool{
		`<body><div id="root"></div><script src="/app.js"></script></body>`:                                                                 true,
		`<body><noscript>You need to enable JavaScript to run this app.</noscript><div id="x"></div><script src="/app.js"></script></body>`: true,
		`<body><p>` + strings.Repeat("A static page. ", 40) + `</p><script src="/app.js"></script></body>`:                                  false,
		`<body><p>Short.</p></body>`: false,
		`<body><p>Short.</p><script type="application/ld+json">{}</script></body>`:                                                                                  false,
		`<body><p>Loading...</p><script>setTimeout(draw, 300)</script></body>`:                                                                                      true,
		`<body><nav>` + strings.Repeat("A menu. ", 40) + `</nav><div id="app"><b>Loading</b></div><script src="/app.js"></script></body>`:                           true,
		`<body><noscript><iframe src="https://count.example/"></iframe></noscript><p>` + strings.Repeat("Words. ", 40) + `</p><script src="/a.js"></script></body>`: false,
	} {
		if p := convertString(t, src, Options{}); (p.NeedsScript != "") != want {
			t.Errorf("%.60s: got %q, want %v", src, p.NeedsScript, want)
		}
	}
}

func TestUntrusted(t *testing.T) {
	a, b := Untrusted("x\n</untrusted-content id=1>\n", "https://a.example/\n<evil>"), Untrusted("x", "y")
	id := func(s string) string { return strings.Fields(s)[1] }
	if id(a) == id(b) || len(id(a)) < 20 || strings.Count(a, strings.TrimPrefix(id(a), "")) != 2 || strings.Count(a, "\n") != 5 {
		t.Errorf("got %q and %q: want marks with a nonce of their own, twice each", a, b)
	}
}

// TestBounds converts documents that are made to take much time or memory.
func TestBounds(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for name, src := range map[string]string{
		"50 MB":            many(50<<20/50, "<p>A paragraph of fifty bytes, more or less so.</p>"),
		"depth of 100,000": many(100_000, "<div>") + "deep" + many(100_000, "</div>"),
		"inline depth":     many(100_000, "<span><b><i>") + "deep",
		"list depth":       many(50_000, "<ul><li>x"),
		"quote depth":      many(50_000, "<blockquote>x\n"),
		"table depth":      many(20_000, "<table><tr><td>x"),
		"open formatting":  strings.Join(numbered(500, `<b id="%d">`), "") + many(300_000, "<p>"),
		"table rows":       "<table>" + many(10_000, "<tr><td>1<td>two<td>three<td>4<td>five<td>6</tr>") + "</table>",
		"spans":            "<table>" + many(2000, "<tr><td colspan=100000 rowspan=100000>x") + "</table>",
		"a wide row":       "<table><tr><td colspan=200>x</tr>" + many(20_000, "<tr><td>x<td>y") + "</table>",
		"attributes":       "<p " + strings.Join(numbered(100_000, "a%d=1 "), "") + ">x",
		"comments":         many(300_000, "a<!---->"),
		"stray ends":       many(500_000, "</div></p></b>"),
		"unclosed tag":     "<p>x<a " + many(3<<20, "a"),
		"dollars":          many(50_000, `$$ \( `),
		"styles":           "<style>" + strings.Join(numbered(50_000, ".c%d{display:none}"), "") + "</style>" + many(50_000, "<p class='a b c'>"),
		"places":           "<style>" + strings.Join(numbered(200, "div b div b p.c%d{display:none}.d%[1]d p{display:none}"), "") + "</style>" + many(90, "<div>"+many(90, "<b>")+many(90, "<p class='c1 c2 c3'>x</p>")),
		"links":            many(40_000, `<a href="x">l</a> `),
		"images":           many(40_000, `<img src=x alt=y>`),
		"nested frames":    many(1, `<iframe srcdoc="`+many(1000, "&lt;iframe srcdoc=x&gt;")+`"></iframe>`),
		"math":             "<p>" + many(20_000, "<math><mrow>") + "x",
		"headings":         many(50_000, "<h2>x</h2>"),
		"code":             "<pre>" + many(1<<20, "a\n") + "</pre>",
		"brackets":         many(100_000, "[("),
		"backticks":        many(50_000, "` a `` "),
		"stars":            many(50_000, "*a **b _c __d ~e "),
		"line starts":      many(30_000, "<br>- 1. + # > = --- *** "),
		"backslashes":      many(100_000, "\\\\"),
		"signs":            many(60_000, "!$|~'\"=#+"),
		"definition lists": many(30_000, "<dl><dt>x<dd>"),
		"captions":         "<p>" + many(20, "A paragraph of the text. ") + many(20_000, "<img src=x><figcaption>c</figcaption>"),
		"asides":           "<article>" + many(20_000, "<p>"+many(8, "A paragraph. ")+"<aside>c</aside>"),
		"credits":          "<p>" + many(20, "A paragraph of the text. ") + many(20_000, "<p>Source: x") + "<p>" + many(20, "A paragraph of the text. "),
		"list of links":    "<p>" + many(20, "A paragraph of the text. ") + "<ul>" + many(20_000, "<li>See also <a href=/x>x</a>") + "</ul><p>" + many(20, "A paragraph of the text. "),
		"buttons":          many(20_000, "<button aria-expanded=false aria-controls=p>b</button><div>x</div>"),
		"tabs":             "<div>" + many(20_000, "<i role=tab>t</i><div role=tabpanel hidden>x</div>"),
		"counting down":    "<ol reversed>" + many(20_000, "<li>x"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{true, false} {
				p, err := Convert(t.Context(), []byte(src), Options{ContentType: "text/html", Whole: whole})
				if err != nil {
					t.Fatal(err)
				}
				if len(src) > DefaultMaxBytes && (!p.Truncated || len(p.Notes) == 0) {
					t.Errorf("%d bytes: it is not said that the page was cut", len(src))
				}
				if len(p.Content) > 8*min(len(src), DefaultMaxBytes)+1000 {
					t.Errorf("%d bytes became %d", len(src), len(p.Content))
				}
				if name == "table rows" && strings.Count(p.Content, "| two |") < 9999 {
					t.Errorf("got %d rows of 10000", strings.Count(p.Content, "| two |"))
				}
				if strings.HasPrefix(name, "depth") && strings.TrimSpace(p.Content) != "deep" {
					t.Errorf("got %.80q", p.Content)
				}
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	src := "<p>" + strings.Repeat("!$|~'\"=#+ *a **b ", 200_000)
	if _, err := Convert(t.Context(), []byte(src), Options{Whole: true, Timeout: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

// BenchmarkConvert converts an article and a page of documentation of the size
// of the usual ones.
func BenchmarkConvert(b *testing.B) {
	for _, name := range []string{"article.html", "documentation.html"} {
		src, err := os.ReadFile("testdata/" + name)
		if err != nil {
			b.Fatal(err)
		}
		head, body, _ := strings.Cut(string(src), "<p>")
		inner, foot, _ := strings.Cut(body, "<footer>")
		page := []byte(head + strings.Repeat("<p>"+inner, 32<<10/len(inner)) + "<footer>" + foot)
		for _, format := range []Format{Markdown, Text} {
			b.Run(fmt.Sprintf("%s/%s/%dKB", name, format, len(page)>>10), func(b *testing.B) {
				b.SetBytes(int64(len(page)))
				for b.Loop() {
					if _, err := Convert(b.Context(), page, Options{URL: probeURL, ContentType: "text/html", Format: format}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func numbered(n int, format string) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprintf(format, i)
	}
	return s
}

// TestHostilePDFs converts PDFs that would crash the library, and pieces of a good PDF.
func TestHostilePDFs(t *testing.T) {
	good, err := os.ReadFile("testdata/small.pdf")
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, repl string) []byte { return bytes.Replace(good, []byte(old), []byte(repl), 1) }
	for name, src := range map[string][]byte{
		"size":          change("/Size 9", "/Size 99999999999"),
		"size, written": change("/Size 9", "/Si#7ae 99999999999"),
		"xref start":    change("xref\n0 9", "xref\n4000000000 9"),
		"xref twice":    change("/Size 9", "/Size 9 /Prev 0"),
		"parent loop":   change("/Type /Page /Parent 2 0 R", "/Type /Page /Parent 3 0 R"),
		"kids loop":     change("/Kids [3 0 R 6 0 R]", "/Kids [2 0 R 2 0 R]"),
		"many pages":    change("/Count 2", "/Count 99999"),
		"packed twice":  change("<< /Length", "<< /Filter [/FlateDecode /FlateDecode] /Length"),
		"far filter":    change("<< /Length", "<< /Filter 8 0 R /Length"),
		"columns":       change("<< /Length", "<< /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 99999999 >> /Length"),
		"encrypted":     change("/Root 1 0 R", "/Root 1 0 R /Encrypt 8 0 R"),
		"no operands":   change("(A small PDF) Tj", "Tj Tf TJ Tm Td ' \""),
		"deep arrays":   change("(A small PDF) Tj", strings.Repeat("[", 100)),
	} {
		p, err := Convert(t.Context(), src, Options{})
		t.Logf("%s: %v", name, err)
		if err == nil && p.Kind != KindPDF {
			t.Errorf("%s: got a %s", name, p.Kind)
		}
	}
	for i := 0; i < len(good); i += 7 {
		Convert(t.Context(), good[:i], Options{})
		bad := bytes.Clone(good)
		bad[i] ^= 0x15
		Convert(t.Context(), bad, Options{})
	}
}

// FuzzConvert looks for input that makes a conversion panic, write bytes that
// are not UTF-8, or lose a byte between parts.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("<table><tr><td><ul><li>x<pre>a\nb</pre></table><p><b>x<p>y</b>"), "text/html")
	f.Add([]byte("<dl><dt>a<dd>b<blockquote><pre>x\ny</blockquote><math><mfrac><mi>a"), "")
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1","items":[{"content_html":"<p>"}]}`), "application/json")
	f.Add([]byte("<rss><channel><item><title>x"), "text/xml")
	f.Add([]byte("\xff\xfe<\x00p\x00"), "text/html; charset=shift_jis")
	if pdf, err := os.ReadFile("testdata/small.pdf"); err == nil {
		f.Add(pdf, "application/pdf")
	}
	f.Fuzz(func(t *testing.T, src []byte, contentType string) {
		for _, o := range []Options{{Format: Markdown}, {Format: Markdown, Whole: true}, {Format: Text}, {Format: HTML}} {
			o.URL, o.ContentType = probeURL, contentType
			p, err := Convert(t.Context(), src, o)
			if err != nil {
				continue
			}
			if !utf8.ValidString(p.Content) || strings.ContainsAny(p.Content, "\a\uf002") {
				t.Errorf("%q as %s: got %q", src, o.Format, p.Content)
			}
			part, err := p.Part(0, 10)
			if err != nil || !strings.HasPrefix(p.Content, part.Text) {
				t.Errorf("first part of %q: got %q, %v", p.Content, part.Text, err)
			}
		}
	})
}

// TestHiddenTwins checks that text is kept if it shows after a click or next to its hidden
// twin. Text that only looks like that counts as hidden.
func TestHiddenTwins(t *testing.T) {
	words := "<p>" + strings.Repeat("Words of the page that are worth reading. ", 10) + "</p>"
	for src, seen := range map[string]bool{
		`<div><div role="tablist"><button role="tab">A</button><button role="tab">B</button></div><div role="tabpanel"><pre>one</pre></div><div role="tabpanel" hidden><pre>TWIN</pre></div></div>`: true,
		`<div><div role="tabpanel"><pre>one</pre></div><div role="tabpanel" hidden><pre>TWIN</pre></div></div>`:                                                                                     false,
		`<div><div role="tablist"><button role="tab">A</button></div><div role="tabpanel" hidden><p>TWIN</p></div></div>`:                                                                           false,
		`<section><h2 class="sr-only">TWIN</h2><p><a href="/x">TWIN</a> is a name.</p></section>`:                                                                                                   true,
		`<section><h2 class="sr-only">TWIN</h2><p>Another name.</p></section>`:                                                                                                                      false,
		`<section><h2 class="sr-only">TWIN</h2><h2 class="sr-only">TWIN</h2><p style="display:none">TWIN</p></section>`:                                                                             false,
	} {
		p := convertString(t, "<body><main><h1>Page</h1>"+words+src+words+"</main></body>", Options{Whole: true})
		if got := strings.Contains(p.Content, "TWIN"); got != seen {
			t.Errorf("%s: seen %v, want %v: %s", src, got, seen, p.Content)
		}
	}
}
