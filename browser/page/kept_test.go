package page

import (
	"strings"
	"testing"
)

// paragraph is a text that certainly counts as a paragraph.
const paragraph = `<p>The ferry leaves the pier at seven in the morning, and is back before noon unless the wind turns; whoever misses it waits a day.</p>`

// post returns an article with something before, between and after its paragraphs.
func post(before, between, after string) string {
	return `<!doctype html><title>The log of the ferry</title><body><nav><a href="/">Home</a></nav><main><article><h1>Timetables</h1>` + before +
		paragraph + paragraph + between + paragraph + paragraph + paragraph + after + `</article></main>`
}

// TestArticleKeeps checks that parts of an article stay although their names also name
// things next to articles: a name alone decides nothing.
func TestArticleKeeps(t *testing.T) {
	for _, part := range []string{
		`<h2 id="related-work">Related work</h2>` + paragraph + `<h2>Next</h2>`,
		`<h2 id="what-i-like-about-it">What I like about it</h2>` + paragraph,
		`<h2 id="comments-on-the-design">Comments on the design</h2>` + paragraph,
		`<h3 class="menu">Menu</h3>` + paragraph,
		`<h3><a href="/a/first-part-of-it">The first part of it</a></h3>` + paragraph,
		`<ul class="tools"><li>a whisk</li><li>a bowl</li></ul>`,
		`<ul id="categories"><li>hot rows</li></ul>`,
		`<ol><li>Read more memory than needed</li><li>Save</li><li>See also <a href="/m">the manual</a></li><li>Home is where the key is</li></ol>`,
		`<p class="social">Social costs are shared.</p>`,
		`<p>Share this lock between sessions</p>`,
		`<p>Subscribe to the channel with LISTEN</p>`,
		`<p>Source: the census of 2020</p>`,
		`<p><a href="/docs/install">Installation guide for administrators</a></p>`,
		`<div class="related-tables">The related tables are joined by their keys.</div>`,
		`<section id="survey-results"><p>Of all users 40 percent upgraded.</p></section>`,
		`<figure><table><tr><td>cell</td></tr></table><figcaption>What the table says.</figcaption></figure>`,
		`<figure><pre>x = 1</pre><figcaption>What the code does.</figcaption></figure>`,
		`<figure><blockquote><p>Quoted.</p></blockquote><figcaption>Ada Lovelace</figcaption></figure>`,
		`<figure><img src="/a.png"><img src="/b.png"><figcaption>Both of them.</figcaption></figure>`,
	} {
		p := convertString(t, post("", part, ""), Options{})
		want := convertString(t, "<!doctype html><body>"+part, Options{Whole: true})
		for line := range strings.Lines(want.Content) {
			if !strings.Contains(p.Content, strings.TrimSpace(line)) {
				t.Errorf("%.200s\nis by %s without %q:\n%s", part, p.Extraction, line, p.Content)
				break
			}
		}
	}
}

// TestArticleKeepsLead checks that what stands before the first long paragraph stays.
func TestArticleKeepsLead(t *testing.T) {
	for part, want := range map[string]string{
		`<p>Serves 4</p>`: "Serves 4",
		`<h2>Ingredients</h2><ul><li>2 eggs</li><li>Salt</li></ul>`:                                    "- 2 eggs\n- Salt",
		`<details><summary>Which one?</summary>` + paragraph + `</details>`:                            "**Which one?**",
		`<dl><dt>Which one?</dt><dd>` + paragraph + `</dd></dl>`:                                       "Which one?\n:",
		`<div class="author">ann</div>` + strings.Repeat(paragraph+`<div class="author">bob</div>`, 3): "ann",
	} {
		if p := convertString(t, post(part, "", ""), Options{}); !strings.Contains(p.Content, want) {
			t.Errorf("%s\nis by %s without %q:\n%s", part, p.Extraction, want, p.Content)
		}
	}
}

