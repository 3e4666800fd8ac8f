package names

// Filter says which names of a server are offered: tools, prompts and resources alike. In a
// pattern, * stands for any characters and ? for one. The zero value offers everything.
type Filter struct {
	Allow []string // patterns of native names; empty allows every name
	Deny  []string // patterns of native names that are not offered, whatever Allow says
}

// Passes reports whether a native name is offered.
func (f Filter) Passes(native string) bool {
	for _, pattern := range f.Deny {
		if match(pattern, native) {
			return false
		}
	}
	for _, pattern := range f.Allow {
		if match(pattern, native) {
			return true
		}
	}
	return len(f.Allow) == 0
}

// match reports whether a pattern describes all of a text. It goes back to the last star
// only, so it takes at most the product of both lengths.
func match(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // the last star, and where the text behind what it stands for begins
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
