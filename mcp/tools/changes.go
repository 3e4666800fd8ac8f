package tools

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"belljar.dev/sandbox"
)

// changesShown is how many changed files a result lists.
const changesShown = 200

// watched contains what a call asked for about changes of the workspace, and the checkpoint
// that was made after the call.
type watched struct {
	asked bool
	watch *sandbox.Watch
	why   string // the reason for not watching

	checkpoint, note string // the call's checkpoint, or why it has no checkpoint
}

// watching starts to watch the workspace, if the call asks for that.
func watching(box *sandbox.Box, asked bool) *watched {
	if !asked {
		return &watched{}
	}
	w, err := box.Watch()
	switch {
	case errors.Is(err, sandbox.ErrNoOverlay):
		return &watched{asked: true, why: "what changed is only known in an overlay workspace, and this workspace is not one; use git status or find -newer"}
	case err != nil:
		return &watched{asked: true, why: "what changed is not known: " + err.Error()}
	}
	return &watched{asked: true, watch: w}
}

// keep makes a checkpoint after the call.
func (w *watched) keep(ctx context.Context, box *sandbox.Box, in bashInput) {
	note := in.Description
	if note == "" {
		note = in.Command
	}
	var err error
	w.checkpoint, err = box.Checkpoint(ctx, note)
	switch {
	case err == nil, errors.Is(err, sandbox.ErrNoOverlay), ctx.Err() != nil:
	default:
		w.note = err.Error()
	}
}

// tell adds the changes and the checkpoint to a result.
func (w *watched) tell(out *bashOutput, t *text) {
	out.Checkpoint, out.CheckpointNote = w.checkpoint, w.note
	t.note(w.note)
	if !w.asked {
		return
	}
	if w.watch != nil {
		var err error
		if out.Changes, out.ChangesMore, err = w.watch.Changed(changesShown); err != nil {
			w.why = "what changed is not known: " + err.Error()
		}
	}
	if out.ChangesNote = w.why; w.why != "" {
		t.note(w.why)
		return
	}
	for _, c := range out.Changes {
		t.note(c.Kind + " " + strconv.Quote(c.Path))
	}
	if out.ChangesMore > 0 {
		t.note(fmt.Sprintf("and %d more changes", out.ChangesMore))
	}
	if len(out.Changes) == 0 {
		t.note("no file of the workspace changed")
	}
}
