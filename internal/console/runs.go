package console

import (
	"net/http"
	"strconv"
)

// Bounds of a part of the output.
const (
	maxPart  = 64 << 10
	lookBack = 4 << 10 // bytes before a part that are read because they may set its style
)

func listBoxes(r *request) (any, error) { return r.views.Runs.Boxes(), nil }

func listSessions(r *request) (any, error) { return r.views.Runs.Sessions(), nil }

func listJobs(r *request) (any, error) { return r.views.Runs.Jobs(), nil }

// killBox ends a box with everything that runs in it.
func killBox(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	return struct{}{}, r.views.Runs.KillBox(r.named("id"), r.who.Name)
}

// endSession ends a session.
func endSession(r *request) (any, error) {
	var said struct {
		Note string `json:"note"`
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	id := r.named("id")
	ended := r.views.Runs.EndSession(id, r.who.Name, said.Note)
	if len(ended) == 0 {
		return nil, fault(http.StatusNotFound, "no session %q is open", id)
	}
	return ended, nil
}

// endJob ends a background task.
func endJob(r *request) (any, error) {
	if err := r.read(&struct{}{}); err != nil {
		return nil, err
	}
	session, task, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	ended := r.views.Runs.EndJob(session, task, r.who.Name)
	if len(ended) == 0 {
		return nil, fault(http.StatusNotFound, "task %d of session %s is not running", task, session)
	}
	return ended, nil
}

// taskOf returns the background task that the path of a request names.
func taskOf(r *request) (session string, task int64, err error) {
	session = r.named("session")
	if task, err = strconv.ParseInt(r.named("id"), 10, 64); err != nil {
		return "", 0, fault(http.StatusNotFound, "there is no such task")
	}
	return session, task, nil
}

// outputPart is a part of an output, in the form for a page.
type outputPart struct {
	From    int64   `json:"from"`
	Next    int64   `json:"next"` // number of the byte with which the next part begins
	End     bool    `json:"end"`  // whether no more output will follow
	Total   int64   `json:"total"`
	Skipped int64   `json:"skipped"` // number of bytes that are not kept any more
	Pieces  []Piece `json:"pieces"`
}

// showOutput returns a part of the output of a background task. The query from is the
// number of its first byte; a negative number counts from the end of the output.
func showOutput(r *request) (any, error) {
	session, task, err := taskOf(r)
	if err != nil {
		return nil, err
	}
	from, err := r.from()
	if err != nil {
		return nil, err
	}
	if from < 0 {
		is, err := r.views.Runs.Output(session, task, 0, 0)
		if err != nil {
			return nil, err
		}
		from = max(0, is.Total+from)
	}
	// The output before the part sets the style at its beginning.
	before := min(from, lookBack)
	part, err := r.views.Runs.Output(session, task, from-before, int(before)+maxPart)
	if err != nil {
		return nil, err
	}
	begin := part.Next - int64(len(part.Text)) // later than requested if the beginning is not kept any more
	ahead := min(max(0, from-begin), int64(len(part.Text)))
	text := part.Text[ahead:]
	over := part.Over && part.Next == part.Total
	if !over {
		text = text[:wholeUpTo(text, len(text) == maxPart)]
	}
	from = begin + ahead
	return outputPart{
		From: from, Next: from + int64(len(text)), End: over, Total: part.Total, Skipped: max(0, part.Skipped-before),
		Pieces: render(text, lookAfter(part.Text[:ahead])),
	}, nil
}
