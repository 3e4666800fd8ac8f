package mcp

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"belljar.dev/mcp/wire"
)

// maxSessionID is the most bytes of a session's id in a request. Ours are shorter.
const maxSessionID = 256

// checkHeaders refuses headers of the protocol that have more than one meaning: a proxy
// before this server may have understood the other one.
func checkHeaders(h http.Header) error {
	for _, name := range []string{wire.SessionHeader, wire.RevisionHeader, wire.MethodHeader, wire.NameHeader, wire.LastHeader} {
		if len(h[name]) > 1 {
			return errors.New("the header " + name + " is given twice; send it once")
		}
	}
	if !isSessionID(h.Get(wire.SessionHeader)) {
		return errors.New("the header " + wire.SessionHeader + " is not an id of a session")
	}
	return nil
}

// isSessionID reports whether a text may be an id of a session. An empty one may.
func isSessionID(id string) bool {
	return len(id) <= maxSessionID && !strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e })
}

// checkRevision refuses a legacy request whose header names a revision that does not
// exist.
func checkRevision(h http.Header) error {
	revision := h.Get(wire.RevisionHeader)
	if revision == "" || slices.Contains(wire.LegacyRevisions, revision) {
		return nil
	}
	return errors.New("Bad Request: Unsupported protocol version (supported versions: " +
		wire.ModernRevision + "," + strings.Join(wire.LegacyRevisions, ",") + ")")
}

// accepts checks the headers that say what a client sends and takes. The texts are
// those of the go-sdk, which clients have seen since the first version.
func accepts(h http.Header) (status int, text string) {
	if !isJSON(h) {
		return http.StatusUnsupportedMediaType, notJSON
	}
	if text, events := accepted(h); !text || !events {
		return http.StatusBadRequest, "Accept must contain both 'application/json' and 'text/event-stream'"
	}
	return 0, ""
}

// notJSON is the answer to a body that says to be something else.
const notJSON = "Content-Type must be 'application/json'"

func isJSON(h http.Header) bool {
	const want = "application/json"
	sent := h.Get("Content-Type")
	if sent == want { // as most clients write it
		return true
	}
	media, _, err := mime.ParseMediaType(sent)
	return err == nil && media == want
}

// accepted reports whether a client takes JSON, and streams of events.
func accepted(h http.Header) (text, events bool) {
	for _, value := range h["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			media, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*":
				text = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				text, events = true, true
			}
		}
	}
	return text, events
}
