// Package search asks many search engines at once, merges their answers, and
// reports truthfully what each of them did.
//
// A Fan asks all engines that suit a query and that the grant allows. The
// engines themselves, the requests to them and the meaning of their answers are
// in package engine, which does no I/O on the network. This package has the
// rest: which engines are asked, how long each is waited for, which are left
// alone for a while, what is kept, and one list of results out of many.
//
// The files, each calling those below it:
//
//	search.go, fan.go           a query comes in; what all queries share
//	lead.go, run.go             asks the engines, and waits for their answers
//	flight.go                   the callers that wait for one query
//	live.go                     a question to an engine, for the doctor
//	plan.go                     the engines that a query may ask
//	browser.go, ask.go          one engine, in a browser or by plain requests
//	door.go, query.go           the way out, and what goes that way
//	cookies.go, sizes.go        what is remembered of an engine's hosts
//	assemble.go                 the answers become a report
//	merge.go, canon.go          one list of results out of many
//	clean.go                    the words of others
//	text.go, report.go          the report, and its text for agents
//	cache.go                    the reports of the last day
//	health_store.go, health.go  how engines did of late
//	bucket.go                   how often an engine may be asked
package search
