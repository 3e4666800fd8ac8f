package policies

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The arguments of upstream tools are texts that a browser may read, and browsers read far
// more texts as URLs than ParseURL does. WebURLs writes its results so that ParseURL finds
// the host and the path that a browser finds, or refuses the URL.

// WebURLs returns the URLs of http or https that a text is, or begins with; most texts
// contain no URL there. The text as a whole is read as browsers read it (URL Standard,
// "basic URL parser"). A program may also take the first word of a text as the URL: with or
// without the tabs and line breaks in the text, which browsers drop. Each of these texts
// that is a URL is in the result.
func WebURLs(text string) []string {
	var all []string
	add := func(s string) bool {
		u, ok := webURL(s)
		if ok && !slices.Contains(all, u) {
			all = append(all, u)
		}
		return ok
	}
	if add(text) && !strings.ContainsAny(text, dropped) {
		return all // the first word has the same host, unless no rule can judge this URL
	}
	add(firstWord(text))
	add(firstWord(dropper.Replace(text)))
	return all
}

// dropped are the characters that browsers remove from a URL, at any place in it.
const dropped = "\t\n\r"

var dropper = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// isBlank reports whether programs drop a character at the ends of a text, or split the text
// there. U+FEFF is white space to JavaScript.
func isBlank(r rune) bool { return r <= ' ' || unicode.IsSpace(r) || r == '\ufeff' }

// firstWord returns a text up to its first blank.
func firstWord(text string) string {
	text = strings.TrimLeftFunc(text, isBlank)
	if end := strings.IndexFunc(text, isBlank); end >= 0 {
		return text[:end]
	}
	return text
}

// webURL reads a text as browsers read it: they drop tabs and line breaks, take a backslash
// for a slash, and take any number of slashes after the scheme. ok is false for a text that
// browsers would not read, such as a sentence that begins with a URL without a path.
func webURL(text string) (_ string, ok bool) {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	text = dropper.Replace(text)
	scheme, rest, found := strings.Cut(text, ":")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return "", false
	}
	end := strings.IndexAny(rest, "?#") // a backslash after this place stays a backslash
	if end < 0 {
		end = len(rest)
	}
	place := strings.TrimLeft(strings.ReplaceAll(rest[:end], `\`, "/"), "/")
	authority, _, _ := strings.Cut(place, "/")
	host := authority[strings.LastIndexByte(authority, '@')+1:] // the part before the host may contain blanks
	if host == "" || strings.ContainsFunc(host, isBlank) {
		return "", false
	}
	return scheme + "://" + escaped(place+rest[end:]), true
}

// escaped returns a text in which blanks, control characters and backslashes are escaped as
// in a URL, and also each percent sign that does not begin an escape.
func escaped(s string) string {
	var b strings.Builder
	for i, c := range []byte(s) {
		if c <= ' ' || c == 0x7f || c == '\\' || c == '%' && !isEscape(s[i:]) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isEscape reports whether a text begins with a percent sign and two hexadecimal digits.
func isEscape(s string) bool {
	const digits = "0123456789abcdefABCDEF"
	return len(s) > 2 && strings.IndexByte(digits, s[1]) >= 0 && strings.IndexByte(digits, s[2]) >= 0
}
