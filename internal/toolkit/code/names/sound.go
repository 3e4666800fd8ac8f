package names

import "strings"

// maxSound is the longest code of a sound, in letters.
const maxSound = 8

// sound returns a code that words of English with the same sound mostly share: a
// simplified form of Metaphone (Philips, 1990). It has one letter per group of
// consonants, 0 for th and X for sh and ch; a vowel counts only at the beginning, where
// every vowel is A, and a doubled letter counts once. Words without a Latin letter have no code.
//
//	B, except in a final MB          C before E, I, Y: S; CH: X; else K
//	D before GE, GI, GY: J; else T   G before E, I, Y: J; GH before a consonant or at
//	F, V, PH: F                      the end: silent; initial GN: N; else K
//	H: only between vowels           K, Q: K; initial KN: N
//	L, M, N, R: themselves           P: itself; initial PS, PN: S, N
//	S, Z: S; SH, SIO, SIA, SCH: X    T before H: 0; TIO, TIA: X; TCH: X
//	W, Y: only before a vowel        X: KS; initial X: S; initial WR: R
func sound(word string) string {
	var letters []byte
	for _, r := range word {
		if r >= 'a' && r <= 'z' {
			letters = append(letters, byte(r)-'a'+'A')
		}
	}
	s := spoken{word: string(letters)}
	for _, silent := range []string{"KN", "GN", "PN", "WR", "PS"} {
		if strings.HasPrefix(s.word, silent) {
			s.word = s.word[1:]
		}
	}
	if strings.HasPrefix(s.word, "X") {
		s.word = "S" + s.word[1:]
	}
	for s.at < len(s.word) && len(s.code) < maxSound {
		s.letter()
	}
	return string(s.code)
}

// spoken is a word while its code is built.
type spoken struct {
	word string
	at   int
	code []byte
}

// next reports whether one of the texts follows the letter.
func (s *spoken) next(texts ...string) bool {
	for _, t := range texts {
		if strings.HasPrefix(s.word[s.at+1:], t) {
			return true
		}
	}
	return false
}

// vowel reports whether the letter at an offset is a vowel.
func (s *spoken) vowel(offset int) bool {
	i := s.at + offset
	return i >= 0 && i < len(s.word) && strings.IndexByte("AEIOU", s.word[i]) >= 0
}

// say appends a sound to the code and moves past n letters.
func (s *spoken) say(sound string, n int) {
	s.code = append(s.code, sound...)
	s.at += n
}

// letter reads the next letter and the letters that belong to its sound.
func (s *spoken) letter() {
	c := s.word[s.at]
	switch {
	// a doubled letter counts once; both letters count for CC, as in "accept"
	case s.at > 0 && c == s.word[s.at-1] && c != 'C':
		s.at++
	case s.vowel(0):
		if s.at == 0 {
			s.say("A", 1)
			return
		}
		s.at++
	default:
		s.consonant(c)
	}
}

// consonant reads a consonant.
func (s *spoken) consonant(c byte) {
	soft := s.next("E", "I", "Y")
	switch c {
	case 'B':
		if s.at > 0 && s.word[s.at-1] == 'M' && s.at+1 == len(s.word) {
			s.at++
			return
		}
		s.say("B", 1)
	case 'C':
		switch {
		case s.next("H"):
			s.say("X", 2)
		case s.next("K"):
			s.say("K", 2)
		case soft:
			s.say("S", 1)
		default:
			s.say("K", 1)
		}
	case 'D':
		if s.next("GE", "GI", "GY") {
			s.say("J", 2)
			return
		}
		s.say("T", 1)
	case 'G':
		switch {
		case s.next("H") && !s.vowel(2):
			s.at += 2
		case s.next("H"):
			s.say("K", 2)
		case soft:
			s.say("J", 1)
		default:
			s.say("K", 1)
		}
	case 'F', 'V':
		s.say("F", 1)
	case 'H':
		if s.vowel(1) && (s.at == 0 || s.vowel(-1)) {
			s.say("H", 1)
			return
		}
		s.at++
	case 'K', 'Q':
		s.say("K", 1)
	case 'P':
		if s.next("H") {
			s.say("F", 2)
			return
		}
		s.say("P", 1)
	case 'S':
		switch {
		case s.next("CH"):
			s.say("X", 3)
		case s.next("H"):
			s.say("X", 2)
		case s.next("IO", "IA"):
			s.say("X", 1)
		case s.next("CE", "CI", "CY"):
			s.say("S", 2)
		default:
			s.say("S", 1)
		}
	case 'T':
		switch {
		case s.next("H"):
			s.say("0", 2)
		case s.next("CH"):
			s.say("X", 3)
		case s.next("IO", "IA"):
			s.say("X", 1)
		default:
			s.say("T", 1)
		}
	case 'W', 'Y':
		if s.vowel(1) {
			s.say(string(c), 1)
			return
		}
		s.at++
	case 'X':
		s.say("KS", 1)
	case 'Z':
		s.say("S", 1)
	default: // J, L, M, N, R
		s.say(string(c), 1)
	}
}
