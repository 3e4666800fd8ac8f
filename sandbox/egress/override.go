package egress

import (
	"slices"
	"strings"
)

// These headers make some servers read another method, URL, path or host than the first
// line of the request states, so that they answer another request than the one that was
// judged. Each framework and proxy has its own headers. So a header is recognized by its
// words: one word names a part of a request (a method, a URL, a path, a host), and one says
// that the header stands for another value.
var (
	// overriding are whole names of such headers. WebDAV copies and moves to the URL in
	// Destination (RFC 4918, 10.3).
	overriding = []string{
		"destination", "forwarded", "host-override", "path", "path-info", "redirect-url", "script-name", "uri", "url",
		"x-destination", "x-host", "x-path", "x-path-info", "x-script-name", "x-uri", "x-url",
	}

	// parts name a part of a request. They are looked for at the ends of words: some names
	// have nothing between the words.
	parts = []string{"url", "uri", "path", "pathbase", "pathinfo", "prefix", "host", "server"}

	// standIns are beginnings of words that say that a header stands for another value.
	standIns = []string{
		"backend", "base", "destination", "dst", "envoy", "forward", "forwarded", "http", "internal", "matched",
		"original", "originating", "override", "proxy", "raw", "real", "request", "requested", "rewrite", "rewritten", "routing",
		"script", "target", "unencoded", "upstream", "waws",
	}
)

// overrides reports whether a header of that name may change how a server reads the
// request.
func overrides(name string) bool {
	name = plainName(name)
	switch {
	case strings.HasPrefix(name, "access-control-"):
		return false // headers of browsers, which ask what they may do; no server routes by them
	case slices.Contains(overriding, name), strings.Contains(name, "method"), strings.Contains(name, "override"), strings.Contains(name, "rewrite"):
		return true
	case name == "x-http-verb", strings.HasSuffix(name, "-copy-source"), strings.HasSuffix(name, "-copy-from"):
		return true
	}
	stands, names := false, false
	for word := range strings.SplitSeq(name, "-") {
		stands = stands || slices.ContainsFunc(standIns, func(s string) bool { return strings.HasPrefix(word, s) })
		names = names || slices.ContainsFunc(parts, func(s string) bool { return strings.HasSuffix(word, s) })
	}
	return stands && names
}

// sameHeader reports whether a server may read two names as the same header.
func sameHeader(a, b string) bool { return plainName(a) == plainName(b) }

// plainName returns a name as it is read by servers that make variables of headers (RFC
// 3875, 4.1.18): in lower case, with a hyphen for every character that is neither a
// letter nor a digit.
func plainName(name string) string {
	b := []byte(lower(name))
	for i, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			b[i] = '-'
		}
	}
	return string(b)
}
