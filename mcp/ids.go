package mcp

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// NewCallID returns an id for a call, which appears in refusals and logs. It is short
// enough to be read aloud. A Server makes an id for each call; other callers need it for
// decisions that do not belong to a call. Its five random bytes are eight characters of
// base32, the alphabet of rand.Text.
func NewCallID() string {
	var random [5]byte
	_, _ = rand.Read(random[:]) // Read never fails
	return string(base32.StdEncoding.AppendEncode(append(make([]byte, 0, 10), "c-"...), random[:]))
}

// newSessionID returns an id that cannot be guessed, because over HTTP the id gives access
// to the session.
func newSessionID() string { return "s-" + rand.Text() }

// sseIDs begins the ids of sessions over HTTP with SSE, so that a kept session is resumed
// over the transport with which it began. No other id begins with it, because rand.Text
// contains only capitals.
const sseIDs = "s-e"

func newSSEID() string { return sseIDs + rand.Text() }

// overSSE reports whether an id is that of a session over HTTP with SSE.
func overSSE(id string) bool { return strings.HasPrefix(id, sseIDs) }
