package wire

import "bytes"

// A client waits for an answer with the id of its request. Some lines are refused before
// they are read: they are not JSON, too long, or have a member twice. Most of them still
// contain that id, and a client that gets null instead waits for ever. So the id is looked
// for in such lines too, and used only if there is no doubt: one member "id" at the top,
// well formed, in an object whose strings and brackets match. The line must not be an
// answer to one of our requests, whose ids we have chosen.

const (
	identLevels = 1 << 20       // levels of nesting that are followed
	identMember = 2 * longestID // bytes of one member that are kept
)

// RequestID returns the id of the request in a line that was refused, or nil.
func RequestID(line []byte) []byte {
	var s identScanner
	s.write(line)
	return s.id()
}

// RequestIDBefore returns the id of the request that begins with text, if the id is in
// text, behind or in front of the method. It is meant for the body of an HTTP request,
// whose answer can only be the answer to that request.
func RequestIDBefore(text []byte) []byte {
	var s identScanner
	s.write(bytes.TrimPrefix(text, bom))
	if s.ids != 1 || !s.method || s.response {
		return nil
	}
	return s.found
}

// AnswerID returns the id of the response in a line that was refused, or nil.
func AnswerID(line []byte) []byte {
	var s identScanner
	s.write(line)
	return s.answer()
}

// identScanner finds the id of a request while the request's text is streamed through
// it. Its zero value is ready for the first piece. Its memory does not grow with the
// text.
type identScanner struct {
	open     []byte // the brackets that are open, outermost first
	quoted   bool   // the scanner is within a string
	escaped  bool   // the last byte was a backslash in a string
	broken   bool   // brackets do not match, or too many are open
	member   []byte // current member of the outermost object, without space and nested values
	partial  bool   // member is not complete
	ids      int    // number of members "id"
	found    []byte // value of the last member "id", if it is well formed
	method   bool
	response bool
}

// write reads the next piece of the text.
func (s *identScanner) write(text []byte) {
	for _, b := range text {
		switch {
		case s.broken:
			return
		case s.quoted:
			s.keep(b)
			s.quoted = s.escaped || b != '"'
			s.escaped = b == '\\' && !s.escaped
		case b == '"':
			s.keep(b)
			s.quoted = true
		case b == '{' || b == '[':
			s.partial = s.partial || len(s.open) > 0
			s.open = append(s.open, b+2) // '}' or ']'
			s.broken = len(s.open) > identLevels
			if len(s.open) == 1 {
				s.member, s.partial = s.member[:0], false
			}
		case b == '}' || b == ']':
			if s.broken = len(s.open) == 0 || s.open[len(s.open)-1] != b; s.broken {
				return
			}
			s.end()
			s.open = s.open[:len(s.open)-1]
		case b == ',':
			s.end()
		case b == ' ' || b == '\t' || b == '\r' || b == '\n':
			s.gap()
		default:
			s.keep(b)
		}
	}
}

// keep adds a byte to the member.
func (s *identScanner) keep(b byte) {
	switch {
	case len(s.open) != 1 || s.open[0] != '}':
	case len(s.member) == identMember:
		s.partial = true
	default:
		s.member = append(s.member, b)
	}
}

// gap adds one space to the member for many spaces, so that 1 2 does not become 12.
func (s *identScanner) gap() {
	if n := len(s.member); n > 0 && s.member[n-1] != ' ' {
		s.keep(' ')
	}
}

// end reads the member that has ended, if it is a member of the outermost object.
func (s *identScanner) end() {
	if len(s.open) != 1 {
		return
	}
	defer func() { s.member, s.partial = s.member[:0], false }()
	c := checker{data: s.member}
	if c.next() != '"' || c.text() != nil {
		return
	}
	name := Unquote(bytes.TrimSpace(s.member[:c.at]))
	if c.next() != ':' {
		return
	}
	value := bytes.TrimSpace(s.member[c.at+1:])
	switch name {
	case "id":
		s.ids++
		s.found = nil
		if s.partial || len(value) == 0 || CheckJSON(value, 1) != nil {
			return
		}
		if _, bad := IDKey(value); bad == nil {
			s.found = bytes.Clone(value)
		}
	case "method":
		s.method = true
	case "result", "error":
		s.response = true
	}
}

// id returns the id of the request, or nil if it is not certain.
func (s *identScanner) id() []byte {
	if s.broken || s.quoted || s.ids != 1 || s.response && !s.method {
		return nil
	}
	return s.found
}

// answer returns the id of the response, or nil if it is not certain.
func (s *identScanner) answer() []byte {
	if s.broken || s.quoted || s.ids != 1 || !s.response || s.method {
		return nil
	}
	return s.found
}
