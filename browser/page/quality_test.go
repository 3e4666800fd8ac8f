package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"unicode"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// shingles returns the 4-grams of the words of a text, with their counts.
func shingles(text string) map[string]float64 {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && r != '_'
	})
	m := make(map[string]float64)
	if len(words) == 0 {
		return m
	}
	if len(words) < 4 {
		m[strings.Join(words, " ")] = 1
		return m
	}
	for i := 0; i+4 <= len(words); i++ {
		m[strings.Join(words[i:i+4], " ")]++
	}
	return m
}

// score is the precision and recall of one page.
type score struct{ p, r float64 }

func compare(want, got string) score {
	a, b := shingles(want), shingles(got)
	var tp, fp, fn float64
	for k, n := range a {
		tp += min(n, b[k])
		fn += max(0, n-b[k])
	}
	for k, n := range b {
		fp += max(0, n-a[k])
	}
	s := score{}
	if tp == 0 && fp == 0 && fn == 0 {
		return score{1, 1}
	}
	if tp+fp > 0 {
		s.p = tp / (tp + fp)
	}
	if tp+fn > 0 {
		s.r = tp / (tp + fn)
	}
	return s
}

// mean returns the means of precision and recall, and F1 from these means.
func mean(all []score) (f, p, r float64) {
	for _, s := range all {
		p += s.p
		r += s.r
	}
	p /= float64(len(all))
	r /= float64(len(all))
	return 2 * p * r / (p + r), p, r
}

