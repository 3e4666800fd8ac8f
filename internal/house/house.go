// Package house holds the house rules that a test can check: package
// comments, links in documents, the README's table of tools, who may import
// whom, and what must not stand in the tree. It has tests only.
package house
