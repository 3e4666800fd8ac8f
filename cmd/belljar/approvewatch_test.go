package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// watch starts `belljar approve watch` on a terminal with a person. before is typed before
// the command starts.
func (a *asking) watch(t *testing.T, before string) *typist {
	t.Helper()
	master, slave := pty(t)
	p := &typist{t: t, term: master, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Args = []string{"belljar", "approve", "watch", "--state", a.state}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.types(before)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	return p
}

// ends types keys and waits until the command has ended.
func (p *typist) ends(keys string) {
	p.t.Helper()
	p.types(keys)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("after %q it ended with %v:\n%s", keys, err, p.all)
	}
}

func (a *asking) stateOf(t *testing.T, id string) string {
	t.Helper()
	return a.call(t, "ReadBgOutput", map[string]any{"id": id}).StructuredContent.Approval.State
}

// TestApproveWatchTakesNoAnswerInAdvance checks that keys that were typed before a question
// was shown do not answer it.
func TestApproveWatchTakesNoAnswerInAdvance(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "1m")
	one, two := a.waits(t, "echo publish one"), a.waits(t, "echo publish two")
	p := a.watch(t, strings.Repeat("yes\n", 3))
	p.sees("May " + one + " run? ")
	p.types("no\nyes\n")
	p.sees("May " + two + " run? ")
	p.types("no\n")
	p.sees(two + ": no. The agent is notified.")
	for _, id := range []string{one, two} {
		if got := a.stateOf(t, id); got != "declined" {
			t.Errorf("%s is %s", id, got)
		}
	}
	p.ends("\x03")
}

// TestApproveWatchAsksAgain checks that only answers that are valid for a question are
// offered and accepted, and that the question is asked again after any other text.
func TestApproveWatchAsksAgain(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "5m")
	one := a.waits(t, "echo release one")
	p := a.watch(t, "")
	p.sees("May " + one + " run? Type yes or no: ")
	for _, typo := range []string{"session", "2h", "yse", "y", "Yes", "yes no", "", "n", "once?", "\x1b[A"} {
		p.types(typo + "\n")
		p.sees("is not an answer here. Nothing was answered.")
		p.sees("May " + one + " run? Type yes or no: ")
	}
	if got := a.stateOf(t, one); got != "pending" {
		t.Errorf("after what was no answer it is %s", got)
	}
	p.types("yes\n")
	p.sees(one + ": yes, for once.")

	two := a.waits(t, "echo publish two")
	p.sees("May " + two + " run? Type yes, session, a time such as 30m (at most 2 h) or no: ")
	p.types("3h\n")
	p.sees(`"3h" is not an answer here`)
	p.types("30m\n")
	p.sees(two + ": yes, for 30 min.")
	p.ends("\x03")
	for _, id := range []string{one, two} {
		if got := a.stateOf(t, id); got != "approved" {
			t.Errorf("%s is %s", id, got)
		}
	}
}

// TestApproveWatchShowsWhatComes checks that a question that arrives while another is asked
// is shown immediately, that a question whose time is over is no longer asked, and that an
// answer belongs to the question that the prompt names.
func TestApproveWatchShowsWhatComes(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "5m")
	one := a.waits(t, "echo publish one")
	p := a.watch(t, "")
	p.sees("May " + one + " run? ")
	p.types()
	two := a.waits(t, "echo publish two")
	p.sees(two + " waits too: echo publish two")
	p.sees("\r\nMay " + one + " run? ") // the prompt is printed again below the new line
	three := a.waits(t, "echo publish three")
	p.sees(three + " waits too: echo publish three")
	if n := strings.Count(p.all, two+" waits too"); n != 1 {
		t.Errorf("%d looks told of %s:\n%s", n, two, p.all)
	}
	p.types("ye")
	a.approved(t, "no. The agent is notified", "no", one)
	p.sees(one + " no longer waits: declined, by ")
	p.sees("May " + two + " run? ")
	p.types("s\n") // this is not the rest of a yes
	p.sees(`"s" is not an answer here`)
	p.types("yes\n")
	p.sees(two + ": yes, for once.")
	p.sees("May " + three + " run? ") // text that was typed before is dropped
	p.ends("\x04")
	if got := a.stateOf(t, one); got != "declined" {
		t.Errorf("%s is %s", one, got)
	}
}

// TestApproveWatchEnds checks that Ctrl-C ends the command immediately, with a question
// shown, with half an answer typed, and without a question.
func TestApproveWatchEnds(t *testing.T) {
	t.Parallel()
	a := startAsking(t, "5m")
	p := a.watch(t, "")
	a.watch(t, "").ends("\x04")
	one := a.waits(t, "echo publish one")
	p.sees("May " + one + " run? ")
	p.ends("\x03")
	p = a.watch(t, "")
	p.sees("May " + one + " run? ")
	p.ends("yes\x03")
	if got := a.stateOf(t, one); got != "pending" {
		t.Errorf("after Ctrl-C it is %s", got)
	}
}
