package engine

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// indexFile lists the bodies of a directory.
const indexFile = "index.tsv"

// maxRecorded bounds the bodies of one index.
const maxRecorded = 10_000

// Recorded is a recorded body of an engine, and the result that it must have.
type Recorded struct {
	Engine string
	File   string

	// The values that the index expects. Organic is the number of results, or -1 if it is
	// not given. Outcome is "" or the beginning of the name of the outcome.
	Organic    int
	Outcome    string
	FirstTitle string
	FirstURL   string
}

// Examined is a recorded body with its present result.
type Examined struct {
	Recorded
	Known  bool // reports whether an engine of that name exists
	Parsed Parsed
	Wrong  string // difference from the index; "" if it agrees
}

// Check compares the answer of a known engine with what r expects of it.
func (r Recorded) Check(p Parsed) Examined {
	e := Examined{Recorded: r, Known: true, Parsed: p}
	e.Wrong = e.differs()
	return e
}

// Count returns the number of results.
func (e Examined) Count() int { return len(e.Parsed.Hits) }

// First returns the title and the address of the first result. The address is as the body
// has it, so one without a host stays so: a recorded body does not tell from where it was
// read.
func (e Examined) First() (title, address string) {
	if len(e.Parsed.Hits) == 0 {
		return "", ""
	}
	return e.Parsed.Hits[0].Title, e.Parsed.Hits[0].href
}

// Examine parses the bodies that index.tsv in dir lists, in its order. The first line of an
// index names its columns, divided by tabs. The columns engine and file are required. The
// columns organic, outcome, first_title and first_url give what is expected, and status and
// url describe the response. If the outcome is empty and the column note contains "expect",
// the word after it is the outcome.
func (s *Set) Examine(dir string) ([]Examined, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of bodies: %w", err)
	}
	defer root.Close()
	return s.examineAll(root.FS())
}

// own contains bodies in the form of each engine's answers, written for this check: they
// contain what an engine's file must tell apart, and no text of a real page.
//
//go:embed testdata/bodies
var own embed.FS

// ExamineOwn examines the bodies that come with belljar.
func (s *Set) ExamineOwn() ([]Examined, error) {
	bodies, err := fs.Sub(own, "testdata/bodies")
	if err != nil {
		return nil, fmt.Errorf("open the bodies of belljar: %w", err)
	}
	return s.examineAll(bodies)
}

// examineAll parses the bodies of an index.
func (s *Set) examineAll(bodies fs.FS) ([]Examined, error) {
	f, err := bodies.Open(indexFile)
	if err != nil {
		return nil, fmt.Errorf("open the index of bodies: %w", err)
	}
	defer f.Close()
	var all []Examined
	var columns map[string]int
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for line := 1; lines.Scan(); line++ {
		cells := strings.Split(strings.TrimSuffix(lines.Text(), "\r"), "\t")
		switch {
		case columns == nil:
			if columns, err = header(cells); err != nil {
				return nil, fmt.Errorf("read %s: %w", indexFile, err)
			}
			continue
		case strings.TrimSpace(lines.Text()) == "":
			continue
		case len(all) == maxRecorded:
			return nil, fmt.Errorf("read %s: it lists more than %d bodies", indexFile, maxRecorded)
		}
		cell := func(name string) string {
			if i, ok := columns[name]; ok && i < len(cells) {
				return strings.TrimSpace(cells[i])
			}
			return ""
		}
		e, err := s.examine(bodies, cell)
		if err != nil {
			return nil, fmt.Errorf("line %d of %s: %w", line, indexFile, err)
		}
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", indexFile, err)
	}
	return all, nil
}

// header finds the columns of an index by their names.
func header(cells []string) (map[string]int, error) {
	columns := make(map[string]int)
	for i, c := range cells {
		columns[strings.ToLower(strings.ReplaceAll(strings.TrimSpace(c), " ", "_"))] = i
	}
	for _, name := range []string{"engine", "file"} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("its first line names no column %q", name)
		}
	}
	return columns, nil
}

// examine parses one body.
func (s *Set) examine(bodies fs.FS, cell func(string) string) (Examined, error) {
	want := Recorded{
		Engine: cell("engine"), File: cell("file"), Organic: -1,
		Outcome: cell("outcome"), FirstTitle: cell("first_title"), FirstURL: cell("first_url"),
	}
	if n, err := strconv.Atoi(cell("organic")); err == nil {
		want.Organic = n
	}
	if _, after, ok := strings.Cut(cell("note"), "expect "); ok && want.Outcome == "" {
		if words := strings.FieldsFunc(after, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '_' }); len(words) > 0 {
			want.Outcome = words[0]
		}
	}
	e := s.Find(want.Engine)
	if name, _, form := strings.Cut(want.Engine, "-"); e == nil && form {
		e = s.Find(name) // an index may name one form of an engine's answers, such as wikipedia-opensearch
	}
	if e == nil {
		return Examined{Recorded: want, Wrong: "no engine has this name"}, nil
	}
	text, truncated, err := readBody(bodies, want.File)
	if err != nil {
		return Examined{}, err
	}
	r := Response{Body: text, Truncated: truncated, FinalURL: cell("url")}
	if n, err := strconv.Atoi(cell("status")); err == nil {
		r.Status = n
	}
	return want.Check(e.Parse(r)), nil
}

// readBody reads at most MaxBody bytes of a recorded body.
func readBody(bodies fs.FS, name string) (text []byte, truncated bool, err error) {
	f, err := bodies.Open(name)
	if err != nil {
		return nil, false, fmt.Errorf("read a body: %w", err)
	}
	defer f.Close()
	var b strings.Builder
	n, err := io.CopyN(&b, f, MaxBody+1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read a body: %w", err)
	}
	return []byte(b.String()[:min(n, MaxBody)]), n > MaxBody, nil
}

// differs describes how a body differs from the index, or returns "".
func (e Examined) differs() string {
	title, address := e.First()
	outcome := e.Parsed.Outcome.String()
	want := e.Outcome
	if want == "" && e.Organic > 0 {
		want = OK.String()
	}
	switch {
	case want != "" && !strings.HasPrefix(outcome, want):
		return fmt.Sprintf("the outcome is %s (%s), not %s", outcome, e.Parsed.Detail, want)
	case e.Organic == 0 && e.Count() > 0 || e.Organic > 0 && e.Count() != e.Organic:
		return fmt.Sprintf("%d results, not %d", e.Count(), e.Organic)
	case e.Organic > 0 && e.FirstTitle != "" && title != e.FirstTitle:
		return fmt.Sprintf("the first title is %q, not %q", title, e.FirstTitle)
	case e.Organic > 0 && e.FirstURL != "" && address != e.FirstURL:
		return fmt.Sprintf("the first address is %q, not %q", address, e.FirstURL)
	}
	return ""
}
