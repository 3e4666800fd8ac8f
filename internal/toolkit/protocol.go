package toolkit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"belljar.dev/internal/toolkit/code"
)

// Limits of the conversation.
const (
	maxFiles    = 50_000          // files of a project that are listed; further files are left out
	maxAsked    = maxFiles + 1000 // paths that the helper asks about, including a coverage file and unreadable files
	maxMessage  = 1 << 20         // bytes of one line
	maxEvents   = 10_000          // events of one conversation
	pathsAtOnce = 500             // paths in one line
	maxWhole    = 6 << 20         // bytes of a whole result
	maxText     = 4000            // characters of a text, unless the call wants details
	maxDetailed = 60_000          // characters of a text with details
	maxListed   = 1000            // entries of one list in a result
)

// Request is the first line from the server.
type Request struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	// TimeMS is the number of milliseconds after which the helper answers with what it has.
	TimeMS int64 `json:"time_ms"`
	// Program is the [Identity] of the server. The helper refuses to work for another
	// program.
	Program string `json:"program"`
}

// Event is a line from the helper. The last event contains an Answer or a Fault.
type Event struct {
	Paths []string `json:"paths,omitempty"` // paths in the workspace of files that it would open
	// Asked is true after the last path. The server then answers which of the files the
	// helper must not open, and the helper opens the others. The helper may ask several
	// times.
	Asked  bool    `json:"asked,omitempty"`
	Stage  string  `json:"stage,omitempty"` // name of the present part of the analysis
	Done   int     `json:"done,omitempty"`  // number of Total that are done
	Total  int     `json:"total,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Fault  string  `json:"fault,omitempty"` // why there is no answer, in words for the agent
}

// Verdict is the server's answer to [Event.Asked]: the numbers of the paths that the helper
// must not open. They are counted from 0 since the previous Asked.
type Verdict struct {
	LeftOut []int `json:"left_out,omitempty"`
}

// Answer is the last message of the helper. Before it, the helper has written the whole
// result to its standard output.
type Answer struct {
	Text string `json:"text"`
	// quality_gate found a failed check, and the arguments ask for an error in that case
	Failed bool            `json:"failed,omitempty"`
	Result json.RawMessage `json:"result"`
	// Document is true if Text is a whole document, such as JSON: no other text may be
	// added to it.
	Document bool `json:"document,omitempty"`
	// Whole is true if the output of the helper contains more than Text.
	Whole bool `json:"whole,omitempty"`
}

// Base is the beginning of the results of all analyses.
type Base struct {
	Files       int        `json:"files" jsonschema:"number of files that were read"`
	LeftOut     []LeftOut  `json:"left_out,omitempty" jsonschema:"files that were not read, by reason"`
	NotMeasured []code.Gap `json:"not_measured,omitempty" jsonschema:"what is missing in this result, and why"`
	// NotMeasuredMore is the number of gaps that are not in NotMeasured.
	NotMeasuredMore int `json:"not_measured_more,omitempty" jsonschema:"number of further gaps"`

	within string // path of the project in the workspace
}

// place returns the path of the project in the workspace.
func (b *Base) place() string { return b.within }

// tellGaps writes the first gaps.
func (b *Base) tellGaps(t *text) {
	for _, gap := range b.NotMeasured[:min(len(b.NotMeasured), 3)] {
		t.line("not measured: %s", gapLine(gap.Path, gap.Field, gap.Reason))
	}
}

// missing returns in words what the result lacks.
func (b *Base) missing() (all []string) {
	for _, gap := range b.NotMeasured {
		all = append(all, "not measured: "+gapLine(gap.Path, gap.Field, gap.Reason))
	}
	for _, l := range b.LeftOut {
		all = append(all, fmt.Sprintf("%s left out: %s", count(l.Files, "file"), l.Reason))
	}
	return all
}

// LeftOut is the number of files that were not read for one reason.
type LeftOut struct {
	Reason string `json:"reason" jsonschema:"why they were not read"`
	Files  int    `json:"files" jsonschema:"number of files"`
}

// Stage is the time that one part of an analysis took.
type Stage struct {
	Name string  `json:"stage" jsonschema:"part of the analysis"`
	MS   float64 `json:"ms" jsonschema:"milliseconds that it took"`
}

// lines reads messages, one per line.
type lines struct {
	r    *bufio.Reader
	long []byte // contents of a line that is longer than the buffer of r
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

// lineOf returns a message as a line with its line end.
func lineOf(message any) ([]byte, error) {
	line, err := json.Marshal(message)
	if err == nil && len(line) >= maxMessage {
		err = fmt.Errorf("a message has %d bytes, more than %d", len(line), maxMessage)
	}
	return append(line, '\n'), err
}
