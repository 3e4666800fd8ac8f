// Package kernel says how new this machine's kernel is, for the few properties that
// cannot be tried. The sandbox and its parts use it; it knows none of them.
package kernel
