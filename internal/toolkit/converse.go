package toolkit

import (
	"fmt"
	"io"
)

// Asks contains the functions of the server that the conversation needs.
type Asks struct {
	// LeaveOut reports whether the helper must not open a file. The path is that in the
	// box.
	LeaveOut func(path string) bool
	// Progress is called with the progress of the helper. It may be nil.
	Progress func(done, total int, stage string)
}

// Fault is the reason why an analysis failed, in words for the agent.
type Fault struct{ Text string }

// Error returns the text.
func (f *Fault) Error() string { return f.Text }

// Converse is the server's end of a conversation with [Serve]: it sends the request,
// reports which files are to be left out, and returns the answer. The helper is a process
// of the box, so its messages decide nothing. If the helper reports a fault, the error is a
// [Fault]; other errors mean that the helper breaks the protocol.
func Converse(to io.Writer, from io.Reader, ask Request, with Asks) (*Answer, error) {
	if err := send(to, ask); err != nil {
		return nil, err
	}
	in := newLines(from)
	var v Verdict
	asked := 0 // number of paths whose verdict was sent
	for n, events := 0, 0; ; events++ {
		var e Event
		if events == maxEvents {
			return nil, fmt.Errorf("it sends more than %d messages", maxEvents)
		}
		if err := in.next(&e); err != nil {
			return nil, err
		}
		switch {
		case e.Fault != "":
			return nil, &Fault{clip(e.Fault, maxText)}
		case e.Answer != nil:
			return e.Answer, nil
		case n+len(e.Paths) > maxAsked:
			return nil, fmt.Errorf("it names more than %d files", maxAsked)
		case len(e.Paths) > pathsAtOnce:
			return nil, fmt.Errorf("it names %d files in one message, more than %d", len(e.Paths), pathsAtOnce)
		}
		for _, path := range e.Paths {
			if with.LeaveOut(Workspace + "/" + path) {
				v.LeftOut = append(v.LeftOut, n-asked)
			}
			n++
		}
		if e.Asked {
			if err := send(to, v); err != nil {
				return nil, err
			}
			v, asked = Verdict{}, n
		}
		if e.Stage != "" && with.Progress != nil {
			with.Progress(e.Done, e.Total, clip(e.Stage, 100))
		}
	}
}