func readGzip(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestArticleQuality needs a directory of saved articles with their text:
// html/<id>.html.gz and ground-truth.json.
func TestArticleQuality(t *testing.T) {
	dir, truth := os.Getenv("BELLJAR_QUALITY_ARTICLES"), articles(t)
	ids := make([]string, 0, len(truth))
	for id := range truth {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	var scores, marked, even, odd []score
	pictures, targets := regexp.MustCompile(`!\[(?:[^\]\\]|\\.)*\]\((?:[^)"]|"[^"]*")*\)`), regexp.MustCompile(`\]\([^)]*\)`)
	for i, id := range ids {
		src := readGzip(t, filepath.Join(dir, "html", id+".html.gz"))
		p, err := Convert(t.Context(), src, Options{URL: truth[id].URL, Format: Text, ContentType: "text/html; charset=utf-8"})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		s := compare(truth[id].Body, p.Content)
		md, err := Convert(t.Context(), src, Options{URL: truth[id].URL, ContentType: "text/html; charset=utf-8"})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		marked = append(marked, compare(truth[id].Body, targets.ReplaceAllString(pictures.ReplaceAllString(md.Content, ""), "]")))
		if out := os.Getenv("BELLJAR_QUALITY_OUT"); out != "" {
			os.WriteFile(filepath.Join(out, id+".got"), []byte(p.Content), 0o600)
			os.WriteFile(filepath.Join(out, id+".md"), []byte(md.Content), 0o600)
			os.WriteFile(filepath.Join(out, id+".want"), []byte(truth[id].Body), 0o600)
		}
		t.Logf("%s p %.3f r %.3f %-11s %s", id[:8], s.p, s.r, p.Extraction, truth[id].URL[:min(70, len(truth[id].URL))])
		scores = append(scores, s)
		if i%2 == 0 {
			even = append(even, s)
		} else {
			odd = append(odd, s)
		}
	}
	f, p, r := mean(scores)
	fe, _, _ := mean(even)
	fo, _, _ := mean(odd)
	t.Logf("articles: %d pages, F1 %.3f precision %.3f recall %.3f (halves %.3f %.3f)", len(scores), f, p, r, fe, fo)
	fm, pm, rm := mean(marked)
	t.Logf("articles as markdown, without targets and images: F1 %.3f precision %.3f recall %.3f", fm, pm, rm)
	if f < 0.9825 {
		t.Errorf("articles: got F1 %.3f, want at least 0.983", f)
	}
}

// generatorTruth contains, for each generator, the element with the content of a page.
var generatorTruth = map[string]string{
	"sphinx": "div.body", "docbook": "body", "asciidoc": "body", "node": "#apicontent", "rustdoc": "#main-content",
	"mdbook": "main", "javadoc": "main", "mkdocs": "[role=main]", "doxygen": "div.header, div.contents",
}

// besideContent matches the navigation that generators put into that element.
const besideContent = `script, style, template, .headerlink, .navheader, .navfooter, #footer, .nav, nav, .summary-nav, .sub-nav, .srclink, .out-of-band,
	#copy-path, a.anchor, .linenos, .ttc, .viewcode-link, a[href*='_modules/'] > .viewcode-link, .srclink, .toc-title, .nav-chapters, .sphinxsidebar, .mark > a, #help, .hidden, .anchor, .mobile-nav-chapters, button, input, select, form`

func TestDocumentationQuality(t *testing.T) {
	dir := os.Getenv("BELLJAR_QUALITY_DOCS")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		t.Skip("BELLJAR_QUALITY_DOCS names no directory of documentation; scripts/docs-corpus makes one")
	}
	var every []score
	var code, rows, heads [2]float64
	for _, g := range []string{"sphinx", "docbook", "asciidoc", "node", "rustdoc", "mdbook", "javadoc", "mkdocs", "doxygen"} {
		var scores []score
		var c, r, h [2]float64
		files, _ := filepath.Glob(filepath.Join(dir, g, "*"))
		for _, name := range files {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want, parts := truthOf(t, src, generatorTruth[g])
			if letters(want) < 200 {
				continue
			}
			p, err := Convert(t.Context(), src, Options{URL: "https://docs.example/" + filepath.Base(name), Format: Text})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			s := compare(want, p.Content)
			scores = append(scores, s)
			md, err := Convert(t.Context(), src, Options{URL: "https://docs.example/" + filepath.Base(name), OmitLinks: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			b := [3][2]float64{c, r, h}
			kept(&c, parts.code, strings.ReplaceAll(md.Content, "<br>", " "), 4)
			kept(&r, parts.rows, strings.ReplaceAll(md.Content, "<br>", " "), 1)
			kept(&h, parts.heads, md.Content, 1)
			if s.p < 0.97 || s.r < 0.97 || c[1]-b[0][1] > c[0]-b[0][0] || r[1]-b[1][1] > r[0]-b[1][0] || h[1]-b[2][1] > h[0]-b[2][0] {
				t.Logf("  %s p %.3f r %.3f %s code %v rows %v heads %v", filepath.Base(name), s.p, s.r, p.Extraction, [2]float64{c[0] - b[0][0], c[1] - b[0][1]}, [2]float64{r[0] - b[1][0], r[1] - b[1][1]}, [2]float64{h[0] - b[2][0], h[1] - b[2][1]})
				if out := os.Getenv("BELLJAR_QUALITY_OUT"); out != "" {
					os.WriteFile(filepath.Join(out, g+filepath.Base(name)+".got"), []byte(p.Content), 0o600)
					os.WriteFile(filepath.Join(out, g+filepath.Base(name)+".md"), []byte(md.Content), 0o600)
					os.WriteFile(filepath.Join(out, g+filepath.Base(name)+".want"), []byte(want), 0o600)
				}
			}
		}
		if len(scores) == 0 {
			t.Logf("%-9s no pages", g)
			continue
		}
		f, p, rc := mean(scores)
		t.Logf("%-9s %3d pages F1 %.3f precision %.3f recall %.3f code %.3f rows %.3f headings %.3f", g, len(scores), f, p, rc, share(c), share(r), share(h))
		every = append(every, scores...)
		for i := range 2 {
			code[i], rows[i], heads[i] = code[i]+c[i], rows[i]+r[i], heads[i]+h[i]
		}
	}
	f, p, r := mean(every)
	t.Logf("documentation: %d pages, F1 %.3f precision %.3f recall %.3f code %.4f rows %.4f headings %.4f", len(every), f, p, r, share(code), share(rows), share(heads))
	if f < 0.98 || share(code) < 0.9995 || share(rows) < 0.99 || share(heads) < 0.98 {
		t.Error("documentation: want F1 0.98, code 1.00, rows 0.99, headings 0.98")
	}
}

func share(n [2]float64) float64 {
	if n[1] == 0 {
		return 1
	}
	return n[0] / n[1]
}

type docParts struct{ code, rows, heads []string }

// truthOf returns the text of the content element of a page, and its parts. It uses the
// parser of x/net/html, and not the code under test.
func truthOf(t *testing.T, src []byte, selector string) (string, docParts) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	beside := cascadia.MustCompile(besideContent)
	var text []string
	var parts docParts
	for _, n := range cascadia.MustCompile(selector).MatchAll(doc) {
		for _, x := range beside.MatchAll(n) {
			remove(x)
		}
		text = append(text, plainText(n))
		for _, pre := range all(n, func(n *html.Node) bool { return is(n, "pre") || hasClass(n, "fragment") }) {
			parts.code = append(parts.code, rawTextOf(pre))
		}
		for _, tr := range named(n, "tr") {
			cells := named(tr, "td", "th")
			if within(tr, n, "pre") == nil && len(named(tr, "table")) == 0 && len(cells) > 0 {
				var words []string
				for _, c := range cells {
					words = append(words, plainText(c))
				}
				parts.rows = append(parts.rows, strings.Join(words, " "))
			}
		}
		for _, h := range all(n, isHeading) {
			if lineOf(h) != "" {
				parts.heads = append(parts.heads, lineOf(h))
			}
		}
	}
	return strings.Join(text, "\n"), parts
}

// kept counts how much of the parts a text contains: all words of a part in a row if n is
// 1, and runs of n words otherwise.
func kept(sum *[2]float64, parts []string, text string, n int) {
	words := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	}
	flat := " " + strings.Join(words(text), " ") + " "
	for _, part := range parts {
		w := words(part)
		if len(w) == 0 {
			continue
		}
		if n == 1 || len(w) < n {
			sum[1]++
			if strings.Contains(flat, " "+strings.Join(w, " ")+" ") {
				sum[0]++
			}
			continue
		}
		for i := 0; i+n <= len(w); i++ {
			sum[1]++
			if strings.Contains(flat, " "+strings.Join(w[i:i+n], " ")+" ") {
				sum[0]++
			}
		}
	}
}

// TestSkeletonQuality puts the texts of the articles into pages that the rules were
// not made with: each skeleton of testdata has menus, teasers, forms or comments
// around a place for the text.
func TestSkeletonQuality(t *testing.T) {
	truth := articles(t)
	names, err := filepath.Glob("testdata/skeletons/*.html")
	if err != nil || len(names) == 0 {
		t.Fatalf("no skeletons: %v", err)
	}
	for _, name := range names {
		skeleton, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var scores []score
		for id, a := range truth {
			p, err := Convert(t.Context(), a.in(string(skeleton)), Options{URL: a.URL, Format: Text, ContentType: "text/html; charset=utf-8"})
			if err != nil {
				t.Errorf("%s in %s: %v", id, name, err)
				continue
			}
			s := compare(a.Body, p.Content)
			if s.p < 0.9 || s.r < 0.9 {
				t.Logf("%s in %s: p %.3f r %.3f %s", id[:8], name, s.p, s.r, p.Extraction)
			}
			scores = append(scores, s)
		}
		f, p, r := mean(scores)
		t.Logf("%-36s %d pages F1 %.3f precision %.3f recall %.3f", name, len(scores), f, p, r)
		if f < 0.97 {
			t.Errorf("%s: got F1 %.3f, want at least 0.97", name, f)
		}
	}
}

// article is the text of a saved page, and its URL.
type article struct {
	Body string `json:"articleBody"`
	URL  string `json:"url"`
}

// articles returns the articles of the directory in BELLJAR_QUALITY_ARTICLES, by their ids.
func articles(t *testing.T) (all map[string]article) {
	t.Helper()
	dir := os.Getenv("BELLJAR_QUALITY_ARTICLES")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		t.Skip("BELLJAR_QUALITY_ARTICLES names no directory of articles")
	}
	text, err := os.ReadFile(filepath.Join(dir, "ground-truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// in returns the article in a skeleton: in paragraphs, in blocks or with line breaks, whole
// or in two halves.
func (a article) in(skeleton string) []byte {
	var lines []string
	for line := range strings.Lines(a.Body) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, html.EscapeString(line))
		}
	}
	within := func(lines []string, before, after string) string {
		return before + strings.Join(lines, after+"\n"+before) + after
	}
	half := len(lines) / 2
	return []byte(strings.NewReplacer(
		"{{TITLE}}", "A report of this week", "{{P}}", within(lines, "<p>", "</p>"), "{{DIV}}", within(lines, "<div>", "</div>"),
		"{{BR}}", within(lines, "", "<br><br>"), "{{HALF1}}", within(lines[:half], "<p>", "</p>"), "{{HALF2}}", within(lines[half:], "<p>", "</p>"),
	).Replace(skeleton))
}
