package fetch

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// maxHead bounds how many bytes of a page are searched for a meta refresh. maxRefresh is
// the longest delay, in seconds, of a refresh that counts as a redirect: a page with a
// longer delay is shown first.
const (
	maxHead    = 64 << 10
	maxRefresh = 5 // seconds
)

// metaRefresh returns the address to which a page immediately sends its reader, or "". It
// skips noscript elements, which are for browsers that run no scripts, and templates, which
// are not shown.
func metaRefresh(page []byte) string {
	page = page[:min(len(page), maxHead)]
	if !bytes.Contains(bytes.ToLower(page), []byte("http-equiv")) {
		return ""
	}
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(maxHead + 1)
	hidden := 0
	for {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			name, attrs := z.TagName()
			switch string(name) {
			case "body":
				return ""
			case "noscript", "template":
				hidden++
			case "meta":
				if to := refreshOf(z, attrs); to != "" && hidden == 0 {
					return to
				}
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "noscript" || string(name) == "template" {
				hidden = max(0, hidden-1)
			}
		case html.TextToken, html.CommentToken, html.DoctypeToken:
		}
	}
}

// refreshOf returns the target of one meta element.
func refreshOf(z *html.Tokenizer, more bool) string {
	refresh, content := false, ""
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		switch string(k) {
		case "http-equiv":
			refresh = strings.EqualFold(strings.TrimSpace(string(v)), "refresh")
		case "content":
			content = string(v)
		}
	}
	if !refresh {
		return ""
	}
	return refreshTarget(content)
}

// refreshTarget reads "0; url=..." (HTML, "shared declarative refresh steps"). It returns
// "" if the page only reloads itself, or if the delay is too long.
func refreshTarget(s string) string {
	s = strings.TrimLeft(s, " \t\r\n\f")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	whole, _, _ := strings.Cut(s[:end], ".")
	if n, err := strconv.Atoi(whole); err != nil && whole != "" || n > maxRefresh || end == 0 {
		return ""
	}
	s = strings.TrimLeft(s[end:], " \t\r\n\f;,")
	if len(s) >= 3 && strings.EqualFold(s[:3], "url") {
		if rest := strings.TrimLeft(s[3:], " \t\r\n\f"); strings.HasPrefix(rest, "=") {
			s = strings.TrimLeft(rest[1:], " \t\r\n\f")
		}
	}
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		s, _, _ = strings.Cut(s[1:], s[:1])
	}
	return strings.TrimSpace(s)
}
