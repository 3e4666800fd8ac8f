package page

import (
	"fmt"
	"strings"
	"testing"
)

// TestCommentsUnderAPage checks what happens to the comments of readers on pages that mark
// their content.
func TestCommentsUnderAPage(t *testing.T) {
	const said = "I tried this on my own machine, and the result was quite another one there."
	text := strings.Repeat("The compiler reads the whole of a unit before it decides what is put in line. ", 3)
	post := "<h1>On calls</h1>"
	for i := range 4 {
		post += fmt.Sprintf("<p>%s</p><pre>func f%d() int { return 40000 }</pre>", text, i)
	}
	item := `<li class="comment"><cite>A reader</cite> <a href="#c">March 3</a><p>` + said + `</p></li>`
	box := `<div id="respond"><h3>Leave a reply</h3><form><textarea></textarea></form></div>`
	answer := `<div class="answer"><p>` + text + `</p><pre>go build -gcflags=-m ./...</pre><ul class="comments-list">` + item + `</ul></div>`
	for name, c := range map[string]struct {
		html string
		kept bool
	}{
		"a list and a box":         {`<main><article>` + post + `</article><div id="comments"><h2>2 thoughts</h2><ol class="comment-list">` + item + item + `</ol>` + box + `</div></main>`, false},
		"in no main element":       {`<div id="content">` + post + `<ol class="commentlist">` + item + item + `</ol>` + box + `</div>`, false},
		"under each answer":        {`<div id="content">` + post + answer + answer + answer + `</div>`, true},
		"what the page is about":   {`<main><h1>Ask</h1><div class="comments">` + strings.Repeat(item, 40) + `</div><pre>one line of code that is long</pre><pre>one line of code that is long</pre></main>`, true},
		"a chapter of that name":   {`<main>` + post + `<section class="comments"><h2>Comments</h2><p>` + said + `</p></section></main>`, true},
		"text after it":            {`<main>` + post + `<div class="comments">` + item + item + `</div><p>` + text + text + `</p></main>`, true},
		"the whole page asked for": {`<body>` + post + `<div class="comments">` + item + item + `</div>`, true},
	} {
		p := convertString(t, "<!doctype html><title>T</title>"+c.html, Options{Whole: strings.HasPrefix(c.html, "<body>")})
		if kept := strings.Contains(p.Content, said); kept != c.kept {
			t.Errorf("%s: kept is %v, want %v; the page is\n%s", name, kept, c.kept, p.Content)
		}
		if told := len(p.Notes) > 0; told == c.kept {
			t.Errorf("%s: notes are %q", name, p.Notes)
		}
		if !strings.Contains(p.Content, "40000") && !strings.Contains(p.Content, "one line of code") {
			t.Errorf("%s: the page itself is lost:\n%s", name, p.Content)
		}
	}
}

// TestNamesAloneRemoveNothing checks that prose stays in elements whose names are those of
// navigation.
func TestNamesAloneRemoveNothing(t *testing.T) {
	const prose = "A box in the text, which says what a reader of this chapter must know before he goes on to the next one."
	code := strings.Repeat("<p>Some words of the chapter, which are many and go on.</p><pre>a line of code that is long</pre>", 8)
	for name := range chromeClasses.made() {
		for _, attribute := range []string{"class", "id"} {
			p := convertString(t, fmt.Sprintf(`<!doctype html><title>T</title><main><h1>Chapter</h1>%s<div %s="%s"><p>%s</p></div>%s</main>`, code, attribute, name, prose, code), Options{})
			if p.Extraction != ByMain || !strings.Contains(p.Content, prose) {
				t.Errorf("%s=%q: the prose in it is lost (%s)", attribute, name, p.Extraction)
			}
			p = convertString(t, fmt.Sprintf(`<!doctype html><title>T</title><main><h1>Chapter</h1>%s<div %s="%s"><a href="/a">One way on</a> <a href="/b">and another</a></div>%s</main>`, code, attribute, name, code), Options{})
			if strings.Contains(p.Content, "One way on") {
				t.Errorf("%s=%q: its links are kept", attribute, name)
			}
		}
	}
}
