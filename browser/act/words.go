package act

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The text of a page comes from a stranger. Our lines contain it in one line, without
// characters that cannot be seen, and in a form in which no part of it reads like something
// that we wrote: our numbers are "[" and a digit, our marks are "<<" and ">>", and our
// lines begin with "#", "+", "-" or "…".

// plain returns text in one line, without control characters, direction marks and
// characters that have no width.
func plain(text string) string {
	space := true
	return strings.TrimRight(strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef:
			return -1
		case unicode.IsSpace(r), unicode.IsControl(r):
			if space {
				return -1
			}
			space = true
			return ' '
		}
		space = false
		return r
	}, strings.ToValidUTF8(text, "")), " ")
}

// escaped returns plain text that contains none of our signs.
func escaped(text string) string {
	text = plain(text)
	if !strings.ContainsAny(text, "[<>") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		next := byte(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		if c == '[' && next >= '0' && next <= '9' || (c == '<' || c == '>') && next == c {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		if (c == '<' || c == '>') && next == c {
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// atStart returns escaped text in a form for the beginning of a line.
func atStart(text string) string {
	if strings.HasPrefix(text, "#") || strings.HasPrefix(text, "…") || strings.HasPrefix(text, "+ ") || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "frame ") {
		return `\` + text
	}
	return text
}

// quoted returns a name in quotes. most is the number of characters at which the name is
// cut.
func quoted(text string, most int) string {
	return `"` + strings.ReplaceAll(cut(escaped(strings.ReplaceAll(text, `\`, `\\`)), most), `"`, `\"`) + `"`
}

// cut returns text. most is the number of characters at which it is cut.
func cut(text string, most int) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	n := 0
	for i := range text {
		if n++; n == most {
			return strings.TrimRight(text[:i], `\ `) + "…"
		}
	}
	return text
}

// shownURL returns a URL in a form that can be part of one of our lines, cut to
// maxShownURL characters.
func shownURL(raw string) string { return cut(encodedURL(raw), maxShownURL) }

const maxShownURL = 300

// encodedURL is shownURL for a URL of any length.
func encodedURL(raw string) string {
	var b strings.Builder
	for i := range len(raw) {
		c := raw[i]
		if c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' || c == '\\' || c == '[' && i > 0 && raw[i-1] != '/' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)|0x100, 16))[1:])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// clipURL returns as much of a URL as is kept.
func clipURL(u string) string {
	if len(u) > MaxURL {
		return u[:MaxURL]
	}
	return u
}

// originOf returns the scheme, host and port of a URL, or "" if it is not an http or https
// URL with a host.
func originOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	host := u.Host
	if p := u.Port(); u.Scheme == "https" && p == "443" || u.Scheme == "http" && p == "80" {
		host = host[:len(host)-len(p)-1]
	}
	return u.Scheme + "://" + host
}

// sameAddress reports whether two URLs are of the same document.
func sameAddress(a, b string) bool {
	x, e1 := url.Parse(a)
	y, e2 := url.Parse(b)
	path := func(u *url.URL) string { return cmp.Or(u.EscapedPath(), "/") }
	return e1 == nil && e2 == nil && originOf(a) != "" && strings.EqualFold(originOf(a), originOf(b)) && path(x) == path(y) && x.RawQuery == y.RawQuery
}

// escaped2 returns escaped text that keeps the spaces at its ends.
func escaped2(text string) string {
	s := escaped(text)
	if s == "" {
		if text != "" {
			return " "
		}
		return ""
	}
	if strings.HasPrefix(text, " ") {
		s = " " + s
	}
	if strings.HasSuffix(text, " ") {
		s += " "
	}
	return s
}

// nonce returns a random mark for text that comes from a page. A page cannot know it.
func nonce() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
