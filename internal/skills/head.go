package skills

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/printable"
)

// head contains the frontmatter of a SKILL.md.
type head struct{ name, description string }

// skillName is the form of a skill's name, which is used in lists, in paths and in
// environment variables: 1 to 64 letters, digits, dots, dashes and underscores.
var skillName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })

func isName(s string) bool { return len(s) <= 64 && skillName().MatchString(s) }

// parse splits a SKILL.md into its frontmatter and its body. If the frontmatter has no
// name, the name is that of the folder.
func parse(text []byte, folder string) (h head, body string, err error) {
	if !utf8.Valid(text) {
		return h, "", errors.New("it is not UTF-8 text")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	front, rest, err := split(text)
	if err != nil {
		return h, "", err
	}
	if h, err = frontmatter(front); err != nil {
		return h, "", err
	}
	if h.name == "" {
		h.name = folder
	}
	switch {
	case !isName(h.name):
		return h, "", fmt.Errorf("name %.80q: want 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first", h.name)
	case h.description == "":
		return h, "", errors.New("the frontmatter has no description; write one line that says when the skill is of use")
	}
	return h, string(rest), nil
}

// split returns the frontmatter, without the lines of dashes around it, and the text after
// it.
func split(text []byte) (front, rest []byte, err error) {
	line, after, _ := bytes.Cut(text, []byte("\n"))
	if strings.TrimRight(string(line), " \t") != "---" {
		return nil, nil, errors.New("line 1: want ---, which begins the frontmatter with name and description")
	}
	for at := 0; at <= len(after) && at <= maxHead; {
		line, _, more := bytes.Cut(after[at:], []byte("\n"))
		if strings.TrimRight(string(line), " \t") == "---" {
			rest := after[min(at+len(line)+1, len(after)):]
			return after[:at], rest, nil
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	if len(after) > maxHead {
		return nil, nil, fmt.Errorf("the frontmatter does not end within %d KiB; end it with a line ---", maxHead>>10)
	}
	return nil, nil, errors.New("the frontmatter does not end; end it with a line ---")
}

// frontmatter reads name and description. Other members are for other programs: a skill
// cannot grant anything to itself.
func frontmatter(text []byte) (h head, err error) {
	// Files for other agents have descriptions that contain ": " without quotes, which is
	// not valid YAML: the error names the fix. The bound on the bytes allows deep nesting,
	// but yaml accepts at most 10,000 levels.
	var doc yaml.Node
	// An empty line replaces the line of dashes, so that the line numbers are those of the
	// file.
	if err := yaml.Unmarshal(append([]byte{'\n'}, text...), &doc); err != nil {
		return h, fmt.Errorf("frontmatter: %s; put a text with a colon in quotes", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return h, errors.New("frontmatter: want lines such as name: NAME and description: TEXT")
	}
	all := doc.Content[0].Content
	for i := 0; i+1 < len(all); i += 2 {
		var to *string
		switch all[i].Value {
		case "name":
			to = &h.name
		case "description":
			to = &h.description
		default:
			continue
		}
		v := all[i+1]
		if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
			return h, fmt.Errorf("frontmatter: line %d: %s: want a text", v.Line, all[i].Value)
		}
		if *to != "" {
			return h, fmt.Errorf("frontmatter: line %d: %s occurs twice", v.Line, all[i].Value)
		}
		*to = oneLine(v.Value)
	}
	h.description = clip(h.description, maxDescription)
	return h, nil
}

// oneLine returns a text in which each run of blanks is one space, and without characters
// that could make it look like another text in a list.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !printable.Rune(r) {
			return -1
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// clip returns a text, with … at the end if it was cut; most is the largest number of its
// characters.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:most-1]) + "…"
}
