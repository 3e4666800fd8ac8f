package browser

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// The window of a page, in CSS pixels.
const windowWidth, windowHeight = 1280, 800

// world is the name of the isolated world that our scripts run in: a page sees
// neither them nor what they change of the language.
const world = "belljar"

// tab is one page in a context of its own, for one call.
type tab struct {
	ch      *chrome
	context cdp.BrowserContextID
	target  target.ID
	frame   cdp.FrameID
	session string
	headers map[string]string
	origin  string // that headers are for
	trusted bool   // it may take its time: a page before it was given up
	state          // what Chrome has reported of it
}
