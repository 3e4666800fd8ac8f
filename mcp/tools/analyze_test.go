package tools

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/sandbox"
)

// A helper that the server stops for what it said was not stopped from outside.
func TestUnanswered(t *testing.T) {
	a := &analyses{&shells{backends: Backends{Log: slog.New(slog.DiscardHandler)}}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{io.ErrUnexpectedEOF, "it was stopped from outside. Nothing was measured. Instead: call again."},
		{io.ErrClosedPipe, "it was stopped from outside. "},
		{errors.New("invalid character"), "its answer makes no sense. Nothing was measured. Instead: call again, or ask the person"},
	} {
		r := a.unanswered(mcp.Call{}, sandbox.Result{Status: sandbox.Killed}, c.err)
		if got := r.Content[0].Text; !r.IsError || !strings.Contains(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
