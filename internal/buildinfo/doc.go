// Package buildinfo knows the version of this binary. `belljar version` prints it, and
// the server tells it to clients, collectors of traces and the audit log.
package buildinfo
