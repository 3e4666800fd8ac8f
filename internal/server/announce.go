package server

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/printable"
)

// Bounds of announcements. An agent can ask as often as it likes, and perhaps no program
// reads standard error.
const (
	announceQueue = 16              // most lines that wait to be written; further lines are dropped
	announceBurst = 10              // most lines without a pause
	announceEvery = 6 * time.Second // interval of further lines
	announceEnd   = time.Second     // time for which close waits for a reader
)

// announcer reports on standard error that a person is asked, and how to answer: a client
// may show only its agent that a call waits, and not its user.
type announcer struct {
	state string // config.StateArgument for the commands that answer
	out   *printable.Writer
	lines chan string
	over  chan struct{} // closed when the writing goroutine has ended

	mu     sync.Mutex
	left   int       // guarded by mu: lines that may be written without a pause
	filled time.Time // guarded by mu: time up to which left has grown
	unsaid int       // guarded by mu: number of lines that were not written since the last one
	closed bool      // guarded by mu
}

// announce begins to announce the questions to people. The caller closes the announcer.
func announce(to *ways, errs io.Writer) *announcer {
	n := &announcer{out: printable.NewWriter(errs), lines: make(chan string, announceQueue), over: make(chan struct{}), state: config.StateArgument(to.state), left: announceBurst, filled: time.Now()}
	go func() {
		defer close(n.over)
		for line := range n.lines {
			if _, err := io.WriteString(n.out, line); err != nil || n.out.Flush() != nil {
				return // the output is no longer read; the queue is bounded
			}
		}
	}()
	to.tell(n.approval)
	to.asked = n.question
	return n
}

// close writes the lines that wait. It waits at most announceEnd for their reader.
func (n *announcer) close() {
	n.mu.Lock()
	n.closed = true
	close(n.lines)
	n.mu.Unlock()
	wait := time.NewTimer(announceEnd)
	defer wait.Stop()
	select {
	case <-n.over:
	case <-wait.C:
	}
}

// approval announces a call that waits for a person.
func (n *announcer) approval(e approval.Event) {
	if e.Kind != "asked" {
		return
	}
	a := e.Approval
	n.say(time.Now(), fmt.Sprintf("a call of %s waits for a person (rule %s). `belljar approve show %s%s` shows it, and `belljar approve yes %s%s` or the same with no answers.", a.Tool, a.Rule, a.ID, n.state, a.ID, n.state))
}

// question announces a question of an agent.
func (n *announcer) question(q question.Asked) {
	n.say(time.Now(), fmt.Sprintf("an agent asks a person something. `belljar ask answer %s%s` shows it and takes the answer.", q.ID, n.state))
}

// say writes a line if the bounds allow it, and else counts the line. It does not block.
func (n *announcer) say(now time.Time, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if more := int(now.Sub(n.filled) / announceEvery); more > 0 {
		n.left, n.filled = min(announceBurst, n.left+more), n.filled.Add(time.Duration(more)*announceEvery)
	}
	if n.closed || n.left == 0 {
		n.unsaid++
		return
	}
	if n.unsaid > 0 {
		text += fmt.Sprintf(" %d more were not announced: `belljar approve list` and `belljar ask list` have all.", n.unsaid)
	}
	select {
	case n.lines <- "belljar: " + strings.ReplaceAll(text, "\n", " ") + "\n":
		n.left, n.unsaid = n.left-1, 0
	default:
		n.unsaid++
	}
}
