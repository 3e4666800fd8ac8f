package server

import (
	"encoding/json"
	"strings"
	"testing"

	"belljar.dev/internal/people/approval"
)

// TestListedApprovals checks that a list of approvals fits into an answer of the control
// socket, whatever agents write into their calls: otherwise nobody could list the calls that
// wait. The whole lines stay in the approval itself.
func TestListedApprovals(t *testing.T) {
	const most, answer = 200, 1 << 20
	line := strings.Repeat("<", 400) // JSON for HTML writes each as six bytes
	lines := []string{line, line, line, line}
	var list []approval.Approval
	for range most {
		list = append(list, listed(approval.Approval{ID: "ap-12345678", Tool: "Bash", Shown: approval.Shown{Commands: lines, Args: lines, Text: lines}}))
	}
	text, err := json.Marshal(list)
	if err != nil || len(text) > answer*9/10 {
		t.Errorf("%d approvals take %d bytes, %v; want less than %d", most, len(text), err, answer)
	}
	if lines[0] != line {
		t.Error("the lines of the approval itself are cut")
	}
}
