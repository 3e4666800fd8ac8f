package page

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode/utf32"
)

// decode converts a document to UTF-8, and returns the charset that it was in: that of its
// byte order mark, or else of the Content-Type, or else of a meta element or an XML
// declaration, or else UTF-8 if the bytes fit it, or else a guess from the bytes. A charset
// that is named does not count if the bytes do not fit it. Bytes that are not valid in
// their charset become U+FFFD.
func decode(src []byte, contentType string, decoded bool) (text []byte, name string, guessed bool) {
	switch {
	case bytes.HasPrefix(src, []byte("\xef\xbb\xbf")):
		return valid(src[3:]), "utf-8", false
	case bytes.HasPrefix(src, []byte{0xff, 0xfe, 0, 0}):
		return convertBy(utf32.UTF32(utf32.LittleEndian, utf32.UseBOM), src), "utf-32le", false
	case bytes.HasPrefix(src, []byte{0, 0, 0xfe, 0xff}):
		return convertBy(utf32.UTF32(utf32.BigEndian, utf32.UseBOM), src), "utf-32be", false
	case bytes.HasPrefix(src, []byte{0xfe, 0xff}), bytes.HasPrefix(src, []byte{0xff, 0xfe}):
		name := "utf-16be"
		if src[0] == 0xff {
			name = "utf-16le"
		}
		e, _ := charset.Lookup(name)
		return convertBy(e, src[2:]), name, false
	case decoded:
		return valid(src), "utf-8", false
	}
	said := []string{"", declared(src)}
	if _, params, err := mime.ParseMediaType(contentType); err == nil {
		said[0] = params["charset"]
	}
	for i, label := range said {
		e, name := charset.Lookup(label)
		switch {
		case e == nil || contradicted(src, name):
			continue
		case i > 0 && strings.HasPrefix(name, "utf-16"):
			return valid(src), "utf-8", false // the meta element could be read, so it was not UTF-16
		}
		if text := convertBy(e, src); fits(text) {
			return text, name, false
		}
	}
	if i := bytes.Index(src[:min(len(src), 64<<10)], []byte("\x1b$")); i >= 0 {
		return convertBy(japanese.ISO2022JP, src), "iso-2022-jp", false
	}
	if utf8.Valid(src) || mostlyUTF8(src) {
		return valid(src), "utf-8", false
	}
	if e, name := guess(src); e != nil {
		return convertBy(e, src), name, true
	}
	for _, label := range append(said, "windows-1252") {
		if e, name := charset.Lookup(label); e != nil {
			return convertBy(e, src), name, true
		}
	}
	return valid(src), "utf-8", true
}

// fits reports whether a decoded text has only a few bytes that are not valid in its
// charset.
func fits(text []byte) bool {
	good, bad := 0, 0
	for _, r := range string(text[:min(len(text), 1<<20)]) {
		switch {
		case r == utf8.RuneError:
			bad++
		case r >= utf8.RuneSelf:
			good++
		}
	}
	return good >= 4*bad
}

// contradicted reports whether a document names an older charset but is clearly UTF-8. Many
// pages are like this because their server has a wrong default, or because their meta
// element is out of date. A text of some length in another charset is not valid UTF-8 by
// chance.
func contradicted(src []byte, name string) bool {
	if name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "iso-2022-jp" {
		return false
	}
	enough := 20
	if name == "windows-1252" {
		enough = 3
	}
	long := 0
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return false
		}
		if long++; long >= enough {
			return utf8.Valid(src[i:min(len(src), i+1<<16)]) || utf8.Valid(src)
		}
		i += n
	}
	return false
}

// declared returns the charset that a document names in its XML declaration or in a meta
// element. The standard looks for it in the first 1024 bytes, but some pages have it later.
// A charset in a script or a link is about another document.
func declared(src []byte) string {
	head := src[:min(len(src), 16<<10)]
	known := func(name string) bool {
		e, _ := charset.Lookup(name)
		return e != nil
	}
	if m := xmlEncoding().FindSubmatch(head); m != nil && known(string(m[1])) {
		return string(m[1])
	}
	for z := html.NewTokenizer(bytes.NewReader(head)); ; {
		switch z.Next() {
		case html.TextToken, html.EndTagToken, html.CommentToken, html.DoctypeToken:
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			if t.Data == "body" {
				return ""
			}
			if t.Data != "meta" {
				continue
			}
			n := &html.Node{Attr: t.Attr}
			if name := strings.TrimSpace(attr(n, "charset")); known(name) {
				return name
			}
			if m := charsetParam().FindStringSubmatch(attr(n, "content")); m != nil && strings.EqualFold(attr(n, "http-equiv"), "content-type") && known(m[1]) {
				return m[1]
			}
		}
	}
}

