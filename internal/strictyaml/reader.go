package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Reader collects the faults of one text, so that one report is enough to fix a file.
type Reader struct {
	File   string   // name of the file in faults
	Lines  []string // lines of the text
	Faults []Fault
}

// NewReader returns a reader of a text.
func NewReader(file string, text []byte) Reader {
	return Reader{File: file, Lines: strings.Split(string(text), "\n")}
}

// FaultAt adds a fault at a place. A line beyond the text stands for the last line.
func (r *Reader) FaultAt(line, col int, message, hint string) {
	line = min(max(line, 1), len(r.Lines))
	r.Faults = append(r.Faults, Fault{
		File: r.File, Line: line, Col: max(col, 1),
		Message: message, Hint: hint, Text: strings.TrimSuffix(r.Lines[line-1], "\r"),
	})
}

// Fault adds a fault at a node.
func (r *Reader) Fault(n *yaml.Node, hint, format string, args ...any) {
	r.FaultAt(n.Line, n.Column, fmt.Sprintf(format, args...), hint)
}

var yamlError = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`) })

// zeroBased matches the messages of the parser of the YAML package (parserc.go), whose lines
// are counted from 0. In errors of its scanner they are counted from 1 (fail in decode.go).
var zeroBased = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^did not find expected (?:<|node content|'-' indicator|key|',')|^found (?:undefined tag handle|duplicate %|incompatible YAML)`)
})

// SyntaxError returns the message of an error of the YAML package, and the line of text at
// which it stops being YAML. The line is 1 if the error names none.
//
// The package reports only the line at which the broken construct starts. The line that is
// returned follows the longest beginning of the text that is YAML, if the text is not large.
func SyntaxError(text []byte, err error) (line int, message string) {
	m := yamlError().FindStringSubmatch(err.Error())
	if m == nil {
		return 1, err.Error()
	}
	line = 1
	if n, err := strconv.Atoi(m[1]); err == nil {
		line = n
		if zeroBased().MatchString(m[2]) {
			line++
		}
	}
	return breaks(text, line), m[2]
}

// breaks returns the line after the longest beginning of a text that is YAML. It only tries
// the reported line, the line before it (a list without an end is reported at the line after
// it) and the lines after it.
func breaks(text []byte, reported int) int {
	const tries, largest = 100, 64 << 10 // each try reads the text again
	s := strings.ReplaceAll(string(text), "\r\n", "\n")
	if len(s) > largest || strings.ContainsAny(s, "\r\u0085\u2028\u2029") { // YAML counts these as ends of lines
		return reported
	}
	lines := strings.SplitAfter(s, "\n")
	line := reported
	for k := max(reported-2, 0); k < min(len(lines), reported+tries); k++ {
		if isYAML(strings.Join(lines[:k], "")) {
			line = k + 1
		}
	}
	return line
}

// isYAML reports whether a text is YAML, up to the start of a second document.
func isYAML(text string) bool {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for range 2 {
		var doc yaml.Node
		if err := dec.Decode(&doc); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
	return true
}
