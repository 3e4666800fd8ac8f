package browser

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// Size of the window of a page, in CSS pixels.
const windowWidth, windowHeight = 1280, 800

// world is the name of the isolated world in which our scripts run: a page sees neither the
// scripts nor what they change in the language.
const world = "belljar"

// tab is one page in a context of its own, for one call.
type tab struct {
	ch      *chrome
	context cdp.BrowserContextID
	target  target.ID
	frame   cdp.FrameID
	session string
	headers map[string]string
	origin  string // origin to which the headers are sent
	trusted bool   // whether slow answers are allowed, because a page before it was given up
	state          // what Chrome has reported about the page
}
