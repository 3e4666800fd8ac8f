package strictyaml

import (
	"fmt"
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

// SyntaxError returns the line and the message of an error of the YAML package. The package
// reports only the line at which the broken construct starts. The line is 1 if the error
// names none.
func SyntaxError(err error) (line int, message string) {
	m := yamlError().FindStringSubmatch(err.Error())
	if m == nil {
		return 1, err.Error()
	}
	line = 1
	if n, err := strconv.Atoi(m[1]); err == nil {
		line = n
	}
	return line, m[2]
}
