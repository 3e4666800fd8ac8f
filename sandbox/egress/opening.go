package egress

import "bytes"

// opening is the protocol with which a client's first bytes begin.
type opening int

const (
	openingUnknown opening = iota // more bytes are needed
	openingTLS
	openingHTTP
	openingHTTP2  // the preface of HTTP/2 in the clear (RFC 9113, 3.4)
	openingOpaque // neither TLS nor HTTP
)

// maxOpening bounds, in bytes, what is read to find out the protocol: a ClientHello, or the
// first line of a request.
const maxOpening = maxHello

// maxMethod bounds the method of a request, in bytes.
const maxMethod = 32

// blanks are the characters that servers accept as a blank in a request line. RFC 9112, 3
// warns of all of them except the last four, which also separate words for Python's split.
const blanks = " \t\v\f\r\x1c\x1d\x1e\x1f"

// openingOf returns the protocol with which a client's first bytes begin. Bytes that a
// lenient server could take for TLS or HTTP count as TLS or HTTP, so that the strict
// readers see them and refuse them: a record of another type before the ClientHello, a
// method in lower case, odd blanks, empty lines before the request.
func openingOf(first []byte) opening {
	if len(first) == 0 {
		return openingUnknown
	}
	// The types of TLS records (RFC 8446, B.1; 24 is RFC 6520's). No text
	// begins with one of them.
	if first[0] >= 20 && first[0] <= 24 {
		return openingTLS
	}
	text := bytes.TrimLeft(first, blanks+"\n")
	line, _, whole := bytes.Cut(text, []byte("\n"))
	switch {
	case whole && string(line) == "PRI * HTTP/2.0\r":
		return openingHTTP2
	case whole && namesHTTP(line):
		return openingHTTP
	case whole, !maybeRequest(line):
		return openingOpaque
	case len(first) >= maxOpening:
		return openingHTTP
	}
	return openingUnknown
}

// namesHTTP reports whether a line contains a version of HTTP, in any spelling.
func namesHTTP(line []byte) bool {
	const version = "http/"
	for i := 0; i+len(version) < len(line); i++ {
		if digit := line[i+len(version)]; digit >= '0' && digit <= '9' && bytes.EqualFold(line[i:i+len(version)], []byte(version)) {
			return true
		}
	}
	return false
}

// maybeRequest reports whether a line that has not ended yet may become a request line: a
// token, a blank, then anything. A line with a NUL may not, unless its token consists of
// letters alone. Git's protocol begins with such a line (0032git-upload-pack /p\0host=h\0),
// sends no end of line and waits.
func maybeRequest(line []byte) bool {
	i := bytes.IndexAny(line, blanks)
	method := line
	if i >= 0 {
		method = line[:i]
	}
	letters := true
	for _, b := range method {
		if !isToken(b) {
			return false
		}
		letters = letters && (b|0x20 >= 'a' && b|0x20 <= 'z')
	}
	if len(method) > maxMethod {
		return false
	}
	return letters || bytes.IndexByte(line, 0) < 0
}

// isToken reports whether a token may contain a byte (RFC 9110, 5.6.2).
func isToken(b byte) bool {
	switch {
	case b >= '0' && b <= '9', b|0x20 >= 'a' && b|0x20 <= 'z':
		return true
	}
	return b != 0 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
}
