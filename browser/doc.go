// Package browser reads web pages that need a browser, in a pool of Chromes.
//
// A [Pool] owns the Chromes. Each runs in a box of its own (package sandbox),
// opened with what the calling tenant's grant lets through the egress door and
// without a workspace; tenants never share one. [Pool.Load] lends a page of it,
// in a browser context that no other call ever sees, loads one URL and gives
// back what it became as a [Loaded]. What is made of that, markdown say, is not
// this package's.
package browser
