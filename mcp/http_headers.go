package mcp

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"belljar.dev/mcp/wire"
)

// maxSessionID is the longest session id in a request, in bytes. The ids of this server are
// shorter.
const maxSessionID = 256

// checkHeaders refuses headers of the protocol that have more than one meaning, because a
// proxy in front of this server may have used the other meaning.
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

// isSessionID reports whether a text may be the id of a session. An empty text may.
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

// accepts checks the headers that state what a client sends and accepts. The texts are
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

// notJSON is the answer to a body that claims another type.
const notJSON = "Content-Type must be 'application/json'"

func isJSON(h http.Header) bool {
	const want = "application/json"
	sent := h.Get("Content-Type")
	if sent == want { // most clients write it in this form
		return true
	}
	media, _, err := mime.ParseMediaType(sent)
	return err == nil && media == want
}

// accepted reports whether a client accepts JSON, and whether it accepts streams of events.
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
