package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/limit"
)

// text is the text block of a result, built line by line.
type text struct{ b strings.Builder }

// line adds one line; an empty one adds nothing.
func (t *text) line(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); s != "" {
		t.b.WriteString(s + "\n")
	}
}

// note adds a line of belljar's own, which has brackets in contrast to a command's; an empty
// one adds nothing.
func (t *text) note(s string) {
	if s != "" {
		t.b.WriteString("[" + s + "]\n")
	}
}

// body adds the output of a command, and a line break at its end if it has none.
func (t *text) body(s string) {
	t.b.WriteString(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		t.b.WriteByte('\n')
	}
}

// status ends the text with a line for programs: pairs of a name and a value. A command can
// print such a line too, so only the last one counts.
func (t *text) status(pairs ...string) string {
	t.b.WriteString("[belljar")
	for i := 0; i+1 < len(pairs); i += 2 {
		t.b.WriteString(" " + pairs[i] + "=" + word(pairs[i+1]))
	}
	t.b.WriteByte(']')
	return t.b.String()
}

// plain matches the values that need no quotes in a status line.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`) })

func word(s string) string {
	if plain().MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// clip returns the first n characters of s, and "..." if there are more.
func clip(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// oneLine returns s with visible line breaks.
func oneLine(s string) string {
	return strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(strings.TrimSpace(s))
}

// valid returns p as valid UTF-8, which JSON strings must be.
func valid(p []byte) string { return strings.ToValidUTF8(string(p), "\uFFFD") }

// uri returns the URI of an output.
func uri(o *sandbox.Output) string { return outputURI(o.ID()) }

func outputURI(id string) string { return "output://" + id }

func jobURI(id int64) string { return jobScheme + strconv.FormatInt(id, 10) }

// linesShown is how many lines of an output a result shows if the call sets no number of
// bytes. opencode 1.18 gives its model the first 2,000 lines of a result, and would drop
// the last lines: how the command ended, and callbacks.
const linesShown = 1900

// fewLines removes lines from the middle of a cut if their number exceeds most.
func fewLines(c sandbox.Cut, most int) sandbox.Cut {
	if bytes.Count(c.Text, []byte("\n")) <= most {
		return c
	}
	head, tail := c.Text, c.Text
	if c.Dropped > 0 {
		head, tail = c.Text[:c.At], c.Text[c.At:]
	}
	head = head[:linesEnd(head, most/5)]
	tail = tail[linesEnd(tail, bytes.Count(tail, []byte("\n"))-(most-most/5)):]
	all := slices.Concat(head, tail)
	return sandbox.Cut{Text: all, Total: c.Total, Dropped: c.Total - int64(len(all)), At: len(head)}
}

// linesEnd returns the offset after the first n lines of a text.
func linesEnd(text []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// shorten returns a cut as text, with a line in place of the missing bytes.
func shorten(c sandbox.Cut, o *sandbox.Output) string {
	if c.Dropped == 0 {
		return valid(c.Text)
	}
	head, tail := valid(c.Text[:c.At]), valid(c.Text[c.At:])
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[... %d of %d bytes left out here; read %s?offset=%d&length=%d ...]\n%s",
		head, c.Dropped, c.Total, uri(o), c.At, min(c.Dropped, maxRange), tail)
}

// stream returns a cut of one stream like shorten, but without a URI of the missing bytes:
// output:// counts both streams together.
func stream(c sandbox.Cut) string {
	if c.Dropped == 0 {
		return valid(c.Text)
	}
	return fmt.Sprintf("%s\n[... %d of %d bytes left out here ...]\n%s", valid(c.Text[:c.At]), c.Dropped, c.Total, valid(c.Text[c.At:]))
}

// signalName returns a signal's name as kill -l spells it; empty for no signal.
func signalName(s syscall.Signal) string {
	if s == 0 {
		return ""
	}
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}

// within converts a number of milliseconds. If got is nil, it returns the default, at most
// the limit.
func within(name string, got *int64, normal, low, high time.Duration, above string) (time.Duration, error) {
	if got == nil {
		return min(normal, high), nil
	}
	if *got < low.Milliseconds() || *got > high.Milliseconds() {
		if *got > high.Milliseconds() && above != "" {
			above = "; " + above
		} else {
			above = ""
		}
		return 0, fmt.Errorf("%s: got %d, want %d to %d milliseconds%s", name, *got, low.Milliseconds(), high.Milliseconds(), above)
	}
	return time.Duration(*got) * time.Millisecond, nil
}

// bytesWithin converts a number of bytes in the same way.
func bytesWithin(name string, got *int64, normal, high int64) (int, error) {
	if got == nil {
		return int(normal), nil
	}
	if *got < 1 || *got > high || *got > math.MaxInt32 {
		return 0, fmt.Errorf("%s: got %d, want 1 to %d bytes", name, *got, high)
	}
	return int(*got), nil
}

const nothingRan = "Nothing was run."

// blocked returns the result for a call that the sandbox refused, with a text for the
// agent; the cause goes to the log. For a cancelled call it returns the cause of the cancel
// as the error, since nobody reads a result.
func (s *shells) blocked(ctx context.Context, id string, err error) (*mcp.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.backends.Log.Warn("command not run", "session", id, "err", err)
	var why *limit.Refusal
	switch {
	case errors.As(err, &why):
		ran := nothingRan
		if why.Ran {
			ran = "A part of it ran."
		}
		return mcp.Refused(policies.Block{Reason: why.Message, Ran: ran}.Refusal()), nil
	case errors.Is(err, limit.ErrTooMany):
		return mcp.Refused(policies.Block{
			Reason: err.Error(), Ran: nothingRan,
			Instead: "Instead: end a background task that you do not need any longer (ListBgTasks, KillBgTask), or try again when another command has ended.",
		}.Refusal()), nil
	case errors.Is(err, sandbox.ErrClosed):
		return mcp.Refused(policies.Block{
			Reason:  "the box of this session was closed while the call ran",
			Instead: "Instead: call again; a new box is opened, without the background tasks and files outside the workspace of the old one.",
		}.Refusal()), nil
	}
	return mcp.Failed("The sandbox could not run the command: %s. "+
		"Instead: `belljar doctor` on the server's machine says what is missing there.", err), nil
}
