package page

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Addresses are a third of what a page of documentation costs its reader, and
// most of that is said twice: where the page itself is, and where a link has led
// before. Links can be short without losing one:
//
//   - an address on the page's own host is a relative reference (RFC 3986,
//     section 4.2), which Page.URL completes;
//   - an address that several links have is a reference of markdown, [text][1],
//     which Page.Definitions defines.

// referenceAttr is the attribute with the number of a link's address in Page.References.
const referenceAttr = "data-belljar-reference"

// leastReferred is the length of an address from which a reference and its definition are
// shorter, if there are two links.
const leastReferred = 20

// shortLinks shortens the addresses of links and images, and returns the addresses for
// which references stand; the first is number 1. Links into the page are left alone:
// localLinks has shortened them.
func shortLinks(root *html.Node, pageURL string) []string {
	base, err := url.Parse(escapeURL.Replace(pageURL))
	if err != nil || base.Host == "" {
		base = nil
	}
	for _, img := range named(root, "img") {
		if src := attr(img, "src"); src != "" {
			setAttr(img, "src", relative(base, src))
		}
	}
	links := named(root, "a")
	times := make(map[string]int)
	for _, a := range links {
		if href := attr(a, "href"); !strings.HasPrefix(href, "#") {
			href = relative(base, href)
			setAttr(a, "href", href)
			times[href]++
		}
	}
	var addresses []string
	numbers := make(map[string]int)
	for _, a := range links {
		href := attr(a, "href")
		if times[href] < 2 || len(href) < leastReferred {
			continue
		}
		if numbers[href] == 0 {
			addresses = append(addresses, href)
			numbers[href] = len(addresses)
		}
		setAttr(a, referenceAttr, strconv.Itoa(numbers[href]))
	}
	return addresses
}

// relative returns the shortest plain reference from a base that resolves to an address
// again, or else the address itself. A nil base has no references. No reference uses "..",
// which is easily misread.
func relative(base *url.URL, address string) string {
	if base == nil {
		return address
	}
	path, same := strings.CutPrefix(address, base.Scheme+"://"+base.Host)
	if !same || !strings.HasPrefix(path, "/") {
		return address
	}
	folder := base.EscapedPath()
	folder = folder[:strings.LastIndexByte(folder, '/')+1]
	if folder == "/" {
		folder = "" // a slash distinguishes an address from a word
	}
	for _, short := range []string{strings.TrimPrefix(path, folder), path} {
		if short == "" || strings.HasPrefix(short, "?") || strings.HasPrefix(short, "#") {
			continue // the reference would be to the page itself, or to its directory
		}
		if to, err := base.Parse(short); err == nil && to.String() == address {
			return short
		}
	}
	return address
}

// Definitions returns the lines that define the references in a piece of the content, such
// as "[1]: https://example.org/". The content itself does not contain them.
func (p *Page) Definitions(piece string) []string {
	if len(p.References) == 0 {
		return nil
	}
	used := make(map[int]bool)
	for _, m := range reference().FindAllStringSubmatch(piece, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			used[n] = true
		}
	}
	var lines []string
	for i, address := range p.References {
		if used[i+1] {
			lines = append(lines, fmt.Sprintf("[%d]: %s", i+1, address))
		}
	}
	return lines
}

var reference = pattern(`\]\[(\d{1,6})\]`)
