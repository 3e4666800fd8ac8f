package policies

import (
	"bytes"
	"regexp"
	"strings"
)

// This file is a plain reading of shell text, and split is all that the rest
// of the package sees of it. It knows quotes, operators, substitutions,
// redirections and the words that open and close blocks. What it does not
// know exactly it does not guess at: from there on the text is one part that
// any rule about commands may speak about. It looks into no program that runs
// another (sudo, env, xargs, bash -c).

// Bounds of the reading. They also bound the work of a decision.
const (
	maxScript = 64 << 10 // bytes of text
	maxParts  = 1000     // commands
	maxDepth  = 64       // substitutions and subshells in each other
)

// word is one word of a command after quote removal.
type word struct {
	text    string
	also    string // another text it goes by; may be empty
	unknown bool   // only known when the command runs, and may be any number of words then
	bare    bool   // written without quotes or escapes, so it may be a keyword
}

// part is one command of a script.
type part struct {
	words  []word
	text   string // as written
	doubt  string // why the words do not say all that the command does; empty if they do
	opaque bool   // the text was not read: there may be any commands in it
}

// split takes a script apart into the commands it runs as far as its text
// shows. Every command of the script is one of the parts, or lies in an opaque
// one. A script that runs nothing has one part without words.
func split(script string) []part {
	s := scanner{text: script, frames: make([]frame, 1, 4)}
	switch {
	case len(script) > maxScript:
		s.giveUp("it is longer than 64 KiB")
	case strings.ContainsRune(script, 0):
		// bash drops the byte: what is read here and what runs would differ.
		s.giveUp("it holds a NUL byte")
	default:
		s.scan()
	}
	if len(s.parts) == 0 {
		return []part{{}}
	}
	return s.parts
}

// scanner walks over the text once. Nested text is kept on a stack of frames
// and not on Go's own, which a hostile script could exhaust.
type scanner struct {
	text   string
	i      int
	frames []frame
	parts  []part
	done   bool
}

// frame is a script or a part of one that stands in brackets or backticks.
type frame struct {
	close  byte // ends it; 0 for the script itself
	quoted bool // within double quotes

	from     int // where the command starts, if begun
	begun    bool
	words    []word
	doubt    string
	target   string // redirection operator whose target comes next
	moved    bool   // a redirection or a variable came first, so no keyword can follow
	piped    bool   // it stands behind a pipe
	timed    bool   // the last keyword was time
	loop     bool   // the first word is the keyword for
	word     []byte
	inWord   bool
	marked   bool // the word holds quotes or escapes
	unknown  bool
	equals   bool // the word holds a =
	assigned bool // the word is NAME=...
}

func (s *scanner) top() *frame { return &s.frames[len(s.frames)-1] }

// peek is the byte n after the current one, or 0.
func (s *scanner) peek(n int) byte {
	if s.i+n < len(s.text) {
		return s.text[s.i+n]
	}
	return 0
}

// begin notes that a word goes on at the current byte.
func (s *scanner) begin() *frame {
	f := s.top()
	if !f.begun {
		f.begun, f.from = true, s.i
	}
	f.inWord = true
	return f
}

// add takes n bytes into the word.
func (s *scanner) add(n int) {
	f := s.begin()
	f.word = append(f.word, s.text[s.i:s.i+n]...)
	s.i += n
}

func (s *scanner) scan() {
	for s.i < len(s.text) && !s.done {
		if s.top().quoted {
			s.inQuotes()
		} else {
			s.plain()
		}
	}
	switch {
	case s.done:
	case len(s.frames) > 1 || s.top().quoted:
		s.giveUp("its quotes or brackets do not close")
	default:
		s.endPart()
	}
}

