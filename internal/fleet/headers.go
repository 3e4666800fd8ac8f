package fleet

import (
	"net/http"
	"strings"
)

// copyHeaders copies the headers that are passed on from one end to the other. It leaves
// out headers that belong to a connection (RFC 9110, 7.6.1), and headers that only the
// front or the link may set.
func copyHeaders(to, from http.Header) {
	named := from["Connection"]
	for name, values := range from {
		if passes(name) && !names(named, name) {
			to[name] = values
		}
	}
}

// passes reports whether a header is passed on.
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

// names reports whether a header is in one of the lists of a Connection header.
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
