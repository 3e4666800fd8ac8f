package strictyaml

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestFaultShowsItsPlace(t *testing.T) {
	r := NewReader("a.yaml", []byte("one: 1\r\n\ttwo: \u202e2\n"))
	r.FaultAt(2, 7, "bad", "mend it")
	r.FaultAt(99, 0, "beyond", "")
	report := NewReport(r.Faults)
	want := "a.yaml:2:7: bad\n  2 | \ttwo: \ufffd2\n    | \t     ^\n    = mend it\n" +
		"a.yaml:3:1: beyond\n  3 | \n    | ^"
	if got := report.Error(); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestReportIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	r := NewReader("a.yaml", []byte(strings.Repeat(long+"\n", 60)))
	for i := range 60 {
		r.FaultAt(60-i, 500, "bad", "")
	}
	report := NewReport(r.Faults)
	if len(report.Faults) != MaxFaults || report.More != 10 || report.Faults[0].Line != 60 {
		t.Errorf("got %d faults, the first in line %d, and %d more; want %d, the first in line 60, and 10", len(report.Faults), report.Faults[0].Line, report.More, MaxFaults)
	}
	for line := range strings.Lines(report.Error()) {
		if len(line) > maxShown+20 {
			t.Fatalf("a line of %d bytes is shown", len(line))
		}
	}
}

func TestSyntaxErrorHasTheLine(t *testing.T) {
	large := strings.Repeat("# a comment\n", 10000)
	for _, tt := range []struct {
		text string
		line int
	}{
		{"a: 1\nb: [\n", 2},
		{"b: [\n", 1},
		{"  a: 1\n  b: 2\n  c: 3\nd: 4\ne: 5\n", 4},
		{"# c\n# c\n\n  a: 1\nd: 4\ne: 5\n", 5},
		{"  a: 1\r\n  b: 2\r\nd: 4\r\ne: 5\r\n", 3},
		{"a: 1\nb:\n  - c\n  - d\n  e: 5\nf: 6\n", 5},
		{"a: 1\nb:\n  c: 1\n  d: 2\n - e\nf: 6\n", 5},
		{"a: 1\nb: 2\nc: 'x\nd: 3\n", 3},
		{"a: 1\n\tb: 2\nc: 3\n", 2},
		{"a: 1\nb: 2: 3\nc: 4\n", 2},
		{"a: !x!y 1\n", 1},
		{large + "  a: 1\nd: 4\ne: 5\n", 10002},
		{large + "a: 1\nb: 2: 3\nc: 4\n", 10002},
		{"  a: 1\r  b: 2\rd: 4\re: 5\r", 3},
	} {
		dec := yaml.NewDecoder(strings.NewReader(tt.text))
		var n yaml.Node
		err := dec.Decode(&n)
		if err == nil {
			err = dec.Decode(&n)
		}
		if err == nil {
			t.Errorf("%q is YAML", tt.text)
			continue
		}
		line, message := SyntaxError([]byte(tt.text), err)
		if line != tt.line || message == "" || strings.Contains(message, "yaml:") {
			t.Errorf("%.200q, %v: got line %d and %q, want line %d", tt.text, err, line, message, tt.line)
		}
	}
	if line, message := SyntaxError(nil, errors.New("something else")); line != 1 || message != "something else" {
		t.Errorf("got line %d and %q", line, message)
	}
}
