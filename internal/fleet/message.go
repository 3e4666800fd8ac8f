package fleet

import (
	"net/http"
	"strings"
)

// Protocol is what a front has to know of the messages that it forwards.
type Protocol interface {
	// Read returns what a request asks for.
	Read(h http.Header, body []byte) Message
	// Answers reports whether an event of a stream is the answer to a message.
	Answers(event []byte, m Message) bool
	// Lost is the answer to a message whose worker is gone. It may have run.
	Lost(m Message) []byte
}

// Message is what a request asks for.
type Message struct {
	ID     []byte // JSON; nil for what gets no answer
	Method string
	Tool   string // of a call
	Modern bool   // the revision of the protocol has no sessions
	Lasts  bool   // the answer is a stream that lasts
}

// refuse answers a request that has not run in any part, or asks for it once more.
func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, why, http.StatusServiceUnavailable)
}

// copyHeaders copies the headers that go from one end to the other: none that is of a
// connection (RFC 9110, 7.6.1), and none that is the front's or the link's to say.
func copyHeaders(to, from http.Header) {
	named := from["Connection"]
	for name, values := range from {
		if passes(name) && !names(named, name) {
			to[name] = values
		}
	}
}

// passes reports whether a header goes from one end to the other.
func passes(name string) bool {
	if strings.HasPrefix(name, headerPrefix) {
		return false
	}
	switch name {
	case "Authorization", "Cookie", "Connection", "Expect", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Set-Cookie":
		return false
	}
	return true
}

// names reports whether a header is in the lists of a Connection header.
func names(lists []string, name string) bool {
	for _, list := range lists {
		for option := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(option), name) {
				return true
			}
		}
	}
	return false
}
