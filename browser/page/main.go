package page

import (
	"strings"

	"golang.org/x/net/html"
)

// generators are the programs that write documentation, as they name
// themselves in a meta element.
var generators = []string{
	"sphinx", "docusaurus", "mkdocs", "rustdoc", "javadoc", "asciidoc", "doxygen", "docbook", "vitepress", "vuepress", "gitbook",
	"mdbook", "docutils", "zensical", "starlight", "antora", "nextra", "hexdocs", "ex_doc", "yard", "typedoc", "jsdoc", "pdoc", "texinfo", "makeinfo", "mandoc", "groff", "dokuwiki",
}

// isDocumentation reports whether a page is of the kind that marks its content: by its
// generator, or because it shows code.
func isDocumentation(doc *html.Node) bool {
	code := 0
	found := false
	marks := set(documentationMarks)
	walk(doc, func(n *html.Node) bool {
		switch {
		case found:
			return false
		case is(n, "meta") && strings.EqualFold(attr(n, "name"), "generator"):
			content := strings.ToLower(attr(n, "content"))
			for _, g := range generators {
				found = found || strings.Contains(content, g)
			}
		case n.Type == html.ElementNode && !is(n, "pre") && marked(n, marks):
			found = true
		case is(n, "pre"):
			if length(n) > 20 {
				code++
			}
			found = code >= 2
			return false
		}
		return true
	})
	return found
}

// documentationMarks are classes and ids of the frames that generators of
// documentation put around every page.
const documentationMarks = `sphinxsidebar toctree-l1 wy-nav-side wy-nav-content sidebar-scrollbox bs-sidebar md-nav md-sidebar theme-doc-sidebar-container
	VPSidebar VPDoc starlight-toc rst-content bd-sidebar furo-sidebar apidoc navfooter theme-doc-markdown sl-markdown-content gitbook-root book-summary docsify hextra-toc doc-content
	refentry mw-parser-output`

func marked(n *html.Node, marks *wordSet) bool {
	if marks.has(attr(n, "id")) {
		return true
	}
	for w := range strings.FieldsSeq(attr(n, "class")) {
		if marks.has(w) {
			return true
		}
	}
	return false
}

// isContent reports whether an element is one in which documentation puts the main content
// of a page.
func isContent(n *html.Node) bool {
	if is(n, "main", "article") || attr(n, "role") == "main" || attr(n, "itemprop") == "articleBody" {
		return true
	}
	switch attr(n, "id") {
	case "main-content", "content", "main", "apicontent", "bodyContent", "mw-content-text", "doc-content", "documentation":
		return true
	}
	return hasClass(n, "content", "contents", "main-content", "md-content", "markdown-body", "theme-doc-markdown", "rst-content", "documentwrapper", "contentContainer", "page-content", "post-content", "entry-content", "article-body")
}

// mainOf returns the element that is marked as the content of a page, or the body if no
// such element contains a large part of the page. If one such element is inside another, it
// returns the inner one, if that has almost all of the outer one's paragraphs, code and
// tables.
func mainOf(body *html.Node) *html.Node {
	var best *html.Node
	most, weight := 0, 0
	for _, n := range all(body, isContent) {
		size := contentLength(n)
		if within(n, nil, "nav", "aside", "footer") != nil || size == 0 {
			continue
		}
		w := substance(n)
		if best == nil || size > most && !contains(best, n) || contains(best, n) && w*100 >= weight*97 && size*10 > most*6 {
			best, most, weight = n, size, w
		}
	}
	if best == nil || most*5 < contentLength(body) {
		return body
	}
	if file := renderedFile(best); file != nil {
		return file
	}
	return best
}

// renderedFile returns the one file that a forge shows under its description of a
// repository, if the file is a large part of the page, or nil.
func renderedFile(main *html.Node) *html.Node {
	found := all(main, func(n *html.Node) bool { return is(n, "article", "div") && hasClass(n, "markdown-body") })
	if len(found) != 1 || paragraphs(found[0])*2 < paragraphs(main) || contentLength(found[0])*4 < contentLength(main) {
		return nil
	}
	return found[0]
}

// substance counts the letters that are certainly worth reading: those in paragraphs, code
// and cells of tables.
func substance(n *html.Node) int {
	total := paragraphs(n)
	for _, c := range named(n, "pre", "td") {
		total += length(c)
	}
	return total
}

