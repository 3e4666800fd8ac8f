package page

import (
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// nextWords matches the text of a link to the next page of a list.
var nextWords = pattern(`(?i)^\W*(next|next page|older( posts| entries)?|more results|show more|load more|weiter|nächste( seite)?|suivante?|page suivante|siguiente|próxima|avanti|volgende|nästa|dalej|далее|следующая|次へ|次のページ|下一页|下一頁|다음)?\s*[»›→>]*\W*$`)

// nextPage returns the link to the next page, if the page is a part of a list or an
// article, or nil. The link says so, and its address differs from the page's only in a
// number.
func nextPage(root *html.Node, base *url.URL) *html.Node {
	found := first(root, func(n *html.Node) bool {
		if !is(n, "a") || attr(n, "rel") != "next" && (length(n) > 30 || !nextWords().MatchString(lineOf(n)) || lineOf(n) == "") {
			return false
		}
		u, err := base.Parse(strings.TrimSpace(attr(n, "href")))
		if err != nil || u.Host != base.Host {
			return false
		}
		place := func(u *url.URL) string { return strings.TrimSuffix(pageNumber().ReplaceAllString(u.Path, ""), "/") }
		return place(u) == place(base) && (u.Path != base.Path || u.RawQuery != base.RawQuery && strings.ContainsAny(u.RawQuery, "0123456789"))
	})
	if found == nil {
		return nil
	}
	return clone(found)
}

// pageNumber is the end of a path that numbers its pages.
var pageNumber = pattern(`(/page)?[/_-](p|page)?\d{1,4}(\.html?)?/?$`)

// turnPage puts the link to the next page at the end of the content that was taken from
// this page, if the content does not have it.
func turnPage(taken, next *html.Node) {
	if next == nil || first(taken, func(n *html.Node) bool { return is(n, "a") && attr(n, "href") == attr(next, "href") }) != nil {
		return
	}
	taken.AppendChild(element("p", next))
}