var (
	xmlEncoding  = pattern(`^\s*<\?xml[^>]{0,200}encoding\s*=\s*["']([A-Za-z0-9._:-]{2,40})["']`)
	charsetParam = pattern(`(?i)charset\s*=\s*["']?\s*([A-Za-z0-9._:-]{2,40})`)
)

// mostlyUTF8 reports whether a document is UTF-8 except for a few bytes: a page that was
// cut, or was put together from two, has such bytes.
func mostlyUTF8(src []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(src); {
		if src[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			bad++
		} else {
			good++
		}
		i += n
	}
	return good > 20*bad
}

// guess returns a charset of East Asia if the bytes decode without errors into letters of
// its language, or a charset of one byte if they decode into the letters of one of its
// languages.
func guess(src []byte) (encoding.Encoding, string) {
	sample := src[:min(len(src), 64<<10)]
	name, most := inOneByte(sample)
	if most < 0.5 {
		name, most = "", 0.5
	}
	if !scattered(sample) {
		for _, c := range []struct {
			e    encoding.Encoding
			name string
		}{
			{japanese.ShiftJIS, "shift_jis"},
			{japanese.EUCJP, "euc-jp"},
			{korean.EUCKR, "euc-kr"},
			{simplifiedchinese.GB18030, "gb18030"},
			{traditionalchinese.Big5, "big5"},
		} {
			if s := asian(convertBy(c.e, sample), c.name); s > most {
				name, most = c.name, s
			}
		}
	}
	e, _ := charset.Lookup(name)
	return e, name
}

// scattered reports whether the bytes outside of ASCII stand one by one among ASCII
// letters, as the accents of Latin languages do. Other scripts have rows of such bytes,
// although the second byte of a character may be an ASCII letter.
func scattered(sample []byte) bool {
	const near = 4 // bytes on either side
	high, company := 0, 0
	for i, b := range sample {
		if b < 0x80 {
			continue
		}
		high++
		for _, c := range sample[max(0, i-near):min(len(sample), i+near+1)] {
			if c >= 0x80 {
				company++
			}
		}
	}
	return (company-high)*3 < high*2*near // less than a third of the bytes near them
}

// asian returns the share of the letters outside of ASCII that are common in a language;
// rare letters count less.
func asian(text []byte, name string) float64 {
	total, fit := 0.0, 0.0
	for _, r := range string(text) {
		if r < 0x80 {
			continue
		}
		total++
		switch {
		case r == utf8.RuneError:
			fit -= 5
		case r >= 0x3040 && r <= 0x30ff && (name == "shift_jis" || name == "euc-jp"):
			fit += 1.1
		case name == "euc-kr" && strings.ContainsRune("이다는을의에가하고로지은도한인를대어사리기나서자정시일해그아수있부전여게들과상보라주만스제구장거었면습니", r):
			fit += 1.5
		case name == "euc-kr" && r >= 0x4e00 && r <= 0x9fff:
			fit -= 0.5 // Korean has hardly any of these, and misread Chinese is full of them
		case name == "euc-kr" && r >= 0xac00 && r <= 0xd7a3:
			fit += 0.5
		case strings.ContainsRune("的一是不了在人有我他这這個个们們中来來上大为為和国國地到以说說时時要就出会會", r):
			fit += 1.5
		case r >= 0x4e00 && r <= 0x9fff:
			fit += 0.8
		case r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xff60:
			fit++
		case r >= 0xff61 && r <= 0xff9f, r >= 0xe000 && r <= 0xf8ff:
			fit--
		}
	}
	if total < 4 {
		return 0
	}
	return fit / total
}
