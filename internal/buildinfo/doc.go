// Package buildinfo returns the version of this binary. `belljar version` prints it, and
// the server sends it to clients and trace collectors, and writes it into the audit log.
package buildinfo
