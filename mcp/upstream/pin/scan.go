package pin

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"belljar.dev/internal/printable"
)

// Bounds of the scan.
const (
	maxProse      = 8 << 10   // bytes of one text of a definition
	maxScanned    = 128 << 10 // bytes of one definition; more is a finding
	maxAllScanned = 1 << 20   // bytes of all definitions of a server
	maxFindings   = 16        // of one definition
	maxExcerpt    = 80        // characters
	maxEncoded    = 64        // characters that may look like base64
)

// Finding is something in a definition that a person should look at before the definition is
// trusted. The scan is advice: texts without a finding may deceive, and texts with one may be
// harmless.
type Finding struct {
	What  string // the class, such as "hidden character"
	Where string // the path in the definition
	Text  string // an excerpt, in quotes and visible
}

// String is the finding in one line.
func (f Finding) String() string { return fmt.Sprintf("%s in %s: %s", f.What, f.Where, f.Text) }

// looker scans the definitions of one server.
type looker struct {
	others []string // names of tools that are not the server's
	left   int      // bytes that are still looked at
}

// looking is the looker for what a server serves. others are as in Rules; tools of one server
// may name each other.
func looking(others []string, all []served) looker {
	own := make(map[string]struct{}, len(all))
	for _, d := range all {
		own[d.name] = struct{}{}
	}
	return looker{left: maxAllScanned, others: slices.DeleteFunc(slices.Clone(others), func(name string) bool {
		_, there := own[name]
		return there
	})}
}

// at returns what the scan finds in a definition. The command that runs is not looked at: the
// operator wrote it, no model reads it, and the integrity of a lock looks like encoded text.
func (l *looker) at(d served) []Finding {
	if d.kind == KindRuns {
		return nil
	}
	s := scanner{others: l.others, left: min(l.left, maxScanned)}
	l.left -= min(len(d.text), s.left)
	s.scan(d.text)
	return s.found
}

type scanner struct {
	others []string
	found  []Finding
	left   int // bytes that are still looked at
}

// scan looks through the canonical text of a definition.
func (s *scanner) scan(text []byte) {
	w := walked(text)
	if w.cut {
		s.add("more values than are looked at", "the definition", "")
	}
	for _, name := range w.names {
		s.hidden("a name", name)
		if len(name) > 12 && s.spend(len(name)) { // as long as the shortest sentence that says anything
			s.phrases("a name", strings.NewReplacer("_", " ", "-", " ").Replace(name))
		}
	}
	for _, l := range w.leaves {
		text, ok := l.value.(string)
		if !ok {
			continue
		}
		where := cmp.Or(l.path, "the text")
		s.prose(where, text)
		if strings.HasSuffix(where, "$ref") && !strings.HasPrefix(text, "#") {
			s.add("reference to another document", where, text)
		}
	}
}

// spend reports whether so many bytes may still be looked at. If not, the scan notes a
// finding.
func (s *scanner) spend(bytes int) bool {
	if s.left -= bytes; s.left < 0 {
		s.add("more text than is looked at", "the definition", "")
	}
	return s.left >= 0
}

// add records a finding, with an excerpt of the text.
func (s *scanner) add(what, where, text string) {
	if len(s.found) == maxFindings || slices.ContainsFunc(s.found, func(f Finding) bool { return f.What == what && f.Where == where }) {
		return
	}
	excerpt, more := []rune(text), ""
	if len(excerpt) > maxExcerpt {
		excerpt, more = excerpt[:maxExcerpt], "…"
	}
	s.found = append(s.found, Finding{what, where, quoted(string(excerpt)) + more})
}

// prose looks through one text.
func (s *scanner) prose(where, text string) {
	picture := strings.HasPrefix(where, "icons[") && strings.HasPrefix(text, "data:image/")
	if len(text) > maxProse && !picture {
		s.add(fmt.Sprintf("text of %d bytes", len(text)), where, text)
	}
	s.hidden(where, text)
	if picture {
		return
	}
	if !s.spend(len(text)) {
		return
	}
	s.encoded(where, text)
	s.phrases(where, text)
	if where != "name" { // the table of names decides about names
		s.names(where, text)
	}
}

// hidden looks for characters that a person does not see and a model reads.
func (s *scanner) hidden(where, text string) {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return
	}
	runes := []rune(text)
	for i, r := range runes {
		var before, after rune
		if i > 0 {
			before = runes[i-1]
		}
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		if what := hides(r, before, after); what != "" {
			s.add(what, where, string(runes[max(0, i-maxExcerpt/2):min(len(runes), i+maxExcerpt/2)]))
		}
	}
}

