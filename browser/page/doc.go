// Package page turns the bytes of one document of the web into text that an
// agent can read, cite and page through. It uses no network and no browser: it
// gets what was served, or what a browser made of that, with the URL and the
// Content-Type, and returns a Page.
//
// The way of a document, in this order:
//
//  1. Convert bounds the bytes and finds out what they are: HTML, markdown,
//     text, JSON, XML, a feed or a PDF. Anything else is refused with
//     an *UnsupportedError.
//  2. The charset is found (byte order mark, header, meta element, or the bytes)
//     and the bytes become UTF-8.
//  3. HTML becomes a bounded tree. Hidden parts are left out and counted, shadow
//     roots and srcdoc frames are put where they are shown.
//  4. A router picks the part that becomes the content: what the selector matches,
//     the main element of documentation, the article that readability finds, or
//     the whole page.
//  5. The rest becomes markdown, text or HTML, with absolute links.
//
// The text of a page is untrusted: Untrusted puts it between marks that the
// page cannot forge.
//
// The files, each calling those below it:
//
//	page.go                        Convert and its options; what a page becomes
//	convert.go                     the steps from a document to a page
//	mark.go, matter.go             the marks around foreign text
//	sniff.go, charset.go           what the bytes are, and in which character set
//	letters.go
//	pdf.go, pdfcheck.go            a PDF
//	served.go, feed.go, xml.go     markdown as it is served; feeds; XML and JSON
//	consent.go, main.go            the part that the page is about
//	comments.go
//	article.go, furniture.go       finds an article, and removes what is around it
//	hidden.go, disclosure.go       what nobody sees, and what a click shows
//	styles.go
//	math.go, code.go               formulas and code
//	noise.go, clean.go             what is left out of the content, or made plain in it
//	trim.go, measure.go, words.go  the ends of an article; how much of it is text
//	write.go                       the content:
//	toc.go, pager.go               its headings, and the next page
//	media.go, shortlinks.go        its images and links
//	text.go                        as text,
//	table.go, markdown.go          and as markdown
//	css.go, signs.go               declarations of styles; characters that nobody sees
//	meta.go, part.go               what a page says of itself; a part of a page
//	tree.go, dom.go, pattern.go    a bounded tree, and how to look around in it
//
// One call goes up: markdown writes tables, whose cells are markdown.
package page
