package engine

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// declared matches the character set that a page claims to use.
var declared = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:charset|encoding)\s*=\s*["']?\s*([a-z0-9_:-]{2,40})`)
})

// decoded returns a body as a UTF-8 string. Almost all engines write UTF-8. Any other body
// is converted from the character set that it names (WHATWG Encoding, section 4.2, lists
// the names). If it names UTF-8 or no known set, bytes that are not UTF-8 are replaced,
// which leaves links and markup readable.
func decoded(body []byte, header http.Header) string {
	name := ""
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		body = body[3:]
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		name, body = "utf-16le", body[2:]
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		name, body = "utf-16be", body[2:]
	case utf8.Valid(body):
		return string(body)
	default:
		for _, said := range []string{header.Get("Content-Type"), string(body[:min(len(body), 2<<10)])} {
			if found := declared().FindStringSubmatch(said); found != nil {
				name = found[1]
				break
			}
		}
	}
	// The WHATWG maps sets that nobody should decode to "replacement".
	if set, known := charset.Lookup(name); set != nil && known != "utf-8" && known != "replacement" {
		if text, err := set.NewDecoder().Bytes(body); err == nil {
			return string(text)
		}
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}
