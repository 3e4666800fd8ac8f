// Package house tests the house rules: package comments, links in documents, the README's
// table of tools, which package may import which, and what must not be in the tree. It
// contains only tests.
package house
