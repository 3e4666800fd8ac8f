package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
)

// TestAnnouncements checks that each question is announced once, with the command that
// answers it, in printable text, and that an agent cannot fill an output that is not read.
func TestAnnouncements(t *testing.T) {
	var out bytes.Buffer
	to := &ways{state: "/st ate"}
	n := announce(to, &out)
	a := approval.Approval{ID: "ap-1", Tool: "Bash\x1b[2J", Asker: approval.Asker{Rule: "pu\nsh"}}
	for _, kind := range []string{"asked", "given", "used", "expired"} {
		to.happened(approval.Event{Kind: kind, Approval: a})
	}
	to.asked(question.Asked{ID: "q-1"})
	n.close()
	to.happened(approval.Event{Kind: "asked", Approval: a}) // this event comes after close, and is not announced
	want := "belljar: a call of Bash^[[2J waits for a person (rule pu sh). " +
		"`belljar approve show ap-1 --state '/st ate'` shows it, and `belljar approve yes ap-1 --state '/st ate'` or the same with no answers.\n" +
		"belljar: an agent asks a person something. `belljar ask answer q-1 --state '/st ate'` shows it and takes the answer.\n"
	if got := out.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}

	// Lines beyond the burst are counted. After announceEvery, one more line is written,
	// with their number.
	stuck := &announcer{lines: make(chan string, 1000), over: make(chan struct{}), left: announceBurst}
	now := time.Now()
	stuck.filled = now
	for i := range 500 {
		stuck.say(now, fmt.Sprint(i))
	}
	if len(stuck.lines) != announceBurst {
		t.Errorf("%d lines at once, want %d", len(stuck.lines), announceBurst)
	}
	stuck.say(now.Add(announceEvery), "later")
	last := ""
	for range announceBurst + 1 {
		last = <-stuck.lines
	}
	if !strings.HasPrefix(last, "belljar: later 490 more were not announced: ") {
		t.Errorf("got %q, want what was not said", last)
	}
	// The output is not read: say does not wait.
	full := &announcer{lines: make(chan string), over: make(chan struct{}), left: announceBurst, filled: now}
	full.say(now, "x")
	if full.unsaid != 1 {
		t.Errorf("got %d unsaid, want 1", full.unsaid)
	}
}