// inQuotes reads one step within double quotes.
func (s *scanner) inQuotes() {
	f := s.top()
	switch c := s.text[s.i]; c {
	case '"':
		f.quoted = false
		s.i++
	case '\\':
		switch next := s.peek(1); {
		case s.inBackticks():
			s.giveUp("it holds escapes in backticks")
		case next == '\n':
			s.i += 2
		case next != 0 && strings.IndexByte("$`\"\\", next) >= 0:
			s.i++
			s.add(1)
		default:
			s.add(1)
		}
	case '$':
		s.dollar()
	case '`':
		s.backtick()
	default:
		s.add(1)
	}
}

// plain reads one step outside quotes.
func (s *scanner) plain() {
	f := s.top()
	switch c := s.text[s.i]; c {
	case ' ', '\t':
		s.endWord()
		s.i++
	case '\n', ';':
		s.endPart()
		s.i++
	case '|':
		s.endPart()
		s.i++
		switch {
		case s.done:
		case s.peek(0) == '|':
			s.i++
		default:
			s.top().piped = true
		}
	case '&':
		if s.peek(1) == '>' {
			s.endWord()
			s.redirect(len("&>"))
			return
		}
		s.endPart()
		s.i++
	case '(':
		s.open()
	case ')':
		s.endPart()
		if f.close != ')' {
			s.giveUp("its brackets do not match")
			return
		}
		s.pop()
	case '`':
		s.backtick()
	case '\'':
		s.singleQuotes(1)
	case '"':
		f = s.begin()
		f.quoted, f.marked = true, true
		s.i++
	case '\\':
		s.escape()
	case '$':
		s.dollar()
	case '<', '>':
		s.angle()
	case '#':
		if f.inWord {
			s.add(1)
			return
		}
		s.comment()
	case '*', '?', '[', '{', '}', '~', '=':
		s.special(c)
	default:
		s.add(1)
	}
}

// special reads a byte that can make a word more than its letters.
func (s *scanner) special(c byte) {
	f := s.top()
	bare := !f.marked && !f.unknown
	switch c {
	case '=':
		if bare && len(f.words) == 0 && !f.equals && variable.Match(bytes.TrimSuffix(f.word, []byte("+"))) {
			f.assigned = true
		}
		f.equals = true
	case '~':
		if !f.inWord || bytes.HasSuffix(f.word, []byte("=")) || bytes.HasSuffix(f.word, []byte(":")) {
			s.begin().unknown = true
		}
	case '[':
		// [ and [[ alone are commands; name[ opens a subscript, in which blanks
		// and comments mean something else.
		switch {
		case !f.inWord && s.ends(1):
		case !f.inWord && s.peek(1) == '[' && s.ends(2):
			s.add(2)
			return
		case bare && variable.Match(f.word):
			s.giveUp("it uses an array")
			return
		default:
			s.begin().unknown = true
		}
	case '{':
		switch {
		case !f.inWord && s.ends(1):
		case !f.inWord && s.peek(1) == '}' && s.ends(2):
			s.add(2)
			return
		default:
			s.begin().unknown = true
		}
	case '*', '?':
		s.begin().unknown = true
	}
	s.add(1)
}

// ends reports whether a word ends before the byte n after the current one.
func (s *scanner) ends(n int) bool {
	return s.i+n >= len(s.text) || strings.IndexByte(" \t\n;&|()<>", s.peek(n)) >= 0
}

// open reads an opening bracket.
func (s *scanner) open() {
	f := s.top()
	switch {
	case s.peek(1) == '(':
		s.giveUp("it holds arithmetic")
	case f.inWord || len(f.words) > 0 || f.target != "":
		// A function, an array or a pattern: all change what later words mean.
		s.giveUp("it holds a function, an array or a pattern in brackets")
	default:
		s.endPart()
		s.push(')', 1)
	}
}

// push starts a nested text n bytes on.
func (s *scanner) push(end byte, n int) {
	if len(s.frames) > maxDepth {
		s.giveUp("it nests too deeply")
		return
	}
	s.i += n
	s.frames = append(s.frames, frame{close: end})
}

func (s *scanner) pop() {
	s.frames = s.frames[:len(s.frames)-1]
	s.i++
}

