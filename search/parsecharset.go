package search

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// declared finds the character set that a page says it is in.
var declared = regexp.MustCompile(`(?i)(?:charset|encoding)\s*=\s*["']?\s*([a-z0-9_-]{2,20})`)

// decoded is a body as a string of UTF-8. Engines write UTF-8 almost always.
// What is in UTF-16 or one of the western sets is converted; in all others the
// bytes that are no UTF-8 are replaced, which leaves links and markup readable.
func decoded(body []byte, header http.Header) string {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		body = body[3:]
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return wide(body[2:], binary.LittleEndian)
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return wide(body[2:], binary.BigEndian)
	}
	if utf8.Valid(body) {
		return string(body)
	}
	name := declared.FindStringSubmatch(header.Get("Content-Type"))
	if name == nil {
		name = declared.FindStringSubmatch(string(body[:min(len(body), 2<<10)]))
	}
	if name != nil {
		switch strings.ToLower(name[1]) {
		case "iso-8859-1", "iso8859-1", "latin1", "windows-1252", "cp1252", "us-ascii", "ascii", "iso-8859-15":
			return western(body)
		}
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// wide converts UTF-16.
func wide(body []byte, order binary.ByteOrder) string {
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	return string(utf16.Decode(units))
}

// upper are the characters of windows-1252 from 0x80 to 0x9f, which browsers
// take for those of ISO 8859-1 too (WHATWG Encoding, section 9). Those that it
// leaves open are spaces here.
var upper = [32]rune{
	'€', ' ', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', ' ', 'Ž', ' ',
	' ', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', ' ', 'ž', 'Ÿ',
}

func western(body []byte) string {
	var b strings.Builder
	b.Grow(len(body) + len(body)/8)
	for _, c := range body {
		switch {
		case c < 0x80:
			b.WriteByte(c)
		case c < 0xa0:
			b.WriteRune(upper[c-0x80])
		default:
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}
