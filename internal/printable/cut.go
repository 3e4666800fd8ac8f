package printable

import "unicode/utf8"

// Head returns the longest beginning of a text that ends between two characters; most is
// the largest number of its bytes. If the text is not UTF-8 at this place, it is cut after
// exactly this number of bytes.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for n := most; n >= 0 && n > most-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:most]
}

// TrimStart returns a text without an incomplete character at its beginning.
func TrimStart(text []byte) []byte {
	for n := 0; n < utf8.UTFMax && n < len(text); n++ {
		if utf8.RuneStart(text[n]) {
			return text[n:]
		}
	}
	return text
}

// TrimEnd returns a text without an incomplete character at its end.
func TrimEnd(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}
