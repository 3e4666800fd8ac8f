//go:build !conformance

package main

import "belljar.dev/mcp"

// suite is nil: only the belljar that scripts/conformance builds serves what the
// protocol's conformance suite calls by name.
func suite() mcp.Suite { return nil }
