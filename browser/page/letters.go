package page

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// script is a way to write that has a row of letters to itself: the charsets of
// one byte that it is written in, and its letters, the commonest first. Final
// letters stand at the ends of words only; where vowels are written, no word of
// three letters is without one.
type script struct {
	charsets []string
	letters  string
	final    string
	vowels   string
}

var scripts = []script{
	{[]string{"windows-1251", "koi8-r", "iso-8859-5", "ibm866"}, "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъёіїєґў", "", "аеиоуыэюяёіїє"},
	{[]string{"windows-1253", "iso-8859-7"}, "αοιετσνηυρπκμλςίόάγδήέχθφύβωώξζψϊΐϋΰ", "ς", "αειουηωάέίόύήώϊΐϋΰ"},
	{[]string{"windows-1256", "iso-8859-6"}, "اليمونرتهبةعدسفكقأحجشىصخإطذضثزءغئظآؤ", "ةى", ""},
	{[]string{"windows-1255"}, "יוהלארתבשמםנכדעחקפטצגזסןךףץ", "םןךףץ", ""},
	{[]string{"windows-874"}, "านรกอเงมย่้ลวทสตัีหบิปคแดะจไพใขชู์ุโืณผถ็ธำญภึศซฐษฝฟๆฎฉฆฏฌฑ", "", ""},
}

// latin is a language that is written in letters of ASCII and some of its own.
type latin struct {
	charset string
	letters string
}

// latins begin with those of the charset that is taken where others fit no better.
var latins = []latin{
	{"windows-1252", "äöüß"},              // German
	{"windows-1252", "éèàùâêîôûëïüçœæ"},   // French
	{"windows-1252", "áéíóúñüªº"},         // Spanish
	{"windows-1252", "ãõáéíóúâêôàçªº"},    // Portuguese
	{"windows-1252", "àèéìòù"},            // Italian
	{"windows-1252", "åäöæøéü"},           // of the north
	{"windows-1252", "áéíóúýþæöð"},        // Icelandic
	{"windows-1252", "éëïèöüáêç"},         // Dutch
	{"windows-1252", "àéèíóúòïüç"},        // Catalan
	{"windows-1250", "ąćęłńóśźż"},         // Polish
	{"windows-1250", "áčďéěíňóřšťúůýž"},   // Czech
	{"windows-1250", "áäčďéíĺľňóôŕšťúýž"}, // Slovak
	{"windows-1250", "áéíóöőúüű"},         // Hungarian
	{"windows-1250", "ăâîşţ"},             // Romanian
	{"windows-1250", "čćđšž"},             // of the south
	{"iso-8859-2", "ąćęłńóśźż"},           // Polish
	{"iso-8859-2", "áčďéěíňóřšťúůýž"},     // Czech
	{"iso-8859-2", "áäčďéíĺľňóôŕšťúýž"},   // Slovak
	{"iso-8859-2", "čćđšž"},               // of the south
	{"windows-1254", "çğıöşüİ"},           // Turkish
	{"windows-1257", "āčēģīķļņšūžōŗ"},     // Latvian
	{"windows-1257", "ąčęėįšųūž"},         // Lithuanian
	{"windows-1257", "äöõüšž"},            // Estonian
	// Where languages are mixed.
	{"windows-1252", "äöüßéèàùâêîôûëïçœæáíóúñãõìòåø"},
	{"windows-1250", "ąćęłńóśźżáčďéěíňřšťúůýžäĺľôŕöőüűăâîşţđß"},
	{"iso-8859-2", "ąćęłńóśźżáčďéěíňřšťúůýžäĺľôŕöőüűăâîşţđß"},
}

// inOneByte is the charset of one byte whose language a text fits best, and how
// well: 1 is as well as a text of that language does, below a half is not at all.
func inOneByte(sample []byte) (name string, fit float64) {
	decoded := make(map[string][]rune)
	text := func(name string) []rune {
		if decoded[name] == nil {
			e, _ := charset.Lookup(name)
			decoded[name] = []rune(string(convertBy(e, sample)))
		}
		return decoded[name]
	}
	better := func(other string, f float64) {
		if f > fit {
			name, fit = other, f
		}
	}
	for _, l := range latins {
		better(l.charset, l.fit(text(l.charset)))
	}
	for _, s := range scripts {
		for _, c := range s.charsets {
			better(c, s.fit(text(c)))
		}
	}
	return name, fit
}

