package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"belljar.dev/internal/control"
	"belljar.dev/internal/pause"
	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// lookEvery is how often watch looks for questions.
const lookEvery = time.Second

// watch prints each question once. On a terminal it also reads the answers there, one
// question after the other.
func (a *approving) watch(c *cobra.Command) error {
	ctx, cancel := signal.NotifyContext(c.Context(), stop...)
	defer cancel()
	w := watching{state: a, out: c.OutOrStdout(), shown: make(map[string]bool)}
	if in, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		keys, err := newKeyboard(ctx, in)
		if err != nil {
			return failure(err)
		}
		defer keys.close()
		w.keys = keys
	}
	err := w.run(ctx)
	if ctx.Err() != nil {
		if w.keys != nil {
			fmt.Fprintln(w.out) // the prompt has no end of line
		}
		return nil
	}
	return err
}

// watching is a watch in progress. Only one goroutine uses it.
type watching struct {
	state *approving
	out   io.Writer
	keys  *keyboard       // nil if no terminal is there to type at
	shown map[string]bool // waiting questions that were printed, in full or as one line
	now   approval.Approval
	at    *control.Client // server of now, the question that is asked; nil if no question is asked
}

// run looks for questions and takes answers until ctx or the input ends.
func (w *watching) run(ctx context.Context) error {
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		for next := time.Now().Add(lookEvery); time.Now().Before(next); {
			line, typed, err := w.wait(ctx, time.Until(next))
			if errors.Is(err, io.EOF) {
				_, err := fmt.Fprintln(w.out)
				return failure(err)
			}
			if err != nil {
				return failure(err)
			}
			if !typed || w.at == nil {
				continue
			}
			if err := w.take(ctx, line); err != nil {
				return err
			}
			if w.at == nil {
				break // go on to the next question
			}
		}
	}
}

// wait waits for a line, or until a time has passed.
func (w *watching) wait(ctx context.Context, most time.Duration) (line string, typed bool, err error) {
	if w.keys != nil {
		return w.keys.line(ctx, most)
	}
	_ = pause.For(ctx, most)
	return "", false, ctx.Err()
}

// look prints the questions that have arrived since the last look, and what happened to the
// question that is asked.
func (w *watching) look(ctx context.Context) error {
	found, err := w.state.open(ctx, false)
	if err != nil {
		return err
	}
	var waiting []approval.Approval // the oldest first, since it has the least time left
	pending := make(map[string]bool)
	for _, one := range slices.Backward(found[0].Said.All) {
		if one.State == approval.Pending {
			waiting = append(waiting, one)
			pending[one.ID] = true
		}
	}
	if w.at != nil && !pending[w.now.ID] {
		if err := w.gone(ctx); err != nil {
			return err
		}
	}
	come := false
	for _, one := range waiting {
		switch {
		case w.at == nil && (w.keys != nil || !w.shown[one.ID]):
			err = w.show(ctx, found, one.ID)
		case !w.shown[one.ID]:
			come = true
			_, err = fmt.Fprintf(w.out, "\n%s waits too: %s", one.ID, gist(one))
		}
		if err != nil {
			return failure(err)
		}
	}
	w.shown = pending // questions that no longer wait are forgotten
	if come {
		_, err := fmt.Fprintf(w.out, "\n%s", prompt(w.now))
		return failure(err)
	}
	return nil
}

// gone prints how the question ended: another person has answered it, or its time is over.
func (w *watching) gone(ctx context.Context) error {
	var one approval.Approval
	at, id := w.at, w.now.ID
	w.at = nil
	if err := at.Ask(ctx, http.MethodGet, "/approvals/"+id, nil, &one); err != nil {
		return failure(err)
	}
	what := string(one.State)
	if one.By != "" {
		what += ", by " + one.By
	}
	_, err := fmt.Fprintf(w.out, "\n%s no longer waits: %s.\n", id, what)
	return failure(err)
}

