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

// decode makes UTF-8 of a document, and names the charset it was in: that of its
// byte order mark, else of the Content-Type, else of a meta element or an XML
// declaration, else UTF-8 if that fits, else what the bytes look like, which is a
// guess. A charset that is named does not count where the bytes do not fit it.
// Bytes that are wrong in their charset become U+FFFD.
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

// fits reports whether a decoded text has few characters that its charset does
// not have.
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

// contradicted reports whether a document says that it is in an older charset,
// and is plainly UTF-8: so are many pages whose server has a wrong default, or
// that were moved without their meta element. No text of some length in
// another charset is UTF-8 by chance.
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

// declared is the charset that a document names in its XML declaration or in a
// meta element, which the standard looks for in the first 1024 bytes and pages
// have later. That of a script or a link is about another document.
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

// mostlyUTF8 reports whether a document is UTF-8 but for a few bytes: a page that
// was cut, or put together of two, has such bytes.
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

// guess tells the charsets of East Asia by what decodes without fault and into
// the letters of the language, and those of one byte by the letters of theirs.
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

// scattered reports whether the bytes outside of ASCII stand one by one among
// letters of it, as the accents of Latin do. Other scripts write in rows of them,
// though the second byte of a character may be a letter by itself.
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
	return (company-high)*3 < high*2*near // less than a third of their neighbours
}

// asian is the share of letters outside of ASCII that are what a language
// mostly writes with, and less for what it rarely does.
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
