package engine

import (
	"html"
	"strings"
)

// scanner cuts a body into tags and texts without copying them. It follows section 13.2.5
// of the HTML standard as far as it matters for what is in which element. It never fails:
// the worst body is one long text.
//
// The tokenizer of x/net/html makes two copies of each attribute, which took half of the
// time for a page of results.
type scanner struct {
	text string
	at   int
	xml  bool
	raw  string // name of the element just opened whose content is text up to its end tag, or ""

	// Parts of the token that the last call of next found.
	name   string // name of a tag, in lower case
	value  string // content of a text, with character references resolved
	attrs  string // text between the name of a tag and its end
	closed bool   // reports whether a start tag closes itself
	cut    bool   // reports whether the body ends in a tag
}

type found int

const (
	pieceEnd found = iota
	pieceText
	pieceStart
	pieceClose
)

// rawText are the elements whose content is text, whatever it looks like.
var rawText = map[string]bool{
	"script": true, "style": true, "title": true, "textarea": true, "xmp": true,
	"iframe": true, "noembed": true, "noframes": true,
}

// next finds the next tag or text. It skips comments and the like.
func (s *scanner) next() found {
	for s.at < len(s.text) {
		if s.raw != "" {
			if s.takeRaw(); s.value != "" {
				return pieceText
			}
			continue
		}
		rest := s.text[s.at:]
		open := markup(rest)
		switch {
		case open < 0:
			s.at = len(s.text)
			s.value = html.UnescapeString(rest)
			return pieceText
		case open > 0:
			s.at += open
			s.value = html.UnescapeString(rest[:open])
			return pieceText
		case rest[1] == '!' || rest[1] == '?':
			if s.xml && strings.HasPrefix(rest, "<![CDATA[") {
				s.value, _, _ = strings.Cut(rest[len("<![CDATA["):], "]]>")
				s.at = min(len(s.text), s.at+len("<![CDATA[")+len(s.value)+len("]]>"))
				return pieceText
			}
			s.at += remark(rest)
		case rest[1] == '/':
			if s.takeTag(2) {
				return pieceClose
			}
		default:
			if s.takeTag(1) {
				return pieceStart
			}
		}
	}
	return pieceEnd
}

// markup returns the index of the next markup in s, or -1. Markup begins with a "<" before
// a letter, an exclamation or question mark, or a slash and a letter.
func markup(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '<')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		i += from
		c := s[i+1]
		if letter(c) || c == '!' || c == '?' || c == '/' && i+2 < len(s) && letter(s[i+2]) {
			return i
		}
		from = i + 1
	}
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// remark returns the length of the comment, declaration or instruction at the beginning of
// s.
func remark(s string) int {
	end, from := ">", 2
	if strings.HasPrefix(s, "<!--") {
		if strings.HasPrefix(s[4:], ">") || strings.HasPrefix(s[4:], "->") {
			return strings.IndexByte(s, '>') + 1
		}
		end, from = "-->", 4
	}
	i := strings.Index(s[from:], end)
	if i < 0 {
		return len(s)
	}
	return from + i + len(end)
}

// takeRaw takes the content of an element that is in rawText.
func (s *scanner) takeRaw() {
	rest, name := s.text[s.at:], s.raw
	s.raw, s.value = "", rest
	for from := 0; ; {
		i := strings.Index(rest[from:], "</")
		if i < 0 {
			break
		}
		i += from
		after := rest[i+2:]
		if len(after) > len(name) && strings.EqualFold(after[:len(name)], name) && (space(after[len(name)]) || after[len(name)] == '>' || after[len(name)] == '/') {
			s.value = rest[:i]
			break
		}
		from = i + 2
	}
	s.at += len(s.value)
	if name == "title" || name == "textarea" {
		s.value = html.UnescapeString(s.value)
	}
}

// takeTag takes the tag whose name begins skip bytes further. It returns false if the body
// ends within the tag.
func (s *scanner) takeTag(skip int) bool {
	rest := s.text[s.at+skip:]
	end := 0
	for end < len(rest) && !space(rest[end]) && rest[end] != '/' && rest[end] != '>' {
		end++
	}
	if end == len(rest) {
		s.at, s.cut = len(s.text), true
		return false
	}
	s.name = strings.ToLower(rest[:end])
	long := tagEnd(rest[end:])
	if long < 0 {
		s.at, s.cut = len(s.text), true
		return false
	}
	s.attrs = rest[end : end+long]
	s.closed = strings.HasSuffix(s.attrs, "/")
	s.at += skip + end + long + 1
	if skip == 1 && !s.xml && rawText[s.name] {
		s.raw = s.name
	}
	return true
}

// tagEnd returns the index of the ">" that ends a tag, or -1. s begins with the attributes
// of the tag; a ">" in quotes does not end it.
func tagEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '>':
			return i
		case '=':
			j := i + 1
			for j < len(s) && space(s[j]) {
				j++
			}
			if j < len(s) && (s[j] == '"' || s[j] == '\'') {
				end := strings.IndexByte(s[j+1:], s[j])
				if end < 0 {
					return -1
				}
				j += end + 2
			}
			i = j - 1
		}
	}
	return -1
}

// attribute cuts the next attribute from attrs. It returns false if there are no more. An
// attribute without a value has an empty value.
func (s *scanner) attribute() (key, value string, ok bool) {
	a := s.attrs
	for a != "" && (space(a[0]) || a[0] == '/') {
		a = a[1:]
	}
	if a == "" {
		s.attrs = ""
		return "", "", false
	}
	end := 1 // the name of an attribute may even start with "="
	for end < len(a) && !space(a[end]) && a[end] != '/' && a[end] != '=' {
		end++
	}
	key, a = strings.ToLower(a[:end]), a[end:]
	for a != "" && space(a[0]) {
		a = a[1:]
	}
	if a == "" || a[0] != '=' {
		s.attrs = a
		return key, "", true
	}
	a = a[1:]
	for a != "" && space(a[0]) {
		a = a[1:]
	}
	switch {
	case a != "" && (a[0] == '"' || a[0] == '\''):
		value, s.attrs, _ = strings.Cut(a[1:], a[:1])
	default:
		end = 0
		for end < len(a) && !space(a[end]) {
			end++
		}
		value, s.attrs = a[:end], a[end:]
	}
	return key, html.UnescapeString(value), true
}
