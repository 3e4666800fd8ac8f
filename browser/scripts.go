package browser

import _ "embed"

// What runs in a page, in a world of its own (see world).
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

// ourScript puts into our world of a document what the others call. It runs before
// anything of the page does; but a document is there a moment before that, and
// the first script that needs it does not wait.
var ourScript = "if (!globalThis.belljar) {" + watchScript +
	"if (self === top) Object.assign(belljar, { settle: " + settleScript + ", read: " + readScript + ", lazy: " + lazyScript + "});}\n"
