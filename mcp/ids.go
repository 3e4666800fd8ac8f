package mcp

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// NewCallID returns an id for a call, which refusals and logs have: short enough to read out. A
// Server gives each call one; other callers need it for what they decide outside a call. Its
// five random bytes are eight characters of base32, the alphabet of rand.Text.
func NewCallID() string {
	var random [5]byte
	_, _ = rand.Read(random[:]) // it never fails
	return string(base32.StdEncoding.AppendEncode(append(make([]byte, 0, 10), "c-"...), random[:]))
}

// newSessionID returns an id that cannot be guessed: over HTTP it opens a session.
func newSessionID() string { return "s-" + rand.Text() }

// sseIDs begin the ids of sessions over HTTP with SSE, so that a session that is kept goes on
// by the transport by which it began. No other id begins so: rand.Text has capitals only.
const sseIDs = "s-e"

func newSSEID() string { return sseIDs + rand.Text() }

// overSSE reports whether a session of an id is one over HTTP with SSE.
func overSSE(id string) bool { return strings.HasPrefix(id, sseIDs) }
