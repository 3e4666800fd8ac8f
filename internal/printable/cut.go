package printable

import "unicode/utf8"

// Head returns the longest beginning of a text that has at most that many bytes and ends between two
// characters. A text that is not UTF-8 there is cut at the byte.
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

// TrimStart returns a text without the end of a character at its beginning.
func TrimStart(text []byte) []byte {
	for n := 0; n < utf8.UTFMax && n < len(text); n++ {
		if utf8.RuneStart(text[n]) {
			return text[n:]
		}
	}
	return text
}

// TrimEnd returns a text without the beginning of a character at its end.
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
