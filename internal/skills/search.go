package skills

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Patience is the time limit of a search.
const Patience = 15 * time.Second

const maxPattern = 1024

// Found is the outcome of a search.
type Found struct {
	Skills  []Skill `json:"skills"`
	Matched int     `json:"matched"` // number of found skills, also of those that are not listed
	Total   int     `json:"total"`   // number of searched skills
}

// Search finds the skills whose name, description or instructions match a pattern. An empty
// pattern matches all skills. flags are those of grep: -i ignores case, -E reads the
// pattern as a regular expression (RE2), and -w finds whole words. Without -E, the pattern
// is a plain text. At most MaxMatches skills are listed.
func (c *Catalog) Search(ctx context.Context, pattern, flags string) (Found, error) {
	match, err := matcher(pattern, flags)
	if err != nil {
		return Found{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	all := c.All()
	found := Found{Skills: []Skill{}, Total: len(all)}
	for _, s := range all {
		if ctx.Err() != nil {
			return Found{}, fmt.Errorf("search skills: %w; use a simpler pattern", context.Cause(ctx))
		}
		hit := match == nil || match.MatchString(s.Name) || match.MatchString(s.Description)
		if !hit {
			b, err := c.Open(s.Name) // a skill that is gone does not match
			hit = err == nil && match.MatchString(b.Instructions)
		}
		if !hit {
			continue
		}
		if found.Matched++; found.Matched <= MaxMatches {
			found.Skills = append(found.Skills, s)
		}
	}
	return found, nil
}

// matcher returns the pattern as a regular expression; nil if the pattern matches all.
func matcher(pattern, flags string) (*regexp.Regexp, error) {
	var fold, extended, words bool
	for f := range strings.FieldsSeq(flags) {
		letters, ok := strings.CutPrefix(f, "-")
		for _, l := range letters {
			switch l {
			case 'i':
				fold = true
			case 'E':
				extended = true
			case 'w':
				words = true
			default:
				ok = false
			}
		}
		if !ok || letters == "" {
			return nil, fmt.Errorf("flags: %.40q: want any of -i (ignore case), -E (regular expression) and -w (whole words)", f)
		}
	}
	switch {
	case pattern == "":
		return nil, nil //nolint:nilnil // see the comment of the function
	case len(pattern) > maxPattern:
		return nil, fmt.Errorf("pattern: %d bytes, at most %d are allowed", len(pattern), maxPattern)
	case !extended:
		pattern = regexp.QuoteMeta(pattern)
	}
	if words {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if fold {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w; leave out -E to search for the text as it is", err)
	}
	return re, nil
}
