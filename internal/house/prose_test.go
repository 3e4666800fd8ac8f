package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// proseRules are the mistakes of English that a pattern finds without false alarms, each
// with sentences that it must find, and sentences that it must let pass. Other mistakes
// need a human reader.
var proseRules = []struct {
	name  string
	wrong *regexp.Regexp
	but   *regexp.Regexp // matches of wrong that are correct; nil if there are none
	find  []string
	pass  []string
}{
	{
		"a noun is missing before who",
		regexp.MustCompile(`(?:^|\. )(?:Who|Whoever) [a-z]+s\b[^?]*$|\b(?:for|of|to|from|with|by|tells?|told) who\b`), nil,
		[]string{"Who asks waits for it.", "It is for who asks."},
		[]string{"The caller who asks waits.", "Who is there?", "It helps whoever reads it."},
	},
	{
		"write for example or such as",
		regexp.MustCompile(`(?:, |\()as (?:[0-9]|"[^"]*"(?:[.;:)]|$))`), nil,
		[]string{"Write a time, as 10s.", `Name an engine (as "github").`},
		[]string{"It ends, as in other shells, and as long as it lasts."},
	},
	{
		"write is not a valid X, or is not an X",
		regexp.MustCompile(`(?i)\b(?:what|that|this|it|which|[a-z]+[b-df-z]) (?:is|are|was|were) none\b|\b(?:it|this|that|which|what) (?:is|was) no [a-z]+`),
		regexp.MustCompile(`no (?:longer|more|less|reason|way|need|other|such|\w+er)$`),
		[]string{"The text is none.", "This is no variable.", "a path that is no directory"},
		[]string{"There is none, where there was none.", "It is no longer so, and that is no reason."},
	},
	{
		"begin a new sentence",
		regexp.MustCompile(`\b(?:each|one|some|all|none|both|many) of (?:which|whom)\b|\bthat of who\b`), nil,
		[]string{"It has steps, each of which may fail."},
		[]string{"It is made of what is there, and of which steps it has."},
	},
	{
		"use the word of the field: fix, report, contain",
		regexp.MustCompile(`\b(?:[Mm]end(?:s|ed|ing)?|[Hh]earkens?|[Ff]arewell|tells? of|holds? back)\b`), nil,
		[]string{"Mend the file.", "It holds back what comes."},
		[]string{"The agent tells the person; it holds the lock."},
	},
}

// faultOf returns the start and end of the first place where a text breaks a rule; nil if
// it breaks none.
func faultOf(wrong, but *regexp.Regexp, text string) []int {
	for _, m := range wrong.FindAllStringIndex(text, -1) {
		if but == nil || !but.MatchString(text[m[0]:m[1]]) {
			return m
		}
	}
	return nil
}

// proseOf returns the paragraphs of a file by the lines on which they begin: the text of a
// document, or the comments and strings of Go code.
func proseOf(t *testing.T, name string) map[int]string {
	t.Helper()
	all := make(map[int]string)
	if strings.HasSuffix(name, ".md") {
		begin, n := 1, 0
		for line := range strings.Lines(prose(read(t, name))) {
			n++
			if strings.TrimSpace(line) == "" {
				begin = n + 1
				continue
			}
			all[begin] += strings.TrimSpace(line) + " "
		}
		return all
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("`[^`\n]*`")
	for _, c := range file.Comments {
		all[set.Position(c.Pos()).Line] = code.ReplaceAllString(strings.ReplaceAll(c.Text(), "\n", " "), "code")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Count(text, " ") > 1 {
				all[set.Position(lit.Pos()).Line] += " " + strings.ReplaceAll(text, "\n", " ")
			}
		}
		return true
	})
	return all
}

// Comments, messages and documents are in plain English.
func TestProse(t *testing.T) {
	for _, r := range proseRules {
		for _, text := range r.find {
			if faultOf(r.wrong, r.but, text) == nil {
				t.Errorf("%s: does not find %q", r.name, text)
			}
		}
		for _, text := range r.pass {
			if faultOf(r.wrong, r.but, text) != nil {
				t.Errorf("%s: finds %q", r.name, text)
			}
		}
	}
	names := sources(t)
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") {
			names = append(names, name)
		}
	}
	for _, name := range names {
		for line, text := range proseOf(t, name) {
			for _, r := range proseRules {
				if m := faultOf(r.wrong, r.but, text); m != nil {
					t.Errorf("%s:%d: %s: ...%s", name, line, r.name, text[max(0, m[0]-40):min(len(text), m[1]+40)])
				}
			}
		}
	}
}
