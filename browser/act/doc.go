// Package act drives a browser for an agent: it shows pages as lines with numbers,
// and clicks, types and saves by these numbers.
//
// [Seats] lends a [Seat] to each session and profile: a Chrome in a box of its own,
// with what the grant lets through the egress door, and never shared. A caller asks
// [Seat.Look] for what a tab shows, [Seat.Prepare] for what a step would do, lets
// the policy decide about these [Facts], and has [Seat.Do] carry the step out. Do
// reads the facts again and does nothing if they differ.
//
// Nothing that a page says decides anything here. Its text is cut, escaped and put
// between marks that it cannot know, and what it does is bounded by [Limits].
//
// The files, each calling those below it:
//
//	seats.go     who has a seat
//	seat.go      a seat: looks, steps, its end
//	types.go     requests, answers and facts
//	limits.go    every bound
//	errors.go    refusals
package act
