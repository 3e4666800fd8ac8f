package mcp

import (
	"crypto/rand"
	"strings"
)

// newCallID returns the id of a call for refusals and logs: short enough to read out.
func newCallID() string { return "c-" + rand.Text()[:8] }

// newSessionID returns an id that cannot be guessed: over HTTP it opens a session.
func newSessionID() string { return "s-" + rand.Text() }

// sseIDs begin the ids of sessions over HTTP with SSE, so that a session that is kept goes on
// by the transport by which it began. No other id begins so: rand.Text has capitals only.
const sseIDs = "s-e"

func newSSEID() string { return sseIDs + rand.Text() }

// overSSE reports whether a session of an id is one over HTTP with SSE.
func overSSE(id string) bool { return strings.HasPrefix(id, sseIDs) }