// fit is the mean over all characters beyond ASCII: common letters are worth more
// than rare ones, and what no word of the script has costs.
func (s *script) fit(text []rune) float64 {
	worth := make(map[rune]float64)
	letters := []rune(s.letters)
	for i, r := range letters {
		worth[r] = 1.3 * (1 - float64(i)/float64(len(letters)))
	}
	sum, total := 0.0, 0
	for i, r := range text {
		if r < utf8.RuneSelf || aside(text, i) {
			continue
		}
		total++
		if s.vowels != "" && !unicode.IsLetter(at(text, i-1)) {
			sum -= float64(s.mute(text[i:]))
		}
		low := unicode.ToLower(r)
		w, ok := worth[low]
		switch {
		case !ok, asciiLetter(at(text, i-1)), asciiLetter(at(text, i+1)):
			sum--
		case low != r && unicode.IsLower(at(text, i-1)): // a capital inside of a word
			sum--
		case strings.ContainsRune(s.final, r) && unicode.IsLetter(at(text, i+1)):
			sum--
		case low != r:
			sum += w / 2
		default:
			sum += w
		}
	}
	if total < 8 {
		return 0
	}
	return sum / float64(total)
}

// mute is the length of the word that a text begins with, if it has three letters
// or more and none is a vowel.
func (s *script) mute(text []rune) int {
	for i, r := range text {
		switch {
		case strings.ContainsRune(s.vowels, unicode.ToLower(r)):
			return 0
		case !unicode.IsLetter(r) && i < 3:
			return 0
		case !unicode.IsLetter(r) || i > 20:
			return i
		}
	}
	return 0
}

// fit is the mean over all characters beyond ASCII: the letters of the language
// count in a word that has letters of ASCII, too.
func (l *latin) fit(text []rune) float64 {
	sum, total := 0.0, 0
	for i, r := range text {
		if r < utf8.RuneSelf || aside(text, i) {
			continue
		}
		low := unicode.ToLower(r)
		before, after := at(text, i-1), at(text, i+1)
		known := strings.ContainsRune(l.letters, r) || strings.ContainsRune(l.letters, low)
		switch {
		case !unicode.IsLetter(before) && !unicode.IsLetter(after):
			if known {
				continue // a word by itself
			}
			sum--
		case !known:
			sum -= 2
		case low != r && unicode.IsLower(before): // a capital inside of a word
			sum -= 2
		case !asciiLetter(before) && !asciiLetter(after) && !asciiLetter(at(text, i-2)) && !asciiLetter(at(text, i+2)):
			sum--
		default:
			sum++
		}
		total++
	}
	if total < 3 {
		return 0
	}
	return sum / float64(total)
}

// aside reports whether a character is one of the signs that any language has
// around its words.
func aside(text []rune, i int) bool {
	r := text[i]
	if !strings.ContainsRune("\u00a0«»“”„‘’‚‹›–—…·•°§©®€£½¼¾×±²³¡¿،؟؛№", r) {
		return false
	}
	return r == '’' || r == '·' || !unicode.IsLetter(at(text, i-1)) || !unicode.IsLetter(at(text, i+1))
}

// at is a character of a text, or none beyond its ends.
func at(text []rune, i int) rune {
	if i < 0 || i >= len(text) {
		return 0
	}
	return text[i]
}

func asciiLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func convertBy(e encoding.Encoding, src []byte) []byte {
	out, err := e.NewDecoder().Bytes(src)
	if err != nil {
		return valid(src)
	}
	return valid(out)
}

func valid(src []byte) []byte {
	if utf8.Valid(src) {
		return src
	}
	return bytes.ToValidUTF8(src, []byte("\uFFFD"))
}
