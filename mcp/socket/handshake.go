package socket

import (
	"net/http"
	"strings"
)

// Asked reports whether a request asks for a WebSocket.
func Asked(r *http.Request) bool {
	for _, token := range tokens(r.Header, "Upgrade") {
		if strings.EqualFold(token, "websocket") {
			return true
		}
	}
	return false
}

// Protocols returns the subprotocols that a client offers.
func Protocols(r *http.Request) []string { return tokens(r.Header, "Sec-Websocket-Protocol") }

// tokens returns the elements of a header whose value is a list.
func tokens(h http.Header, name string) (all []string) {
	for _, value := range h[name] {
		for token := range strings.SplitSeq(value, ",") {
			all = append(all, strings.TrimSpace(token))
		}
	}
	return all
}
