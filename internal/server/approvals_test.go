package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/people"
	"belljar.dev/internal/people/approval"
)

// TestListedApprovals checks that a list of approvals fits into an answer of the control
// socket, whatever agents write into their calls: otherwise nobody could list the calls that
// wait. The whole lines stay in the approval itself.
func TestListedApprovals(t *testing.T) {
	const most, answer = 200, 1 << 20
	long := func(n int) string { return strings.Repeat("<", n) } // JSON for HTML writes each as six bytes
	lines := []string{long(400), long(400), long(400), long(400)}
	plan := slices.Repeat([]string{"ls " + long(197)}, 20)
	if err := approval.CheckCommands(plan); err != nil {
		t.Fatal(err)
	}
	full := approval.Approval{
		ID: "ap-12345678", Tool: "Bash", Principal: long(200), Asker: approval.Asker{Rule: "r", Reason: long(2000)},
		Shown: approval.Shown{Commands: lines, Args: lines, Text: lines}, Yes: approval.Yes{Commands: plan},
		Said: people.Said{By: long(200), Via: long(200), Note: long(500)},
	}
	text, err := json.Marshal(listed(slices.Repeat([]approval.Approval{full}, most)))
	if err != nil || len(text) > answer*9/10 {
		t.Errorf("%d approvals take %d bytes, %v; want less than %d", most, len(text), err, answer)
	}
	if lines[0] != long(400) || len(plan[0]) != 200 {
		t.Error("the lines of the approval itself are cut")
	}
	// Few approvals have more of each.
	one := listed([]approval.Approval{full})[0]
	if want := long(maxListedLine) + "..."; one.Shown.Args[0] != want || len(one.Commands) != maxListedPatterns || len(one.Commands[0]) != len(want) || len(one.Reason) != 2*maxListedLine+len("...") {
		t.Errorf("got %q, %q, %q", one.Shown.Args[0], one.Commands, one.Reason)
	}
}