// inBackticks reports whether the current text stands in backticks: bash
// looks for the closing one before it reads anything else in them.
func (s *scanner) inBackticks() bool {
	for i := range s.frames {
		if s.frames[i].close == '`' {
			return true
		}
	}
	return false
}

func (s *scanner) backtick() {
	f := s.top()
	switch {
	case f.close == '`' && !f.quoted:
		s.endPart()
		if !s.done {
			s.pop()
		}
	case s.inBackticks():
		s.giveUp("it nests backticks")
	default:
		s.begin().unknown = true
		s.push('`', 1)
	}
}

// singleQuotes reads a quoted text whose quote stands n-1 bytes on; n is 2
// for $'...', in which backslashes escape.
func (s *scanner) singleQuotes(n int) {
	f := s.begin()
	f.marked = true
	body := s.text[s.i+n:]
	end := strings.IndexByte(body, '\'')
	if n == 2 {
		f.unknown = true
		for end = 0; end < len(body) && body[end] != '\''; end++ {
			if body[end] == '\\' {
				end++
			}
		}
		if end >= len(body) {
			end = -1
		}
	}
	switch {
	case end < 0:
		s.giveUp("its quotes do not close")
		return
	case s.inBackticks() && strings.ContainsAny(body[:end], "`\\"):
		s.giveUp("it quotes in backticks")
		return
	}
	f.word = append(f.word, body[:end]...)
	s.i += n + end + 1
}

// escape reads a backslash outside quotes.
func (s *scanner) escape() {
	switch {
	case s.inBackticks():
		s.giveUp("it holds escapes in backticks")
	case s.peek(1) == '\n':
		s.i += 2 // the line goes on, and so does the word
	case s.i+1 == len(s.text):
		s.add(1)
	default:
		s.begin().marked = true
		s.i++
		s.add(1)
	}
}

// parameter is an expansion that runs nothing: no nested expansion, no
// operator @, no subscript to evaluate.
var parameter = regexp.MustCompile("^\\$\\{[#!]?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\\[[@*0-9]+\\])?(?:[-:#%/^,+=?][^'\"$`\\\\{}()\\[\\n]*)?\\}")

// dollar reads an expansion.
func (s *scanner) dollar() {
	f := s.begin()
	f.unknown = true
	switch next := s.peek(1); {
	case next == '(' && s.peek(2) == '(', next == '[':
		s.giveUp("it holds arithmetic")
	case next == '(':
		s.push(')', 2)
	case next == '{':
		n := len(parameter.FindString(s.text[s.i:min(s.i+256, len(s.text))]))
		if n == 0 {
			s.giveUp("it holds an expansion with text in it")
			return
		}
		s.add(n)
	case next == '\'' && !f.quoted:
		s.singleQuotes(2)
	case next == '"' && !f.quoted:
		s.i++ // the quotes themselves come next
	default:
		s.add(1)
	}
}

// angle reads < or >: a redirection or a process substitution.
func (s *scanner) angle() {
	if s.peek(1) == '(' {
		s.begin().unknown = true
		s.push(')', 2)
		return
	}
	f := s.top()
	if f.inWord && !f.marked && !f.unknown && len(bytes.Trim(f.word, "0123456789")) == 0 {
		f.word = f.word[:0] // the number of a descriptor, as in 2>&1
		f.inWord = false
	} else {
		s.endWord()
	}
	rest := s.text[s.i:]
	switch {
	case strings.HasPrefix(rest, "<<<"):
		s.redirect(3)
	case strings.HasPrefix(rest, "<<"):
		s.giveUp("it holds a here-document")
	case len(rest) > 1 && (rest[1] == '>' || rest[1] == '&' || rest[:2] == ">|"):
		s.redirect(2)
	default:
		s.redirect(1)
	}
}

// redirect notes a redirection whose operator has n bytes.
func (s *scanner) redirect(n int) {
	f := s.top()
	if !f.begun {
		f.begun, f.from = true, s.i
	}
	if f.target != "" {
		s.giveUp("it holds a redirection without a target")
		return
	}
	f.target, f.moved = s.text[s.i:s.i+n], true
	s.i += n
	if f.target == "&>" && s.peek(0) == '>' {
		s.i++
	}
}

