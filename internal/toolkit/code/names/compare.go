package names

import (
	"math"
	"slices"
	"strings"
)

// Parts are the parts of a score, which is 0.4 Words + 0.3 Runs + 0.3 Letters, or with
// sounds 0.35 Words + 0.25 Runs + 0.25 Letters + 0.15 Sound.
type Parts struct {
	Exact   bool     `json:"exact" jsonschema:"the name is the query, letter by letter"`
	Words   float64  `json:"words" jsonschema:"how well the words of each have a partner in the other one"`
	Runs    float64  `json:"runs" jsonschema:"cosine of the counts of runs of three letters, in lower case"`
	Letters float64  `json:"letters" jsonschema:"Jaro-Winkler similarity, in lower case and without separators"`
	Sound   *float64 `json:"sound,omitempty" jsonschema:"asked for by phonetic: share of the words that sound like one of the other name"`
}

// score returns the weighted sum of the parts.
func (p Parts) score() float64 {
	if p.Sound == nil {
		return 0.4*p.Words + 0.3*p.Runs + 0.3*p.Letters
	}
	return 0.35*p.Words + 0.25*p.Runs + 0.25*p.Letters + 0.15**p.Sound
}

// alikeWords is the lowest similarity at which two words count as similar.
const alikeWords = 0.85

// form is a name in the forms in which it is compared.
type form struct {
	words   []string
	letters []rune // letters of the name in lower case, without separators
	runs    []run
	length  float64 // length of the vector of runs
	sounds  []string
}

// run is three letters and the number of times that a name contains them.
type run struct {
	letters [3]rune
	count   float64
}

// comparer compares names with a query.
type comparer struct {
	name     string
	query    form
	phonetic bool
}

func newComparer(query string, phonetic bool) *comparer {
	return &comparer{name: query, query: newForm(query, phonetic), phonetic: phonetic}
}

// newForm returns the form of a name.
func newForm(name string, phonetic bool) form {
	parts := split(name)
	f := form{letters: []rune(strings.Join(parts, ""))}
	for _, w := range parts {
		f.words = append(f.words, spellOut(w))
	}
	if phonetic {
		for _, w := range f.words {
			f.sounds = append(f.sounds, sound(w))
		}
	}
	// A blank on both sides lets the ends of a name count.
	padded := slices.Concat([]rune{' '}, f.letters, []rune{' '})
	for i := 0; i+3 <= len(padded); i++ {
		f.runs = append(f.runs, run{[3]rune(padded[i : i+3]), 1})
	}
	slices.SortFunc(f.runs, func(a, b run) int { return slices.Compare(a.letters[:], b.letters[:]) })
	n := 0
	for _, r := range f.runs {
		if n > 0 && f.runs[n-1].letters == r.letters {
			f.runs[n-1].count++
			continue
		}
		f.runs[n] = r
		n++
	}
	f.runs = f.runs[:n]
	for _, r := range f.runs {
		f.length += r.count * r.count
	}
	f.length = math.Sqrt(f.length)
	return f
}

// compare returns the similarity of a name to the query.
func (c *comparer) compare(name string) Parts {
	f := newForm(name, c.phonetic)
	p := Parts{
		Exact:   name == c.name,
		Words:   partners(c.query.words, f.words, func(a, b string) float64 { return words(a, b) }),
		Runs:    cosine(c.query, f),
		Letters: jaroWinkler(c.query.letters, f.letters),
	}
	if p.Exact && len(f.words) == 0 { // such as "_" or "$"
		p.Words, p.Runs, p.Letters = 1, 1, 1
	}
	if c.phonetic {
		s := partners(c.query.sounds, f.sounds, func(a, b string) float64 {
			if a != "" && a == b {
				return 1
			}
			return 0
		})
		if p.Exact {
			s = 1
		}
		p.Sound = &s
	}
	return p
}

// words returns the similarity of two words, and 0 if it is less than alikeWords.
func words(a, b string) float64 {
	if a == b {
		return 1
	}
	if s := jaroWinkler([]rune(a), []rune(b)); s >= alikeWords {
		return s
	}
	return 0
}

// partners returns the mean over all words of both lists of the similarity to the best
// partner in the other list.
func partners(a, b []string, similarity func(a, b string) float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	sum := 0.0
	back := make([]float64, len(b))
	for _, x := range a {
		top := 0.0
		for j, y := range b {
			s := similarity(x, y)
			top = max(top, s)
			back[j] = max(back[j], s)
		}
		sum += top
	}
	for _, s := range back {
		sum += s
	}
	return sum / float64(len(a)+len(b))
}

// cosine returns the cosine of the angle between the counts of two names.
func cosine(a, b form) float64 {
	if len(a.letters) == 0 || len(b.letters) == 0 {
		return 0
	}
	product, i, j := 0.0, 0, 0
	for i < len(a.runs) && j < len(b.runs) {
		switch order := slices.Compare(a.runs[i].letters[:], b.runs[j].letters[:]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			product += a.runs[i].count * b.runs[j].count
			i, j = i+1, j+1
		}
	}
	return min(1, product/(a.length*b.length))
}