// TestArticleDrops is the control of the tests above: it checks that elements that are
// named as furniture and are built like it are removed.
func TestArticleDrops(t *testing.T) {
	for _, part := range []string{
		`<div class="share"><a href="https://s.example/?u=1">GONE</a> <a href="https://t.example/?u=1">GONE</a></div>`,
		`<div class="newsletter">GONE every week. <input name="mail"><button>Send</button></div>`,
		`<div class="related"><h3>GONE</h3><ul><li><a href="/a">GONE by train</a></li><li><a href="/b">GONE by bus</a></li></ul></div>`,
		`<p>Read more: <a href="/2026/05/the-boat-is-gone-again">GONE</a></p>`,
		`<p><a href="/2026/05/the-boat-is-gone-again">The boat is GONE again, and nobody knows where</a></p>`,
		`<figure><img src="/a.png"></figure><p>Photo: GONE / Getty</p>`,
		`<h3>Related</h3><ul><li><a href="/a">GONE by train to the north</a></li><li><a href="/b">GONE by bus to the south</a></li></ul>`,
		`<div class="ad">GONE<iframe src="https://ads.example/"></iframe></div>`,
	} {
		if p := convertString(t, post("", part, ""), Options{}); strings.Contains(p.Content, "GONE") {
			t.Errorf("%s\nis still there, by %s:\n%s", part, p.Extraction, p.Content)
		}
	}
	for _, part := range []string{
		`<p class="byline">By Ann GONE</p>`,
		`<div class="comments"><p>GONE is the first comment, and it is long enough to be a paragraph of the article if nobody looked at its name.</p></div>`,
		`<h3>GONE and other stories</h3><p><a href="/a">GONE</a></p>`,
	} {
		if p := convertString(t, post("", "", part), Options{}); strings.Contains(p.Content, "GONE") {
			t.Errorf("%s\nis still there after the end, by %s:\n%s", part, p.Extraction, p.Content)
		}
	}
}

// TestColumnsOfLinks checks that columns of links are not part of the text if a table
// places the parts of a page. A table of data keeps every cell, and so does a table in the
// text.
func TestColumnsOfLinks(t *testing.T) {
	links := strings.Repeat(`<a href="/a">Harbour reopens after the storm</a><br><a href="/b">Five walks for a wet Sunday</a><br>`, 4)
	data := `<table><tr><th>Ship</th><th>Papers</th></tr><tr><td>Lantern</td><td><a href="/l">the log of its first year</a></td></tr></table>`
	text := strings.Repeat("The boats went out at dawn, and all of them came back before noon, with nets that were heavier than those of any day of that year.<br><br>", 10)
	for name, page := range map[string]string{
		"beside": `<table><tr><td>` + links + `</td><td>` + text + data + `</td></tr></table>`,
		"above":  `<table><tr><td colspan=2>` + links + `</td></tr><tr><td>` + text + data + `</td><td>2026</td></tr></table>`,
		"within": `<table><tr><td><table><tr><td>` + links + `</td><td>` + text + data + `</td></tr></table></td></tr></table>`,
		"around": `<table><tr><td colspan="3"><a href="/">Home</a> | <a href="/n">News</a></td></tr><tr><td>` + links + `</td><td><font><b>At sea</b><br><br>` + text + data + `</font></td><td>Best viewed with any browser.</td></tr></table>`,
		"none":   `<article>` + text + data + `</article>`,
	} {
		p, err := Convert(t.Context(), []byte("<html><body>"+page+"</body></html>"), Options{URL: "https://lantern.example/", ContentType: "text/html"})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(p.Content, "Five walks") || !strings.Contains(p.Content, "the log of its first year") || strings.Count(p.Content, "at dawn") != 10 {
			t.Errorf("%s: links are kept, or text is lost:\n%s", name, p.Content)
		}
	}
}

// TestListBesideText checks a page that is a list of links, with a table that places it
// next to a text about it. Such a list is not a column of links.
func TestListBesideText(t *testing.T) {
	list := strings.Repeat(`<p><a href="/walk">Five walks for a wet Sunday</a></p>`, 60)
	about := strings.Repeat("These are the walks that members of the harbour club liked best, in the order of their votes. ", 6)
	page := `<table><tr><td>` + list + `</td><td>` + about + `</td></tr></table>`
	p, err := Convert(t.Context(), []byte("<html><body>"+page+"</body></html>"), Options{URL: "https://lantern.example/", ContentType: "text/html"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(p.Content, "Five walks"); got != 60 {
		t.Errorf("%d of 60 links are kept, by %s:\n%s", got, p.Extraction, p.Content)
	}
}
