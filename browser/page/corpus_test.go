package page

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// corpusRow is one line of testdata/pages.txt.
type corpusRow struct {
	op, text string
	known    string // why the page does not satisfy the row yet; empty if it must
}

// corpusRows reads testdata/pages.txt and returns the rows of each page, by its name.
func corpusRows(t *testing.T) map[string][]corpusRow {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", "pages.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]corpusRow)
	name, known := "", ""
	for i, line := range strings.Split(string(src), "\n") {
		switch text, indented := strings.CutPrefix(line, "\t"); {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !indented:
			name = line
			if rows[name] != nil {
				t.Fatalf("testdata/pages.txt:%d: %s twice", i+1, name)
			}
			rows[name] = []corpusRow{}
		default:
			op, text, _ := strings.Cut(text, " ")
			if op == "?" {
				known = text
				continue
			}
			rows[name] = append(rows[name], corpusRow{op, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text), known})
			known = ""
		}
	}
	return rows
}

// holds reports whether a page satisfies the row.
func (r corpusRow) holds(t *testing.T, p *Page) bool {
	t.Helper()
	switch r.op {
	case "+":
		return strings.Contains(p.Content, r.text)
	case "-":
		return !strings.Contains(p.Content, r.text)
	case "=":
		key, want, _ := strings.Cut(r.text, " ")
		got, ok := map[string]string{
			"kind": string(p.Kind), "charset": p.Charset, "extraction": string(p.Extraction),
			"script": map[bool]string{true: "yes", false: "no"}[p.NeedsScript != ""],
		}[key]
		if !ok {
			t.Fatalf("testdata/pages.txt: %q is not something that a page has", key)
		}
		return got == want
	}
	n, err := strconv.Atoi(r.op)
	if err != nil {
		t.Fatalf("testdata/pages.txt: %q is not an operator", r.op)
	}
	return strings.Count(p.Content, r.text) == n
}

// TestCorpus reads every page of a directory and compares it with its rows in
// testdata/pages.txt. These are pages on which readers have lost something, or have let
// something through.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("BELLJAR_QUALITY_PAGES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data", "pages")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("no directory of pages (BELLJAR_QUALITY_PAGES): %v", err)
	}
	types := map[string]string{
		".html": "text/html", ".md": "text/markdown", ".json": "application/json", ".txt": "text/plain", ".csv": "text/csv",
		".pdf": "application/pdf", ".atom": "application/atom+xml", ".rss": "application/rss+xml", ".css": "text/css",
	}
	rows := corpusRows(t)
	held, known := 0, 0
	for _, f := range files {
		if rows[f.Name()] == nil {
			t.Errorf("%s: no rows in testdata/pages.txt", f.Name())
			continue
		}
		src, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Convert(t.Context(), src, Options{URL: "http://127.0.0.1:8000/" + f.Name(), ContentType: types[filepath.Ext(f.Name())]})
		if err != nil {
			t.Errorf("%s: %v", f.Name(), err)
			continue
		}
		for _, r := range rows[f.Name()] {
			switch ok := r.holds(t, p); {
			case ok && r.known != "":
				t.Errorf("%s: %s %q holds, and is marked as known not to: %s", f.Name(), r.op, r.text, r.known)
			case ok:
				held++
			case r.known != "":
				known++
				t.Logf("%s: %s %q does not hold: %s", f.Name(), r.op, r.text, r.known)
			default:
				t.Errorf("%s: %s %q does not hold", f.Name(), r.op, r.text)
			}
		}
	}
	t.Logf("pages: %d rows hold, %d are known not to", held, known)
}
