package page

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// script is a writing system for which charsets of one byte have a row of letters. It has
// the names of these charsets, and its letters, the most common first. Final letters stand
// only at the ends of words. If vowels is not empty, every word of three letters or more
// has a vowel.
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

// latin is a language that is written in letters of ASCII and some letters of its own.
type latin struct {
	charset string
	letters string
}

// latins begins with the languages of the charset that is used if no other charset fits
// better.
var latins = []latin{
	{"windows-1252", "äöüß"},              // German
	{"windows-1252", "éèàùâêîôûëïüçœæ"},   // French
	{"windows-1252", "áéíóúñüªº"},         // Spanish
	{"windows-1252", "ãõáéíóúâêôàçªº"},    // Portuguese
	{"windows-1252", "àèéìòù"},            // Italian
	{"windows-1252", "åäöæøéü"},           // Nordic languages
	{"windows-1252", "áéíóúýþæöð"},        // Icelandic
	{"windows-1252", "éëïèöüáêç"},         // Dutch
	{"windows-1252", "àéèíóúòïüç"},        // Catalan
	{"windows-1250", "ąćęłńóśźż"},         // Polish
	{"windows-1250", "áčďéěíňóřšťúůýž"},   // Czech
	{"windows-1250", "áäčďéíĺľňóôŕšťúýž"}, // Slovak
	{"windows-1250", "áéíóöőúüű"},         // Hungarian
	{"windows-1250", "ăâîşţ"},             // Romanian
	{"windows-1250", "čćđšž"},             // South Slavic languages
	{"iso-8859-2", "ąćęłńóśźż"},           // Polish
	{"iso-8859-2", "áčďéěíňóřšťúůýž"},     // Czech
	{"iso-8859-2", "áäčďéíĺľňóôŕšťúýž"},   // Slovak
	{"iso-8859-2", "čćđšž"},               // South Slavic languages
	{"windows-1254", "çğıöşüİ"},           // Turkish
	{"windows-1257", "āčēģīķļņšūžōŗ"},     // Latvian
	{"windows-1257", "ąčęėįšųūž"},         // Lithuanian
	{"windows-1257", "äöõüšž"},            // Estonian
	// Texts in several languages.
	{"windows-1252", "äöüßéèàùâêîôûëïçœæáíóúñãõìòåø"},
	{"windows-1250", "ąćęłńóśźżáčďéěíňřšťúůýžäĺľôŕöőüűăâîşţđß"},
	{"iso-8859-2", "ąćęłńóśźżáčďéěíňřšťúůýžäĺľôŕöőüűăâîşţđß"},
}

// inOneByte returns the charset of one byte with the language that fits a text best, and
// how well it fits: 1 is as well as a text of that language does; below a half, it does not
// fit.
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

// fit returns the mean over all characters outside of ASCII: common letters count more than
// rare ones, and letters where no word of the script has them count negatively.
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

// mute returns the length of the word at the beginning of a text if it has three letters or
// more and no vowel, or else 0.
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

// fit returns the mean over all characters outside of ASCII: a letter of the language
// counts if its word also has letters of ASCII.
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
				continue // a word of one letter
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

// aside reports whether a character is one of the signs that any language has around its
// words.
func aside(text []rune, i int) bool {
	r := text[i]
	if !strings.ContainsRune("\u00a0«»“”„‘’‚‹›–—…·•°§©®€£½¼¾×±²³¡¿،؟؛№", r) {
		return false
	}
	return r == '’' || r == '·' || !unicode.IsLetter(at(text, i-1)) || !unicode.IsLetter(at(text, i+1))
}

// at returns a character of a text, or 0 beyond its ends.
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
