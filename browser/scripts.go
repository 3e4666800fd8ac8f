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
)
