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
	var n yaml.Node
	err := yaml.Unmarshal([]byte("a: 1\nb: [\n"), &n)
	line, message := SyntaxError(err)
	if line < 2 || message == "" || strings.Contains(message, "yaml:") {
		t.Errorf("%v: got line %d and %q", err, line, message)
	}
	if line, message = SyntaxError(errors.New("something else")); line != 1 || message != "something else" {
		t.Errorf("got line %d and %q", line, message)
	}
}
