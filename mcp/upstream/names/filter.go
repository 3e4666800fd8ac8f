package names

// Filter decides which names of a server are offered: of tools, prompts and resources. In a
// pattern, * stands for any number of characters and ? for one character. The zero value
// offers every name.
type Filter struct {
	Allow []string // patterns of native names; empty allows every name
	Deny  []string // patterns of native names that are not offered, even if Allow allows them
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

// match reports whether a pattern matches a whole text. It goes back to the last star only,
// so its time is at most the product of both lengths.
func match(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // position of the last star, and of the text that comes after the star's match
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
