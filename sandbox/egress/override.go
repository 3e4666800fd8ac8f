package egress

import (
	"slices"
	"strings"
)

// Headers that have some servers take a request for another than its first line
// says, so that it would not be the one that was judged. Each framework and proxy
// has its own, so that they are known by their words: what is named (a method, a
// URL, a path, a host), and that it stands for another one.
var (
	// overriding are names that say it alone. Destination is where WebDAV copies
	// and moves to (RFC 4918, 10.3).
	overriding = []string{
		"destination", "forwarded", "host-override", "path", "path-info", "redirect-url", "script-name", "uri", "url",
		"x-destination", "x-host", "x-path", "x-path-info", "x-script-name", "x-uri", "x-url",
	}

	// parts are what is named of a request. They are looked for at the ends of
	// words: in some names there is nothing between the words.
	parts = []string{"url", "uri", "path", "pathbase", "pathinfo", "prefix", "host", "server"}

	// standIns begin words that say that it stands for another.
	standIns = []string{
		"backend", "base", "destination", "dst", "envoy", "forward", "forwarded", "http", "internal", "matched",
		"original", "originating", "override", "proxy", "raw", "real", "request", "requested", "rewrite", "rewritten", "routing",
		"script", "target", "unencoded", "upstream", "waws",
	}
)

// overrides reports whether a header of that name may do so.
func overrides(name string) bool {
	name = plainName(name)
	switch {
	case strings.HasPrefix(name, "access-control-"):
		return false // of browsers, which ask what they may; no server routes by it
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

// sameHeader reports whether two names are one header to a server.
func sameHeader(a, b string) bool { return plainName(a) == plainName(b) }

// plainName is a name as those read it that make variables of headers (RFC 3875,
// 4.1.18): large and small letters are one, and so is all that is neither letter
// nor digit.
func plainName(name string) string {
	b := []byte(lower(name))
	for i, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			b[i] = '-'
		}
	}
	return string(b)
}
