// Package report returns in JSON what policies decide: about one call, part by part, and
// about the calls of an audit log under another policy than the one that decided them.
// Members may be added; none is removed or changes its meaning.
package report
