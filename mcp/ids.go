package mcp

import "crypto/rand"

// newCallID returns the id of a call for refusals and logs: short enough to read out.
func newCallID() string { return "c-" + rand.Text()[:8] }

// newSessionID returns an id that cannot be guessed: over HTTP it opens a session.
func newSessionID() string { return "s-" + rand.Text() }
