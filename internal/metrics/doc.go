// Package metrics counts what a server does, in a form that Prometheus reads. A server
// without an admin listener makes no Registry.
//
// A Registry has families; a family has a series for each combination of the values of
// its labels. A label has a bound: the values beyond it are counted together as Other.
// This limits the number of series that a client can create.
//
// From the top down:
//
//	registry   the families and their series
//	process    the families of the Go runtime and of the process
//	text       the two forms of the exposition: text 0.0.4, and OpenMetrics 1.0, which
//	           has exemplars
package metrics
