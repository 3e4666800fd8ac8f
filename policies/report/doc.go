// Package report says in JSON what policies decide: about one call, part by part, and about
// the calls of an audit log under another policy than the one of then. Members may come; none
// goes or changes its meaning.
package report