// contentLength counts the letters of a page that are not in its navigation.
func contentLength(body *html.Node) int {
	total := 0
	walk(body, func(n *html.Node) bool {
		if is(n, "script", "style", "template", "noscript") || isChrome(n) {
			return false
		}
		if n.Type == html.TextNode {
			total += letters(n.Data)
		}
		return true
	})
	return total
}

// chromeClasses are classes and ids of the navigation that documentation has around its
// text.
var chromeClasses = set(`sidebar sidebars sphinxsidebar wy-nav-side navbar topbar nav navheader navfooter navigation navpath breadcrumb breadcrumbs
	wy-breadcrumbs toc toctree-wrapper-nav tocsidebar on-this-page table-of-contents pagination pagination-nav prev-next-area related footer site-footer
	header-container skip-nav skip-link sub-nav searchbox search-container search-form search-box menu-bar nav-chapters nav-wrapper
	mobile-nav-chapters theme-toggle edit-this-page md-sidebar md-footer md-header md-source-file feedback doc-footer
	rst-footer-buttons rst-versions theme-doc-toc-mobile theme-doc-toc-desktop theme-doc-footer theme-doc-breadcrumbs pagination-next pagination-prev
	bottom-nav top-nav memproto-nav editsection mw-editsection noprint navbox catlinks printfooter picker gtoc alt-docs
	out-of-band srclink source-link viewcode-link copy-path copybtn copybutton copy-button md-clipboard clipboard-copy gh-edit
	headerlink header-link permalink anchorjs-link hash-link heading-anchor toc-anchor test-arrow rustdoc-toggle-link`)

// isChrome reports whether an element is navigation.
func isChrome(n *html.Node) bool {
	if n.Type != html.ElementNode {
		return false
	}
	switch attr(n, "role") {
	case "navigation", "search", "banner", "contentinfo", "complementary", "toolbar", "menu", "menubar", "dialog", "alertdialog", "tablist":
		return !is(n, "main", "body", "article") && attr(n, "role") != "complementary" || attr(n, "role") == "complementary" && !is(n, "main", "body", "article", "section")
	}
	if is(n, "nav", "footer") {
		return true
	}
	if is(n, "aside") {
		// Notes and warnings are asides too.
		return !hasClass(n, "admonition", "note", "warning", "tip", "important", "caution", "danger", "info", "callout", "alert") && !hasClass(n, "footnote", "footnotes", "footnote-list", "topic", "starlight-aside")
	}
	if is(n, "header") {
		return first(n, isHeading) == nil
	}
	named := chromeClasses.has(strings.ToLower(attr(n, "id")))
	for w := range strings.FieldsSeq(strings.ToLower(attr(n, "class"))) {
		named = named || chromeClasses.has(w)
	}
	// A name alone decides nothing: a "sidebar" is also a box in the text, and "related" is
	// also the work of other people.
	return named && !is(n, "main", "article", "body", "section") && !isHeading(n) && (paragraphs(n) == 0 || looksBeside(n))
}

// dropChrome removes navigation, unless one piece of it is more than half of the
// text.
func dropChrome(root *html.Node) {
	total := length(root)
	walk(root, func(n *html.Node) bool {
		if n == root || !isChrome(n) {
			return true
		}
		if size := length(n); size*2 > total && size > 500 {
			return true
		}
		remove(n)
		return false
	})
}

// titleBlock returns the element before main that contains the page's heading, if main has
// none.
func titleBlock(body, main *html.Node) *html.Node {
	if main == body {
		return nil
	}
	inside := first(main, func(n *html.Node) bool { return is(n, "h1") }) != nil
	for _, h := range all(body, func(n *html.Node) bool {
		return is(n, "h1") && !inside || hasClass(n, "headertitle")
	}) {
		if contains(main, h) || contains(h, main) || within(h, nil, "nav", "aside", "footer") != nil || length(h) > 300 || length(h) == 0 || chromeAbove(h, body) {
			continue
		}
		// If the element around the heading has more than links, the rest of it is a
		// subtitle or the first section.
		top := h
		for top.Parent != nil && !contains(top.Parent, main) {
			top = top.Parent
		}
		if total, linked := measure(top); linked*3 < total && total < 5000 && top.Parent == main.Parent {
			return top
		}
		return h
	}
	return nil
}

func chromeAbove(n, top *html.Node) bool {
	for p := n; p != nil && p != top; p = p.Parent {
		if isChrome(p) {
			return true
		}
	}
	return false
}
