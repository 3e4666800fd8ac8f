package shell

import (
	"slices"
	"strings"
)

// grammar says how a program reads the options in front of its operands. The program stops
// at the first word that is not an option, like all programs that start others.
type grammar struct {
	flags    string   // short options without a value
	values   string   // short options with a value: the rest of the word, or the next word
	attached string   // short options with the rest of the word, if any, as a value
	long     wordList // long options without a value, or with a value only after a =
	valued   wordList // long options with a value after a = or in the next word
	plus     string   // short options that may begin with + as well
}

// option is an option that was read.
type option struct {
	name  string // "u" or "user"
	value Word
	given bool // the option has a value
}

// wordList is a list of words in one text, which is split when the list is used: the tables
// have hundreds of words, and few starts of the program read a script.
type wordList string

func (l wordList) names() []string { return strings.Fields(string(l)) }

func (l wordList) has(name string) bool { return slices.Contains(l.names(), name) }

// hasOne reports whether one of the options is in the list.
func (l wordList) hasOne(options []option) bool {
	return slices.ContainsFunc(options, func(o option) bool { return l.has(o.name) })
}

// The reasons why options could not be read.
const (
	whyDynamic = "its options are only known when it runs"
	whyUnknown = "it has an option that is not known here"
)

// read splits words into options and the rest. why is the reason if it could not, or "".
func (g grammar) read(words []Word) (options []option, rest []Word, why string) {
	for len(words) > 0 {
		w := words[0]
		switch {
		case w.Certainty == Any && (w.Text == "" || !w.Glob), w.Certainty == One && (w.Text == "" || w.Text[0] == '-'):
			return options, words, whyDynamic
		case w.Certainty == Any && w.Text[0] == '-':
			return options, words, whyDynamic
		case w.Certainty == Exact && w.Text == "--":
			return options, words[1:], ""
		case strings.HasPrefix(w.Text, "--"):
			o, took, why := g.longOption(words)
			if why != "" {
				return options, words, why
			}
			options, words = append(options, o), words[took:]
		case len(w.Text) > 1 && (w.Text[0] == '-' || w.Text[0] == '+' && g.plus != ""):
			more, took, why := g.shortOptions(words)
			if why != "" {
				return options, words, why
			}
			options, words = append(options, more...), words[took:]
		default:
			return options, words, ""
		}
	}
	return options, nil, ""
}

// longOption reads --name. The name may be shortened as long as no other name has the same
// beginning.
func (g grammar) longOption(words []Word) (o option, took int, why string) {
	w := words[0]
	name, value, given := strings.Cut(w.Text[2:], "=")
	if w.Certainty != Exact && !given {
		return o, 0, whyDynamic
	}
	full, found := "", 0
	for _, all := range []wordList{g.long, g.valued} {
		for _, n := range all.names() {
			switch {
			case n == name:
				full, found = n, -1000 // a full name counts more than any other match
			case strings.HasPrefix(n, name):
				if found++; found == 1 {
					full = n
				}
			}
		}
	}
	if found == 0 || found > 1 {
		return o, 0, whyUnknown
	}
	o = option{name: full, given: given, value: Word{Text: value, Certainty: w.Certainty}}
	if given || !g.valued.has(o.name) {
		return o, 1, ""
	}
	return g.next(o, words)
}

// next returns an option with the next word as its value.
func (g grammar) next(o option, words []Word) (option, int, string) {
	if len(words) < 2 {
		return o, 1, "" // the program will report an error
	}
	if words[1].Certainty == Any {
		return o, 0, whyDynamic
	}
	o.value, o.given = words[1], true
	return o, 2, ""
}

// shortOptions reads one word of short options.
func (g grammar) shortOptions(words []Word) (options []option, took int, why string) {
	w := words[0]
	for i := 1; i < len(w.Text); i++ {
		c := w.Text[i]
		o := option{name: string(c)}
		value := Word{Text: w.Text[i+1:], Certainty: w.Certainty}
		switch {
		case strings.IndexByte(g.values, c) >= 0 && (value.Text != "" || w.Certainty != Exact),
			strings.IndexByte(g.attached, c) >= 0:
			o.value, o.given = value, value.Text != "" || w.Certainty != Exact
			return append(options, o), 1, ""
		case strings.IndexByte(g.values, c) >= 0:
			o, took, why = g.next(o, words)
			return append(options, o), took, why
		case strings.IndexByte(g.flags, c) < 0:
			return options, 0, whyUnknown
		}
		options = append(options, o)
	}
	if w.Certainty != Exact {
		return options, 0, whyDynamic
	}
	return options, 1, ""
}

// has reports whether one of the options has one of the names.
func has(options []option, names ...string) bool {
	return slices.ContainsFunc(options, func(o option) bool { return slices.Contains(names, o.name) })
}

// last returns the last of the options that has one of the names.
func last(options []option, names ...string) (option, bool) {
	for _, o := range slices.Backward(options) {
		if slices.Contains(names, o.name) {
			return o, true
		}
	}
	return option{}, false
}
