package report

import (
	"strconv"
	"time"
)

// Outcome is how a check ended.
type Outcome int

// The outcomes.
const (
	Passed  Outcome = iota
	Failed          // the check was made, and its condition is not met
	Broken          // the check could not be made
	Skipped         // the check was not made, for example because there was nothing to measure
)

// Suite is a group of checks.
type Suite struct {
	Name  string
	Begun time.Time // start time; zero if it is not known
	Cases []Case
}

// Case is one check.
type Case struct {
	Class   string // kind of check, for example "complexity"
	Name    string // name of the test case, for example a path
	Took    time.Duration
	Outcome Outcome
	Message string // one line: why the check did not pass
	Text    string // the whole reason; empty if Message is complete
}

// JUnit returns suites as JUnit XML, in the form that Jenkins and others read (junit-10.xsd).
// A time that was not measured is left out.
func JUnit(name string, suites []Suite) []byte {
	var sum tally
	var all []element
	for _, s := range suites {
		e, t := s.element()
		all = append(all, e)
		sum.add(t)
	}
	return document(element{name: "testsuites", attributes: append([]attribute{{"name", name}}, sum.attributes(false)...), children: all})
}

// tally counts checks.
type tally struct {
	tests, failures, errors, skipped int
	took                             time.Duration
}

func (t *tally) add(o tally) {
	t.tests += o.tests
	t.failures += o.failures
	t.errors += o.errors
	t.skipped += o.skipped
	t.took += o.took
}

// attributes returns the counts as attributes. If skipped is false, the number of skipped
// checks is left out, as for all suites together.
func (t tally) attributes(skipped bool) []attribute {
	all := []attribute{{"tests", strconv.Itoa(t.tests)}, {"failures", strconv.Itoa(t.failures)}, {"errors", strconv.Itoa(t.errors)}}
	if skipped {
		all = append(all, attribute{"skipped", strconv.Itoa(t.skipped)})
	}
	return append(all, seconds(t.took)...)
}

// seconds returns the attribute time; nil for zero.
func seconds(d time.Duration) []attribute {
	if d <= 0 {
		return nil
	}
	return []attribute{{"time", strconv.FormatFloat(d.Seconds(), 'f', 3, 64)}}
}

func (s Suite) element() (element, tally) {
	e := element{name: "testsuite"}
	var t tally
	for _, c := range s.Cases {
		child, one := c.element()
		e.children = append(e.children, child)
		t.add(one)
	}
	e.attributes = append([]attribute{{"name", s.Name}}, t.attributes(true)...)
	if !s.Begun.IsZero() {
		e.attributes = append(e.attributes, attribute{"timestamp", s.Begun.UTC().Format("2006-01-02T15:04:05")})
	}
	return e, t
}

func (c Case) element() (element, tally) {
	e := element{name: "testcase", attributes: append([]attribute{{"classname", c.Class}, {"name", c.Name}}, seconds(c.Took)...)}
	t := tally{tests: 1, took: max(c.Took, 0)}
	why := element{attributes: []attribute{{"message", c.Message}}, text: c.Text}
	switch c.Outcome {
	case Passed:
		return e, t
	case Failed:
		why.name, t.failures = "failure", 1
		why.attributes = append(why.attributes, attribute{"type", c.Class})
	case Broken:
		why.name, t.errors = "error", 1
		why.attributes = append(why.attributes, attribute{"type", c.Class})
	case Skipped:
		why.name, t.skipped = "skipped", 1
	}
	e.children = []element{why}
	return e, t
}
