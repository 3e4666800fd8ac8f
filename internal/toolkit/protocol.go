package toolkit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"belljar.dev/internal/toolkit/code"
)

// Bounds of the conversation.
const (
	maxFiles    = 50_000          // of a project that are listed; of more the rest is left out
	maxAsked    = maxFiles + 1000 // with a coverage file, and with what could not be read
	maxMessage  = 1 << 20         // bytes of one line
	maxEvents   = 10_000          // of one conversation
	pathsAtOnce = 500             // in one line
	maxWhole    = 6 << 20         // bytes of a result as a whole
	maxText     = 4000            // characters of a text, unless the call asks for details
	maxDetailed = 60_000          // characters then
	maxListed   = 1000            // of one list in a result
)

// Request is the first line from the server.
type Request struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	// TimeMS is after how many milliseconds the helper answers with what it has.
	TimeMS int64 `json:"time_ms"`
	// Program is the [Identity] of the server. The helper refuses to work for another one.
	Program string `json:"program"`
}

// Event is a line from the helper. The last has an Answer or a Fault.
type Event struct {
	Paths []string `json:"paths,omitempty"` // from the workspace, of files that it would open
	// Asked ends the paths. The server says which of them it must not open, and then the
	// helper opens the others. It may ask again.
	Asked  bool    `json:"asked,omitempty"`
	Stage  string  `json:"stage,omitempty"` // what it does now
	Done   int     `json:"done,omitempty"`  // of Total
	Total  int     `json:"total,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Fault  string  `json:"fault,omitempty"` // why there is none, for the agent
}

// Verdict is what the server says to [Event.Asked]: the numbers of the paths that the
// helper must not open, counted from 0 since it asked last.
type Verdict struct {
	LeftOut []int `json:"left_out,omitempty"`
}

// Answer is a result. The whole of it went to the helper's output.
type Answer struct {
	Text   string          `json:"text"`
	Failed bool            `json:"failed,omitempty"` // a gate that was to fail
	Result json.RawMessage `json:"result"`
	// Document says that Text is a whole document, such as JSON: nothing may stand beside it.
	Document bool `json:"document,omitempty"`
	// Whole says that the output of the helper has more than Text says.
	Whole bool `json:"whole,omitempty"`
}

// Base is what the results of all analyses begin with.
type Base struct {
	Files       int        `json:"files" jsonschema:"files that were read"`
	LeftOut     []LeftOut  `json:"left_out,omitempty" jsonschema:"files that were not read, by reason"`
	NotMeasured []code.Gap `json:"not_measured,omitempty" jsonschema:"what is missing in this result, and why"`
	// NotMeasuredMore is how many gaps there are beyond those.
	NotMeasuredMore int `json:"not_measured_more,omitempty" jsonschema:"gaps beyond those"`

	within string // the project's path in the workspace
}

// place is where the project is in the workspace.
func (b *Base) place() string { return b.within }

// tellGaps says what was not measured first.
func (b *Base) tellGaps(t *text) {
	for _, gap := range b.NotMeasured[:min(len(b.NotMeasured), 3)] {
		t.line("not measured: %s", gapLine(gap.Path, gap.Field, gap.Reason))
	}
}

// missing says what the result does not have.
func (b *Base) missing() (all []string) {
	for _, gap := range b.NotMeasured {
		all = append(all, "not measured: "+gapLine(gap.Path, gap.Field, gap.Reason))
	}
	for _, l := range b.LeftOut {
		all = append(all, fmt.Sprintf("%s left out: %s", count(l.Files, "file"), l.Reason))
	}
	return all
}

// LeftOut is how many files were not read for one reason.
type LeftOut struct {
	Reason string `json:"reason" jsonschema:"why they were not read"`
	Files  int    `json:"files" jsonschema:"how many"`
}

// Stage is how long one part of an analysis took.
type Stage struct {
	Name string  `json:"stage" jsonschema:"part of the analysis"`
	MS   float64 `json:"ms" jsonschema:"milliseconds that it took"`
}

// lines reads messages, one a line.
type lines struct {
	r    *bufio.Reader
	long []byte // a line that is longer than what r holds
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next reads the next message.
func (l *lines) next(into any) error {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(l.long)+len(line) < maxMessage {
			l.long = append(l.long, line...)
			line, err = l.r.ReadSlice('\n')
		}
		l.long = append(l.long, line...)
		line = l.long
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxMessage:
		return fmt.Errorf("a message has more than %d bytes", maxMessage)
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	return json.Unmarshal(line, into)
}

// send writes a message.
func send(w io.Writer, message any) error {
	line, err := lineOf(message)
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// lineOf is a message with its line's end.
func lineOf(message any) ([]byte, error) {
	line, err := json.Marshal(message)
	if err == nil && len(line) >= maxMessage {
		err = fmt.Errorf("a message has %d bytes, more than %d", len(line), maxMessage)
	}
	return append(line, '\n'), err
}
