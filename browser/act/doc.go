// Package act drives a browser for an agent: it shows pages as lines with numbers,
// and clicks, types and saves by these numbers.
//
// [Seats] lends a [Seat] to each session and profile: a Chrome in a box of its own,
// with what the grant allows through the egress door, and never shared. A caller gets
// what a tab shows from [Seat.Look], and what a step would do from [Seat.Prepare]. It
// lets the policy decide about these [Facts], and [Seat.Do] then carries out the step.
// Do reads the facts again and does nothing if they differ.
//
// No text of a page decides anything here. It is cut, escaped and put between marks
// that the page cannot know. The limits in limits.go bound what a page can do.
//
// The files, each calling those below it:
//
//	seats.go                  which session has a seat, and how long
//	hold.go                   a person stops the acts of a seat
//	show.go                   a picture of what a seat shows now, for people
//	seat.go                   looks and steps of a seat, one at a time; its Chrome
//	list.go                   the HTML of a page; lists, such as of its console
//	do.go, choose.go          a step is carried out; an option is selected
//	upload.go, pdf.go         files for a page; a page as a file
//	drag.go                   drags, by chromedp
//	eval.go                   expressions that only read
//	fill.go                   fields are filled, those of dates in their parts
//	keyboard.go               keys, one after the other
//	input.go                  where an element can be hit; input of the mouse
//	guard.go                  a guard that lets input reach one element only
//	send.go                   sends input, and waits until the page has handled it
//	prepare.go, secret.go     what a step would do; where a secret may be typed
//	picture.go                the window as a picture, without secrets
//	changes.go, look.go       what a page shows, and what changed
//	settle.go                 when a tab is quiet
//	step.go, keys.go          which fields a step has; keys
//	hear.go, dialogs.go       what happens in a tab; documents are decided on
//	files.go, rings.go        downloads; lines of the console, requests
//	engine.go                 one Chrome: its tabs, and how a session is made ready
//	remover.go                files that nobody can save are removed
//	worlds.go, fault.go       our scripts in the documents of a tab; errors as refusals
//	hung.go                   detects a page that does not answer, and stops its script
//	tab.go, refs.go           what is known about a tab; the numbers of its elements
//	guest.go, governor.go     chromedp, and what stands between it and Chrome
//	head.go, mask.go          messages of Chrome; secrets are masked
//	words.go, errors.go       text of a page in texts of belljar; refusals
//	types.go, limits.go       requests, answers and facts; every bound
package act
