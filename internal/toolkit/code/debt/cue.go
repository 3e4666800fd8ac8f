package debt

import "strings"

// cue is a place in a block that admits debt.
type cue struct {
	word   int    // index of its first word
	marker string // marker in capitals; empty for a phrase
	author string // name in the brackets after a marker
	from   int    // offset of the text after marker and author
}

// cues returns the markers of a block, or its first phrase if it has none.
func (b *block) cues() []cue {
	var all []cue
	for i, w := range b.words {
		if c, ok := b.marker(i, w); ok {
			// A paragraph with XXX at the beginning of each line is one remark.
			if n := len(all); n > 0 && all[n-1].marker == c.marker && c.author == "" && b.words[all[n-1].word].line+1 == w.line && c.marker == "XXX" && !strings.HasPrefix(b.text[w.end:], ":") {
				continue
			}
			all = append(all, c)
		}
	}
	if len(all) > 0 {
		return all
	}
	for i := range b.words {
		if b.phrase(i) {
			begin := b.sentence(i)
			return []cue{{word: begin, from: b.words[begin].begin}}
		}
	}
	return nil
}

// marker returns the cue of a word, and reports whether the word is a marker at a position
// where markers stand.
func (b *block) marker(i int, w word) (cue, bool) {
	text := b.text[w.begin:w.end]
	c := cue{word: i, from: w.end}
	rest := b.text[w.end:]
	spoken := strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, "(")
	switch text {
	case "TODO", "FIXME", "XXX", "HACK", "BUG", "KLUDGE", "TBD":
		c.marker = text
	case "XXXX":
		c.marker = "XXX"
	case "Todo", "ToDo", "todo", "Fixme", "FixMe", "fixme", "FIX", "BUGS", "OPTIMIZE", "REFACTOR", "WORKAROUND":
		if !spoken || !w.starts {
			return cue{}, false
		}
		c.marker = strings.ToUpper(text)
	case "Bugs":
		if !strings.HasPrefix(rest, ": ") || i > 0 {
			return cue{}, false
		}
		c.marker = "BUGS"
	case "Hack":
		if !w.starts || !strings.HasPrefix(rest, ":") && !strings.HasPrefix(rest, " to ") && !strings.HasPrefix(rest, " for ") {
			return cue{}, false
		}
		c.marker = "HACK"
	default:
		return cue{}, false
	}
	if !w.starts && !spoken {
		return cue{}, false
	}
	if w.begin > 0 && strings.IndexByte("\\\"'`-_<%$.=+", b.text[w.begin-1]) >= 0 && !w.starts {
		return cue{}, false
	}
	switch {
	case rest == "" || rest[0] == '\n' || rest[0] == ' ' || rest[0] == ':' || rest[0] == '!' || rest[0] == '?' || rest[0] == ',' || rest[0] == '.' && !strings.HasPrefix(rest, "..") && len(rest) > 1 && rest[1] <= ' ':
	case rest[0] == '-' || rest[0] == '/': // not a marker in a form such as XXX-1234 or TODO/FIXME
		if len(rest) < 2 || rest[1] != ' ' && rest[1] != '-' && rest[1] != '\n' {
			return cue{}, false
		}
	case rest[0] == '(':
		if end := strings.IndexAny(rest, ")\n"); end > 0 && rest[end] == ')' && end <= 64 {
			c.author = strings.TrimSpace(rest[1:end])
			c.from += end + 1
		}
	default:
		return cue{}, false
	}
	if !spoken && i+1 < len(b.words) {
		switch b.words[i+1].lower { // the sentence is about markers
		case "list", "lists", "comment", "comments", "item", "items", "marker", "markers", "is", "are", "and", "or":
			return cue{}, c.marker == "XXX" && b.words[i+1].lower == "is"
		}
		switch c.marker {
		case "BUG", "TBD":
			return cue{}, false
		}
	}
	return c, true
}

// sentence returns the index of the first word of the sentence that a word is in.
func (b *block) sentence(i int) int {
	for i > 0 {
		between := b.text[b.words[i-1].end:b.words[i].begin]
		if strings.Contains(between, ". ") || strings.Contains(between, ".\n") || strings.Contains(between, "\n\n") || strings.ContainsAny(between, "!?:;") {
			break
		}
		i--
	}
	return i
}

// phrase reports whether a phrase begins at a word.
func (b *block) phrase(i int) bool {
	list := phrases(b.words[i].lower)
	if list == "" || b.denied(i) {
		return false
	}
	for rest := range strings.SplitSeq(list, "|") {
		if rest == "." || b.follows(i+1, rest) {
			return true
		}
	}
	return false
}

