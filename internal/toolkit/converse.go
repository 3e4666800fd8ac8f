package toolkit

import (
	"errors"
	"fmt"
	"io"
)

// Asks is what the server knows that the helper has to ask.
type Asks struct {
	// LeaveOut reports whether the helper must not open a file, named as the box sees it.
	LeaveOut func(path string) bool
	// Progress is told what the helper does. It may be nil.
	Progress func(done, total int, stage string)
}

// Fault is why there is no result, in words for the agent.
type Fault struct{ Text string }

// Error returns the words.
func (f *Fault) Error() string { return f.Text }

// Converse is the server's end of a conversation with [Serve]: it sends what is asked
// for, says which files are to be left out, and returns the answer. What the helper
// says decides nothing: it is a process of the box. An error is a [Fault] where the
// helper gave one; other errors say that it does not speak as it should.
func Converse(to io.Writer, from io.Reader, ask Request, with Asks) (*Answer, error) {
	if err := send(to, ask); err != nil {
		return nil, err
	}
	in := newLines(from)
	var v Verdict
	for n, asked := 0, false; ; {
		var e Event
		if err := in.next(&e); err != nil {
			return nil, err
		}
		switch {
		case e.Fault != "":
			return nil, &Fault{clip(e.Fault, maxText)}
		case e.Answer != nil:
			return e.Answer, nil
		case asked && (len(e.Paths) > 0 || e.Asked):
			return nil, errors.New("it asks twice")
		case n+len(e.Paths) > maxFiles:
			return nil, fmt.Errorf("it names more than %d files", maxFiles)
		}
		for _, path := range e.Paths {
			if with.LeaveOut(Workspace + "/" + path) {
				v.LeftOut = append(v.LeftOut, n)
			}
			n++
		}
		if e.Asked {
			if asked = true; send(to, v) != nil {
				return nil, errors.New("it does not listen")
			}
		}
		if e.Stage != "" && with.Progress != nil {
			with.Progress(e.Done, e.Total, clip(e.Stage, 100))
		}
	}
}
