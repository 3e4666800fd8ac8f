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
	maxScanned    = 128 << 10 // bytes of one definition; a larger definition is a finding
	maxAllScanned = 1 << 20   // bytes of all definitions of a server
	maxFindings   = 16        // findings of one definition
	maxExcerpt    = 80        // characters of an excerpt
	maxEncoded    = 64        // characters of a text that may be base64
)

// Finding is a part of a definition that a person should look at before the definition is
// trusted. The scan only advises: texts without a finding may deceive, and texts with one
// may be harmless.
type Finding struct {
	What  string // class, such as "hidden character"
	Where string // path in the definition
	Text  string // excerpt, in quotes and with visible hidden characters
}

// String returns the finding in one line.
func (f Finding) String() string { return fmt.Sprintf("%s in %s: %s", f.What, f.Where, f.Text) }

// looker scans the definitions of one server.
type looker struct {
	others []string // names of tools of other servers and of our own
	left   int      // bytes that may still be scanned
}

// looking returns a looker for the definitions that a server serves. others are as in
// Rules; tools of the same server may name each other.
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

// at returns the findings in a definition. What runs is not scanned: the operator wrote it,
// no model reads it, and the integrity of a lock looks like encoded text.
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
	left   int // bytes that may still be scanned
}

// scan scans the canonical text of a definition.
func (s *scanner) scan(text []byte) {
	w := walked(text)
	if w.cut {
		s.add("more values than are scanned", "the definition", "")
	}
	for _, name := range w.names {
		s.hidden("a name", name)
		if len(name) > 12 && s.spend(len(name)) { // shorter names cannot contain a sentence
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

// spend reports whether that many bytes may still be scanned. If not, it adds a finding.
func (s *scanner) spend(bytes int) bool {
	if s.left -= bytes; s.left < 0 {
		s.add("more text than is scanned", "the definition", "")
	}
	return s.left >= 0
}

// add adds a finding, with an excerpt of the text.
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

// prose scans one text.
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
	if where != "name" { // collisions of names are judged elsewhere (package names)
		s.names(where, text)
	}
}

// hidden looks for characters that a person cannot see and a model reads.
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

// hides returns the kind of a hidden character r; empty if r is visible, or if a script or
// an emoji needs it there.
func hides(r, before, after rune) string {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || printable.Rune(r):
		return ""
	case 0xe0000 <= r && r <= 0xe007f: // flags are no exception: any text can be written in tags
		return "tag character"
	case r == 0x061c || r == 0x200e || r == 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
		return "character that changes the direction of text"
	case r < ' ' || 0x7f <= r && r < 0xa0:
		return "control character"
	case r == 0xfe0e || r == 0xfe0f: // variation selector: text or colour form of the character before
		if unicode.In(before, unicode.So, unicode.Sm, unicode.Po) || '0' <= before && before <= '9' || before == '#' || before == '*' {
			return ""
		}
	case 0xe0100 <= r && r <= 0xe01ef: // variation selector of an ideograph
		if unicode.Is(unicode.Han, before) {
			return ""
		}
	// joins two emoji into one
	case r == 0x200d && (unicode.In(before, unicode.So, unicode.Sk) || before == 0xfe0f) && unicode.Is(unicode.So, after):
		return ""
	case (r == 0x200c || r == 0x200d) && joined(before) && joined(after):
		return ""
	}
	return "hidden character"
}

// joined reports whether the script of a character uses joiners.
func joined(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Devanagari, unicode.Bengali, unicode.Gujarati, unicode.Gurmukhi,
		unicode.Kannada, unicode.Malayalam, unicode.Oriya, unicode.Sinhala, unicode.Tamil, unicode.Telugu, unicode.Khmer, unicode.Myanmar)
}

var encodedRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[A-Za-z0-9+/_-]{20,}={0,2}(?:\s+[A-Za-z0-9+/_-]{20,}={0,2})*`)
})

// encoded looks for texts in base64 and in hexadecimal digits: long texts, and short ones
// that are readable when they are decoded.
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
			s.add("possibly encoded text", where, run)
		}
	}
}

// readable reports whether decoded bytes are text. Random bytes are hardly ever UTF-8
// without control characters.
func readable(plain []byte) bool {
	return len(plain) >= 12 && utf8.Valid(plain) && !strings.ContainsFunc(string(plain), func(r rune) bool {
		return !printable.Rune(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// phrases looks for deceptive phrases, also in disguise.
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

// names looks for the names of tools that are not this server's. A name that is also an
// ordinary word counts only if it is marked as a name.
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

// inWord reports whether the end or the beginning of a text is inside a word.
func inWord(text string, atEnd bool) bool {
	r, _ := utf8.DecodeRuneInString(text)
	if atEnd {
		r, _ = utf8.DecodeLastRuneInString(text)
	}
	return text != "" && (r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r))
}

// distinct reports whether a name is unlikely to be an ordinary word.
func distinct(name string) bool {
	return strings.ContainsAny(name[1:], "_:") || strings.ContainsFunc(name[1:], unicode.IsUpper) && strings.ContainsFunc(name, unicode.IsLower)
}