// comment skips to the end of the line.
func (s *scanner) comment() {
	end := strings.IndexByte(s.text[s.i:], '\n')
	if end < 0 {
		end = len(s.text) - s.i
	}
	if s.inBackticks() && strings.Contains(s.text[s.i:s.i+end], "`") {
		s.giveUp("it holds a comment in backticks")
		return
	}
	s.i += end
}

// endWord takes the word that ends here into the command.
func (s *scanner) endWord() {
	f := s.top()
	if !f.inWord {
		return
	}
	w := word{text: string(f.word), unknown: f.unknown, bare: !f.marked && !f.unknown}
	assigned, target := f.assigned, f.target
	f.word, f.target = f.word[:0], ""
	f.inWord, f.marked, f.unknown, f.equals, f.assigned = false, false, false, false, false
	switch {
	case target != "":
		copied := strings.HasSuffix(target, "&") && strings.Trim(w.text, "0123456789-") == ""
		if w.unknown || !copied && w.text != "/dev/null" {
			f.doubt = "it redirects to or from a file"
		}
	case assigned:
		// The environment is code to many programs (PATH, LD_PRELOAD, CC).
		f.doubt, f.moved = "it sets a variable", true
	case w.bare && w.text == "=~":
		s.giveUp("it matches a pattern")
	case len(f.words) == 0 && w.bare && !f.moved && s.keyword(w.text):
	default:
		f.loop = f.loop || len(f.words) == 0 && w.bare && !f.moved && w.text == "for"
		if w.unknown && f.doubt == "" {
			f.doubt = "a word of it is only known when it runs"
		}
		f.words = append(f.words, w)
	}
}

// keyword reports whether a word where a command may start is none itself.
func (s *scanner) keyword(text string) bool {
	f := s.top()
	timed := f.timed
	f.timed = false
	switch text {
	case "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}":
		return true
	case "time":
		if f.piped {
			// Not the keyword here but the program, with options of its own.
			s.giveUp("it runs time behind a pipe")
		}
		f.timed = true
		return true
	case "-p", "--":
		f.timed = timed && text == "-p"
		return timed
	case "case", "esac", "function", "select", "coproc":
		s.giveUp("it holds the word " + text)
		return true
	}
	return false
}

// endPart ends the command that stands before the current byte.
func (s *scanner) endPart() {
	s.endWord()
	f := s.top()
	switch {
	case s.done:
		return
	case f.target != "":
		s.giveUp("it holds a redirection without a target")
		return
	case f.loop:
		// "for f do rm x; done" has no separator before its do.
		list := len(f.words) > 2 && f.words[2].bare && f.words[2].text == "in"
		if len(f.words) != 2 && !list {
			s.giveUp("it holds a loop of an unusual shape")
			return
		}
	case len(f.words) > 0 || f.doubt != "":
		if len(s.parts) == maxParts {
			s.giveUp("it holds more than 1000 commands")
			return
		}
		s.emit(f, s.i)
	}
	*f = frame{close: f.close, piped: f.piped && !f.begun} // a line may end behind a pipe
}

func (s *scanner) emit(f *frame, end int) {
	s.parts = append(s.parts, part{words: f.words, text: strings.TrimSpace(s.text[f.from:end]), doubt: f.doubt})
}

// giveUp ends the reading: what has been read of open commands becomes parts
// with an unknown end, and the rest is opaque.
func (s *scanner) giveUp(why string) {
	if s.done {
		return
	}
	s.done = true
	for i := range s.frames {
		f := &s.frames[i]
		if len(f.words) > 0 || f.inWord {
			f.words, f.doubt = append(f.words, word{unknown: true}), why
			s.emit(f, max(s.i, f.from))
		}
	}
	s.parts = append(s.parts, part{text: strings.TrimSpace(s.text[min(s.i, len(s.text)):]), doubt: why, opaque: true})
}
