package tools

import (
	"errors"
	"fmt"
	"strconv"

	"belljar.dev/sandbox"
)

// changesShown is how many changed files a result lists.
const changesShown = 200

// watched is what a call wants to know of the workspace; nil where it did not
// ask.
type watched struct {
	watch *sandbox.Watch
	why   string // there is no watch
}

// watching begins to watch the workspace, if the call asks for it.
func watching(box *sandbox.Box, asked bool) *watched {
	if !asked {
		return nil
	}
	w, err := box.Watch()
	switch {
	case errors.Is(err, sandbox.ErrNoOverlay):
		return &watched{why: "what changed is only known where the workspace is an overlay, and this one is not; use git status or find -newer"}
	case err != nil:
		return &watched{why: "what changed cannot be told: " + err.Error()}
	}
	return &watched{watch: w}
}

// tell adds to a result what changed.
func (w *watched) tell(out *bashOutput, t *text) {
	if w == nil {
		return
	}
	if w.watch != nil {
		var err error
		if out.Changes, out.ChangesMore, err = w.watch.Changed(changesShown); err != nil {
			w.why = "what changed cannot be told: " + err.Error()
		}
	}
	if out.ChangesNote = w.why; w.why != "" {
		t.line("%s", bracket(w.why))
		return
	}
	const lines = 20 // the rest is in the structure
	for i, c := range out.Changes {
		if i == lines {
			break
		}
		t.line("%s", bracket(c.Kind+" "+strconv.Quote(c.Path)))
	}
	if more := out.ChangesMore + max(len(out.Changes)-lines, 0); more > 0 {
		t.line("%s", bracket(fmt.Sprintf("and %d more changes", more)))
	}
	if len(out.Changes) == 0 {
		t.line("%s", bracket("no file of the workspace changed"))
	}
}