// follows reports whether the words stand from an index on; * stands for any word.
func (b *block) follows(i int, words string) bool {
	for want := range strings.FieldsSeq(words) {
		if i == len(b.words) || want != "*" && b.words[i].lower != want {
			return false
		}
		i++
	}
	return true
}

// denied reports whether the word before a phrase negates it.
func (b *block) denied(i int) bool {
	if i == 0 {
		return false
	}
	switch b.words[i-1].lower {
	case "no", "not", "isn't", "wasn't", "never", "without", "former", "avoid", "any":
		return true
	}
	return false
}

// phrases returns the continuations of a first word in phrases that admit debt, separated
// by |. In them * stands for one word, and a dot means that the first word alone is the
// phrase.
func phrases(first string) string {
	switch first {
	case "another":
		return "bug to fix"
	case "hmm", "kludge", "kluge", "hacky", "kludgy", "ugly", "cruddy", "workaround", "workarounds", "yuck", "ugh", "unimplemented":
		return "."
	case "work":
		return "around * bug|around * issue|around * limitation|around bugs"
	case "works", "working":
		return "around * bug|around bugs"
	case "a":
		return "hack|bit of a hack|temporary fix|temporary hack|temporary solution|temporary measure|known bug|known issue|terrible hack|horrible hack|dirty hack|quick hack|gross hack"
	case "known":
		return "bug|bugs|issue|issues|limitation|limitations|to be broken"
	case "this":
		return "is a hack|is wrong|is broken|is inefficient|is incorrect|is not right|isn't right|is not correct|isn't correct|is not quite right|isn't quite right|is not ideal|isn't ideal|is suboptimal|is slow|is too slow|is very slow|should go away|will go away|needs work|needs to be fixed|needs fixing|needs to change"
	case "temporary":
		return "fix|hack|workaround|solution|measure|until"
	case "temporarily":
		return "disabled|disable"
	case "should":
		return "really be|really have|really use|really check|really do|probably be|probably have|probably use|probably check|probably do|be refactored|be rewritten|be cleaned up|be faster|be more efficient|be optimized|be removed once|be removed when|be fixed|we do something|eventually be|ideally be"
	case "ideally":
		return "we'd|we would|we should|this would|this should|it would|it should"
	case "needs":
		return "to be rewritten|to be refactored|to be reworked|to be fixed|to be cleaned up|a rewrite|refactoring|cleanup|more work|work"
	case "need":
		return "to fix|to figure out|to rewrite|to refactor|to revisit"
	case "not":
		return "yet implemented|implemented yet|yet supported|supported yet|yet handled|handled yet|very efficient|particularly efficient|the most efficient|yet tested|well tested|tested yet|thread safe yet|supported for now|implemented for now|quite right|been added yet|been implemented yet|optimal"
	case "isn't":
		return "implemented yet|yet implemented|supported yet|yet supported|handled yet|very efficient|particularly efficient|ideal|optimal"
	case "aren't":
		return "supported yet|implemented yet|handled yet|yet supported|yet implemented"
	case "don't":
		return "yet support|yet handle|yet implement|support this yet|handle this yet|support * yet|handle * yet"
	case "doesn't":
		return "yet support|yet handle|yet work|work right|work correctly|work properly|work yet|support * yet|handle * yet|quite work"
	case "haven't":
		return "implemented|figured out|gotten around|got the"
	case "hasn't":
		return "been implemented|been added yet"
	case "can't":
		return "handle * yet|support * yet"
	case "could":
		return "be faster|be made faster|be optimized|be more efficient|be made more efficient|be improved|be simplified|be cleaned up|be smarter|be better|do better"
	case "can":
		return "be optimized|be improved|probably be simplified|be made faster"
	case "would":
		return "be better to|be cleaner to|be more efficient to|be faster to|be nicer to|be nice to|be nice if"
	case "fix":
		return "me|this later|later|this properly|this eventually"
	case "fixed":
		return "later|eventually"
	case "revisit":
		return "this|later|when|if|."
	case "someday":
		return "."
	case "inefficient":
		return "but|and should|."
	case "horribly", "terribly", "grossly":
		return "inefficient|slow|broken"
	case "really":
		return "slow|ugly|inefficient|should be"
	case "far":
		return "from ideal|from optimal"
	case "tests":
		return "only cover|are missing|missing|needed"
	case "untested":
		return "."
	case "for":
		return "now we|now just|now this|now only|now it|now i|now assume|now ignore|now skip|the time being"
	}
	return ""
}
