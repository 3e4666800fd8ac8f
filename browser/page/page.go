package page

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Format is how a page is written.
type Format string

// The formats; the words are those of ReadDocs.
const (
	Markdown Format = "markdown"
	Text     Format = "text"
	HTML     Format = "html" // cleaned: no scripts, styles, handlers or hidden parts
)

// Kind is what a document is, whatever its Content-Type says.
type Kind string

// The kinds that Convert reads.
const (
	KindHTML     Kind = "html"
	KindMarkdown Kind = "markdown"
	KindText     Kind = "text"
	KindJSON     Kind = "json"
	KindXML      Kind = "xml"
	KindFeed     Kind = "feed"
	KindPDF      Kind = "pdf"
)

// Extraction is which part of a page was taken, and how it was found.
type Extraction string

// The extractions. All but ByWhole leave parts of the page out.
const (
	ByMain        Extraction = "main"        // the element that documentation marks as its content
	ByReadability Extraction = "readability" // the article that was found by its density of text
	BySelector    Extraction = "selector"    // what Options.Selector matched
	ByWhole       Extraction = "whole"       // the whole page, because it was asked for or nothing better was found
)

// HiddenAttr marks an element that does not show. A program that knows the layout, such as
// a browser, sets it before it serialises a page. Convert leaves such elements out and
// counts them, like those that are hidden by HTML alone.
const HiddenAttr = "data-belljar-hidden"

// Limits of one conversion, if the Options do not set them.
const (
	DefaultMaxBytes = 10 << 20
	DefaultTimeout  = 20 * time.Second
)

// Options say what to make of a document. The zero value is markdown of the
// main content, with links and images.
type Options struct {
	URL         string // where the document came from, after redirects; base of its links
	ContentType string // as served, with its charset; if empty, the bytes decide
	Format      Format // empty means Markdown

	// Decoded says that the bytes are UTF-8 already, whatever the header and the meta
	// elements say, because a browser serialised them.
	Decoded bool

	Whole    bool   // take the whole page instead of its main content
	Selector string // CSS selector; takes what it matches, in the order of the page

	OmitLinks  bool // write the text of links without their targets
	OmitImages bool // leave images out

	// ShortLinks writes addresses in markdown as short as they can be without
	// losing one: see Page.References.
	ShortLinks bool

	MaxBytes int           // bytes of the document; the rest is cut off; 0 means DefaultMaxBytes
	Timeout  time.Duration // time for the conversion; 0 means DefaultTimeout
}

// Page is the result of a conversion. It is not changed after Convert has returned it, and
// may be shared and cached.
type Page struct {
	Kind       Kind
	Format     Format // format of Content; Text if Kind has no markup to keep
	URL        string
	Title      string // one line; empty if the page has none
	Language   string // BCP 47, as the page declares it
	Published  string // RFC 3339 or a date, as the page declares it
	Charset    string // charset from which the bytes were decoded, such as "utf-8"
	Extraction Extraction

	Content string // whole content; Part returns a piece of it

	// References are the addresses to which links of the content refer, if
	// Options.ShortLinks is set: a link that is written [text][n] leads to the n-th of
	// them, counted from 1. Definitions writes them. Links and images on the page's own
	// host are then relative to URL.
	References []string

	Headings []Heading
	Links    []Link  // links of the content, at most MaxLinks, in order, each target once
	Images   []Image // images of the content, at most MaxLinks, in order, each source once

	Bytes     int      // bytes of the document that were read
	Truncated bool     // the document is longer than was read, or was cut for its size
	Hidden    int      // characters of hidden text that were left out
	Notes     []string // what else a reader should know, a sentence each

	// NeedsScript says why the page looks as if a browser had to render it first, such as
	// "the element #root is empty". Otherwise it is empty.
	NeedsScript string
}

// MaxLinks bounds Page.Links and Page.Images.
const MaxLinks = 2000

// Heading is one line of the table of contents.
type Heading struct {
	Level  int    // 1 to 6
	Text   string // one line, without markup
	Anchor string // id in the document, so that URL#Anchor cites it; may be empty
	Offset int    // in Page.Content, in characters, for Part
}

// Link is a link of the content.
type Link struct {
	Text string
	URL  string // absolute
}

// Image is an image of the content.
type Image struct {
	Alt string
	URL string // absolute
}

// ErrNoMatch means that Options.Selector matches nothing.
var ErrNoMatch = errors.New("matches nothing on the page")

// UnsupportedError is a document that cannot become text.
type UnsupportedError struct {
	Type string // media type, such as "image/png"
	Why  string // what is wrong with it, if the type alone does not say so, such as "it is encrypted"
	Hint string // what to do instead
}

func (e *UnsupportedError) Error() string {
	return "read " + e.Type + ": " + cmp.Or(e.Why, "it is not a text document") + "; " + e.Hint
}

// Convert reads a document. It fails with an *UnsupportedError for a document that is not
// text, with an error that names the option for an option that is not valid (ErrNoMatch for
// a selector without a match), and with the context's error or context.DeadlineExceeded
// when the time is up. It neither keeps nor changes src. It may be called concurrently.
func Convert(ctx context.Context, src []byte, o Options) (*Page, error) {
	return convert(ctx, src, o)
}
