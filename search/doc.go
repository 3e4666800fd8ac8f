// Package search asks many search engines at once and tells the truth about
// what each of them did.
//
// An engine is data: a file of engines/ says what is sent, where the results
// are in the answer, what proves that nothing was found, and what shows that
// the engine turned us away. LoadEngines compiles them; an Exchange leads one
// query through one engine and does no I/O of its own.
//
// An answer is parsed first. Only where that finds no result, proof of
// emptiness is looked for, then proof of a block; without either the engine
// has drifted from its file. Words in results prove nothing, so a page about
// captchas is a page of results.
package search
