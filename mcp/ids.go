package mcp

import "crypto/rand"

// newCallID names a call in refusals and logs: short enough to be read out.
func newCallID() string { return "c-" + rand.Text()[:8] }

// newSessionID cannot be guessed: over HTTP it is what opens a session.
func newSessionID() string { return "s-" + rand.Text() }
