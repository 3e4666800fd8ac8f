package toolkit

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// covered maps each file and line to true if a test has run the line, and to false if none
// has.
type covered map[string]map[int]bool

// maxCovered is the largest number of lines in a coverage file.
const maxCovered = 5_000_000

// readCoverage reads a profile of go test, an lcov file or a Cobertura report. known are
// the paths of the project's files; the paths in a report may begin at another directory.
func readCoverage(text string, known map[string]bool) (covered, error) {
	c := &coverage{all: covered{}, known: known, paths: map[string]string{}}
	var err error
	switch head := strings.TrimSpace(text[:min(len(text), 500)]); {
	case strings.HasPrefix(head, "mode:"):
		err = c.profile(text)
	case strings.HasPrefix(head, "<"):
		err = c.cobertura(text)
	case strings.HasPrefix(head, "TN:"), strings.HasPrefix(head, "SF:"):
		err = c.lcov(text)
	default:
		err = errors.New("it is not a profile of go test, an lcov file or a Cobertura report")
	}
	if err != nil {
		return nil, err
	}
	if len(c.all) == 0 {
		return nil, errors.New("it names no file of the project")
	}
	return c.all, nil
}

// coverage reads one coverage file.
type coverage struct {
	all   covered
	known map[string]bool
	paths map[string]string // path in the project of each path in the report; empty if it has none
	lines int
}

// at returns the path in the project that a path in the report means: the longest end of
// the path that is a file of the project.
func (c *coverage) at(name string) string {
	if to, seen := c.paths[name]; seen {
		return to
	}
	to := ""
	for rest := path.Clean(strings.ReplaceAll(name, `\`, "/")); ; {
		if c.known[rest] {
			to = rest
			break
		}
		_, after, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		rest = after
	}
	c.paths[name] = to
	return to
}

// line records a line. A line counts as run if it was run in one of its records.
func (c *coverage) line(name string, line int, ran bool) error {
	to := c.at(name)
	if to == "" {
		return nil
	}
	if c.lines++; c.lines > maxCovered {
		return fmt.Errorf("it names more than %d lines", maxCovered)
	}
	if c.all[to] == nil {
		c.all[to] = map[int]bool{}
	}
	c.all[to][line] = c.all[to][line] || ran
	return nil
}

// profile reads name.go:line.column,line.column statements count (cmd/cover).
func (c *coverage) profile(text string) error {
	n := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if n++; line == "" || strings.HasPrefix(line, "mode:") {
			continue
		}
		colon := strings.LastIndexByte(line, ':')
		if colon < 0 {
			return fmt.Errorf("line %d is not a line of a profile", n)
		}
		var fromLine, fromColumn, toLine, toColumn, statements, times int
		if _, err := fmt.Sscanf(line[colon+1:], "%d.%d,%d.%d %d %d", &fromLine, &fromColumn, &toLine, &toColumn, &statements, &times); err != nil {
			return fmt.Errorf("line %d is not a line of a profile", n)
		}
		if fromLine < 1 || toLine < fromLine {
			return fmt.Errorf("line %d names lines that no file can have", n)
		}
		for at := fromLine; at <= toLine; at++ {
			if err := c.line(line[:colon], at, times > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// lcov reads SF:name and DA:line,count (geninfo(1)).
func (c *coverage) lcov(text string) error {
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if file, ok := strings.CutPrefix(line, "SF:"); ok {
			name = file
			continue
		}
		data, ok := strings.CutPrefix(line, "DA:")
		if !ok {
			continue
		}
		number, times, _ := strings.Cut(data, ",")
		times, _, _ = strings.Cut(times, ",")
		at, err := strconv.Atoi(number)
		ran, err2 := strconv.ParseInt(times, 10, 64)
		if err != nil || err2 != nil || at < 1 {
			return fmt.Errorf("%q is not a line of an lcov file", clip(line, 60))
		}
		if err := c.line(name, at, ran > 0); err != nil {
			return err
		}
	}
	return nil
}

// cobertura reads <class filename="..."> with <line number="..." hits="...">.
func (c *coverage) cobertura(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	name := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is not XML: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		values := map[string]string{}
		for _, a := range start.Attr {
			values[a.Name.Local] = a.Value
		}
		switch start.Name.Local {
		case "class":
			name = values["filename"]
		case "line":
			at, err := strconv.Atoi(values["number"])
			hits, err2 := strconv.ParseInt(values["hits"], 10, 64)
			if err != nil || err2 != nil || at < 1 {
				return errors.New("one of its lines has no number or no hits")
			}
			if err := c.line(name, at, hits > 0); err != nil {
				return err
			}
		}
	}
}

// share returns the percentage of lines that tests have run, and the number of lines. Only
// lines for which keep returns true count; any is false if there is no such line.
func (c covered) share(keep func(file string, line int) bool) (percent float64, lines int, any bool) {
	ran := 0
	for file, all := range c {
		for line, did := range all {
			if !keep(file, line) {
				continue
			}
			lines++
			if did {
				ran++
			}
		}
	}
	if lines == 0 {
		return 0, 0, false
	}
	return round(100*float64(ran)/float64(lines), 2), lines, true
}
