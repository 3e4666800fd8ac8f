package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// The scripts that run in a page, in a world of their own (see world).
var (
	//go:embed js/watch.js
	watchScript string
	//go:embed js/settle.js
	settleScript string
	//go:embed js/read.js
	readScript string
	//go:embed js/lazy.js
	lazyScript string
	//go:embed js/scroll.js
	scrollScript string
	//go:embed js/warm.js
	warmScript string
)

// ourScript puts into our world of a document what our other scripts call. Chrome runs it
// before any script of the page, but shortly after it makes the document. A script of ours
// that arrives in between runs ourScript itself.
var ourScript = sync.OnceValue(func() string {
	return "if (!globalThis.belljar) {" + watchScript +
		"if (self === top) Object.assign(belljar, { settle: " + settleScript + ", read: " + readScript + ", lazy: " + lazyScript + "});}\n"
})

// settled is the answer of settle.js.
type settled struct {
	Settled bool  `json:"settled"`
	Matches bool  `json:"matches"`
	Active  bool  `json:"active"` // whether the page was treated as a page whose scripts did something
	Bad     bool  `json:"bad"`    // whether the selector is not valid
	Lazy    lazy  `json:"lazy"`   // how the page may grow, if that was asked for
	Page    *read `json:"page"`   // content of the page at that time, if that was asked for
}

// read is what read.js returns for a document.
type read struct {
	Size  int    `json:"size"`  // size in UTF-16
	Bytes int    `json:"bytes"` // size in UTF-8, or -1 if HTML is complete
	HTML  string `json:"html"`
	Title string `json:"title"`
	URL   string `json:"url"`
	Cut   string `json:"cut"` // why the HTML is not complete
}

// readOptions are the options of read.js.
type readOptions struct {
	First  int     `json:"first"`
	Nodes  int     `json:"nodes"`
	Frames int     `json:"frames"`
	Chars  int     `json:"chars"`
	Most   float64 `json:"most"` // milliseconds, but at most half of the time until By
	By     float64 `json:"by"`   // in milliseconds since 1970
}

// reading returns the script that reads up to html bytes of a page.
func reading(ctx context.Context, html int) string {
	return "belljar.read(" + argument(readOptions{min(firstPart, html), maxNodes, maxFrames, html, ms(readTime), by(ctx)}) + ")"
}

// by returns when a page must have answered, in milliseconds since 1970 by the page's
// clock.
func by(ctx context.Context) float64 {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(MaxTimeout)
	}
	return float64(end.UnixMilli())
}

// settling returns the script that waits until a page has settled, and then reads it if it
// has at most this many elements: one round trip instead of two, and nothing changes
// between settling and reading.
func settling(ctx context.Context, r Request, o settleOptions, most int) string {
	var tell []string
	o.By = by(ctx)
	if r.Scrolls > 0 {
		tell = append(tell, "lazy: belljar.lazy()")
	}
	if r.Shot == nil && r.HTML > 0 {
		tell = append(tell, fmt.Sprintf("page: document.getElementsByTagName('*').length <= %d ? %s : null", most, reading(ctx, r.HTML)))
	}
	return "belljar.settle(" + argument(o) + ", () => ({" + strings.Join(tell, ", ") + "}))"
}

// settleOptions are the options of settle.js, with times in milliseconds.
type settleOptions struct {
	Selector string  `json:"selector"`
	Active   bool    `json:"active"`
	Quiet    float64 `json:"quiet"`
	Quick    float64 `json:"quick"`
	Bare     float64 `json:"bare"` // for a page without text
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
	By       float64 `json:"by"`   // in milliseconds since 1970
	Load     bool    `json:"load"` // whether the script waits for the load event first
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func argument(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null" // never: the values are of our own types, which can be encoded
	}
	return string(text)
}
