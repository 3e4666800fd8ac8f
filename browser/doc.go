// Package browser reads web pages that need a browser, in a pool of Chromes.
//
// A [Pool] owns the Chromes. Each Chrome runs in a box of its own (package
// sandbox), with what the calling tenant's grant allows through the egress door
// and without a workspace; tenants never share a Chrome. [Pool.Load] lends a page
// of a Chrome, in a browser context that no other call ever sees, loads one URL
// and returns the result as a [Loaded]. This package does not convert the page,
// for example to markdown.
//
// The files, each calling those below it:
//
//	examine.go                tries a Chrome, for the doctor
//	seat.go                   a Chrome for a session, driven by package act
//	draw.go, call.go          one call: draws an SVG, or lends a page and takes it back
//	url.go
//	load.go                   a page loads, settles and is read
//	lease.go                  a Chrome that a session has
//	explain.go, shot.go       why a page did not load; takes a picture of a page
//	scroll.go, quiet.go       scrolls a page; waits until it is quiet
//	ahead.go, alive.go        a look that the page itself begins; whether a page answers
//	pool.go, queue.go         the Chromes, and the calls that wait for one
//	attend.go, launch.go      follows a Chrome to its end; starts and retires it
//	newtab.go, hear.go        makes a page, and receives the events of it
//	evaluate.go, scripts.go   runs our scripts in a page
//	chrome.go, find.go        a Chrome in its box, and its program
//	flags.go, version.go
//	events.go, tab.go         events of a page, and the page
//	state.go, traffic.go      what is known about the page, and about its requests
//	cdp.go                    Chrome's protocol, over a pipe
//	request.go, errors.go     requests, results and errors
package browser
