//go:build quality

package quality

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/internal/toolkit/code"
	"belljar.dev/internal/toolkit/code/lex"
)

// The lines of code, comments and blanks are those that cloc counts, in 99 of 100 files of
// the standard libraries. cloc finds comments by patterns, line by line. Files with a
// construct that such patterns misread are left out: see astray.
func TestLinesEqualCloc(t *testing.T) {
	root, files := pythonFiles(t)
	compareLines(t, code.Python, root, files)
	root = testenv.GoSource(t)
	compareLines(t, code.Go, root, filesBelow(t, root, ".go", "vendor", "testdata"))
}

func compareLines(t *testing.T, language code.Language, root string, files []string) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "files")
	if err := os.WriteFile(list, []byte(strings.Join(files, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	out := output(t, root, "cloc", "--by-file", "--csv", "--quiet", "--skip-uniqueness", "--list-file="+list)
	table := csv.NewReader(strings.NewReader(out[max(0, strings.Index(out, "language,filename")):]))
	table.FieldsPerRecord = -1 // the first row has another number of fields
	rows, err := table.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	total, unequal, reasons := 0, 0, map[string]int{}
	for _, row := range rows[1:] {
		if row[0] == "SUM" {
			continue
		}
		var want [3]int
		for i := range want {
			if want[i], err = strconv.Atoi(row[2+i]); err != nil {
				t.Fatal(err)
			}
		}
		f := lex.Parse(row[1], language, readFile(t, root, row[1]))
		total++
		if got := [3]int{f.Lines.Blank, f.Lines.Comment, f.Lines.Code}; got != want {
			why := astray(f)
			reasons[why]++
			if why == "" {
				unequal++
				t.Logf("%s: got %v, cloc counts %v", row[1], got, want)
			}
		}
	}
	t.Logf("%s: of %d files %d are unequal, and %v for a reason", language, total, unequal, reasons)
	if total < len(files)*95/100 || unequal*100 > total {
		t.Errorf("%s: of %d files cloc counts %d, and %d are unequal; want nearly all, and at most 1 %%", language, len(files), total, unequal)
	}
}

// astray returns the construct in a file that cloc misreads, or "".
func astray(f *code.File) string {
	for i, t := range f.Tokens {
		text := f.Of(t)
		if t.Kind != code.String && t.Kind != code.Comment {
			continue
		}
		if f.Language == code.Go {
			if t.Kind == code.String && (strings.Contains(text, "//") || strings.Contains(text, "/*")) {
				return "the mark of a comment in a string, from where on it takes all for a comment"
			}
			if t.Kind == code.Comment && strings.Contains(text[2:], "/*") {
				return "the mark of a comment over lines in a comment of one line"
			}
			continue
		}
		quotes := strings.Count(text, `"""`) + strings.Count(text, "'''")
		switch {
		case strings.Contains(text, "/*") || strings.Contains(text, "*/"):
			return "a mark of C's comments, as which it takes docstrings"
		case quotes == 0:
		case t.Kind == code.Comment:
			return "three quotes in a comment, which begin a docstring for it"
		case quotes != 2:
			return "three quotes in a string, which begin or end a docstring for it"
		case text[0] != '"' && text[0] != '\'':
			return "letters before three quotes, which it takes for code"
		case i > 0 && f.Tokens[i-1].Kind != code.Newline && f.Tokens[i-1].Kind != code.Indent && f.Tokens[i-1].Kind != code.Dedent && f.Tokens[i-1].Kind != code.Comment:
			return "a string with three quotes that is data, which it takes for a docstring"
		case i+1 < len(f.Tokens) && f.Tokens[i+1].Kind != code.Newline:
			return "something behind a docstring, which it takes for code"
		}
	}
	return ""
}