// hides says which kind of hidden character r is; empty if it shows, or is where scripts and
// emoji need it.
func hides(r, before, after rune) string {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || printable.Rune(r):
		return ""
	case 0xe0000 <= r && r <= 0xe007f: // without an exception for flags: any text can be written in tags
		return "tag character"
	case r == 0x061c || r == 0x200e || r == 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
		return "character that changes the direction of text"
	case r < ' ' || 0x7f <= r && r < 0xa0:
		return "control character"
	case r == 0xfe0e || r == 0xfe0f: // the text or the colour form of the character before
		if unicode.In(before, unicode.So, unicode.Sm, unicode.Po) || '0' <= before && before <= '9' || before == '#' || before == '*' {
			return ""
		}
	case 0xe0100 <= r && r <= 0xe01ef: // a form of an ideograph
		if unicode.Is(unicode.Han, before) {
			return ""
		}
	case r == 0x200d && (unicode.In(before, unicode.So, unicode.Sk) || before == 0xfe0f) && unicode.Is(unicode.So, after): // one emoji of two
		return ""
	case (r == 0x200c || r == 0x200d) && joined(before) && joined(after):
		return ""
	}
	return "hidden character"
}

// joined reports whether a character is of a script that writes with joiners.
func joined(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Gujarati, unicode.Gurmukhi,
		unicode.Kannada, unicode.Malayalam, unicode.Oriya, unicode.Sinhala, unicode.Tamil, unicode.Telugu, unicode.Khmer, unicode.Myanmar)
}

var encodedRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[A-Za-z0-9+/_-]{20,}={0,2}(?:\s+[A-Za-z0-9+/_-]{20,}={0,2})*`)
})

// encoded looks for texts in base64 and in hexadecimal digits: long ones, and short ones that
// are text again when they are decoded.
func (s *scanner) encoded(where, text string) {
	for _, run := range encodedRuns().FindAllString(text, -1) {
		run = strings.Join(strings.Fields(run), "")
		body := strings.TrimRight(run, "=")
		standard := strings.NewReplacer("-", "+", "_", "/").Replace(body)
		if plain, err := base64.RawStdEncoding.DecodeString(standard); err == nil && readable(plain) {
			s.add("encoded text", where, string(plain))
		} else if plain, err := hex.DecodeString(body); err == nil && readable(plain) {
			s.add("encoded text", where, string(plain))
		} else if len(body) > maxEncoded && strings.ContainsFunc(body, unicode.IsUpper) && strings.ContainsFunc(body, unicode.IsLower) && strings.ContainsFunc(body, unicode.IsDigit) {
			s.add("what may be encoded text", where, run)
		}
	}
}

// readable reports whether decoded bytes are text. Other bytes hardly ever decode to UTF-8
// without control characters.
func readable(plain []byte) bool {
	return len(plain) >= 12 && utf8.Valid(plain) && !strings.ContainsFunc(string(plain), func(r rune) bool {
		return !printable.Rune(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// phrases looks for what texts say that are made to deceive, whatever they are dressed in.
func (s *scanner) phrases(where, text string) {
	folded := fold(text)
	for _, p := range phrases() {
		if !p.may(folded) {
			continue
		}
		for _, at := range p.match.FindAllStringIndex(folded, 4) {
			if p.unless != nil && p.unless.MatchString(folded[max(0, at[0]-60):at[0]]) || p.also != nil && !p.also.MatchString(folded) {
				continue
			}
			s.add(p.what, where, folded[at[0]:at[1]])
			break
		}
	}
}

// names looks for the names of tools that are not this server's. A name that is also a word
// counts only where it is marked as a name.
func (s *scanner) names(where, text string) {
	for _, name := range s.others {
		for from := 0; len(name) >= 3; {
			i := strings.Index(text[from:], name)
			if i < 0 {
				break
			}
			at, end := from+i, from+i+len(name)
			from = end
			if inWord(text[:at], true) || inWord(text[end:], false) {
				continue
			}
			marked := strings.HasPrefix(text[end:], " tool") || at > 0 && strings.ContainsRune("`'\"", rune(text[at-1]))
			if marked || distinct(name) {
				s.add("name of another server's tool", where, text[at:])
				break
			}
		}
	}
}

// inWord reports whether a word goes on at the end, or at the beginning, of a text.
func inWord(text string, atEnd bool) bool {
	r, _ := utf8.DecodeRuneInString(text)
	if atEnd {
		r, _ = utf8.DecodeLastRuneInString(text)
	}
	return text != "" && (r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r))
}

// distinct reports whether a name is hardly a word of a language.
func distinct(name string) bool {
	return strings.ContainsAny(name[1:], "_:") || strings.ContainsFunc(name[1:], unicode.IsUpper) && strings.ContainsFunc(name, unicode.IsLower)
}
