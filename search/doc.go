// Package search asks many search engines at once, merges their answers, and
// reports truthfully what each of them did.
//
// A Fan asks all engines that suit a query and that the grant allows. The
// engines themselves, the requests to them and the meaning of their answers are
// in package engine, which does no I/O on the network. This package has the
// rest: which engines are asked, how long each is waited for, which are left
// alone for a while, what is kept, and one list of results out of many.
package search