// show prints a question and, if a terminal is there to type at, asks for the answer.
func (w *watching) show(ctx context.Context, found desks, id string) error {
	at, err := found.of(id)
	if err != nil {
		return err
	}
	var one approval.Approval
	if err := at.Ask(ctx, http.MethodGet, "/approvals/"+id, nil, &one); err != nil {
		return err
	}
	if err := printApproval(w.out, one); err != nil || w.keys == nil {
		return err
	}
	// Keys that were typed earlier do not answer a question that nobody had seen at that
	// time.
	if err := forgetTyped(w.keys.in); err != nil {
		return err
	}
	w.now, w.at = one, at
	_, err = fmt.Fprint(w.out, prompt(one))
	return err
}

// take handles a line that was typed after the question was shown. Only a complete word is
// an answer; after any other line, the question is asked again.
func (w *watching) take(ctx context.Context, line string) error {
	said, err := readAnswer(w.now, line)
	if err != nil {
		_, err := fmt.Fprintf(w.out, "%s. Nothing was answered.\n%s", err, prompt(w.now))
		return failure(err)
	}
	done, err := say(ctx, w.at, w.now.ID, said)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.at = nil // if the question still waits, the next look asks it again
	_, wrote := fmt.Fprintln(w.out, cmp.Or(errorText(err), outcomeLine(done)))
	return failure(wrote)
}

// prompt returns the prompt for a question, with the words that answer it.
func prompt(a approval.Approval) string {
	return fmt.Sprintf("May %s run? Type %s: ", a.ID, answerWords(a))
}

// answerWords returns the words that can be typed.
func answerWords(a approval.Approval) string {
	all := []string{"yes"}
	for _, s := range a.Scopes {
		switch s {
		case approval.Once: // yes alone means once
		case approval.Session:
			all = append(all, "session")
		case approval.Hours:
			all = append(all, fmt.Sprintf("a time such as 30m (at most %s)", policies.Spoken(a.For)))
		}
	}
	return strings.Join(all, ", ") + " or no"
}

// readAnswer reads the line that was typed.
func readAnswer(a approval.Approval, line string) (control.Answer, error) {
	text := strings.TrimSpace(line)
	switch text {
	case "no":
		return control.Answer{}, nil
	case "yes":
		return control.Answer{Yes: true, Scope: string(approval.Once)}, nil
	}
	if scope, most, err := control.ParseScope(text); err == nil && text != "" && slices.Contains(a.Scopes, scope) && (scope != approval.Hours || most <= a.For) {
		return control.Answer{Yes: true, Scope: text}, nil
	}
	return control.Answer{}, fmt.Errorf("%q is not an answer here", policies.Clip(text, 40))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// keyboard reads what a person types at a terminal, line by line.
type keyboard struct {
	in   *os.File
	wake [2]*os.File // a pipe whose writing end is closed when ctx ends
	end  func() bool // stops the function that closes the pipe
}

// newKeyboard reads a terminal until ctx ends: a read that waits for a line would also
// delay Ctrl-C. The caller must close it.
func newKeyboard(ctx context.Context, in *os.File) (*keyboard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &keyboard{in: in, wake: [2]*os.File{r, w}}
	k.end = context.AfterFunc(ctx, func() { w.Close() })
	return k, nil
}

func (k *keyboard) close() {
	k.end()
	k.wake[0].Close()
	k.wake[1].Close()
}

// line waits for a line, until a time has passed, or until ctx ends. The error is io.EOF at
// the end of the input (Ctrl-D).
func (k *keyboard) line(ctx context.Context, most time.Duration) (text string, typed bool, err error) {
	ready := []unix.PollFd{{Fd: int32(k.in.Fd()), Events: unix.POLLIN}, {Fd: int32(k.wake[0].Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, int(most.Milliseconds())+1)
	if ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	if n == 0 || errors.Is(err, unix.EINTR) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("wait for the answer: %w", err)
	}
	// A terminal returns one line for each read, of at most 4096 bytes (termios(3),
	// canonical mode).
	buf := make([]byte, 4096)
	if n, err = k.in.Read(buf); err != nil {
		return "", false, err
	}
	return string(buf[:n]), true, nil
}

// forgetTyped drops what was typed at a terminal and was not read.
func forgetTyped(in *os.File) error {
	if err := unix.IoctlSetInt(int(in.Fd()), unix.TCFLSH, unix.TCIFLUSH); err != nil {
		return fmt.Errorf("flush the terminal's input: %w", err)
	}
	return nil
}
