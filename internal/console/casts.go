package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"belljar.dev/policies/audit"
)

// castPiece is a text with one style, and the time when it was shown, in seconds since the
// beginning.
type castPiece struct {
	At float64 `json:"at"`
	Piece
}

// castPart is a part of a recording. From and Next count its events.
type castPart struct {
	Width   int         `json:"width"`
	Height  int         `json:"height"`
	Seconds float64     `json:"seconds"`
	From    int         `json:"from"`
	Next    int         `json:"next"`
	End     bool        `json:"end"`
	Pieces  []castPiece `json:"pieces"`
	Cut     string      `json:"cut,omitempty"`  // why the recording is incomplete; empty if it is complete
	Lost    int64       `json:"lost,omitempty"` // bytes of output that are missing in the recording, if known
}

// showCast returns a part of the recording of a call.
func showCast(r *request) (any, error) {
	from := 0
	if text := r.in.URL.Query().Get("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, fault(http.StatusBadRequest, "from=%q: want the number of an event", text)
		}
	}
	ctx, cancel := context.WithTimeout(r.context(), searchMost)
	defer cancel()
	text, of, err := audit.ReadCast(ctx, r.views.AuditDir, r.named("id"), r.views.scope.Sees)
	if errors.Is(err, audit.ErrNoRecord) {
		return nil, &Error{http.StatusNotFound, err}
	}
	if err != nil {
		return nil, err
	}
	part, err := castFrom(text, from)
	if err != nil {
		return nil, err
	}
	part.Cut, part.Lost = of.Cut, of.Lost
	return part, nil
}

// castFrom returns the part of a recording that begins with event number from. Each event
// is rendered on its own, and begins with the style at the end of the events before it.
func castFrom(text []byte, from int) (part castPart, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, audit.MaxRecordingText)
	var head struct {
		Width  int `json:"width"`
		Height int `json:"height"`
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil {
		return part, errors.New("read recording: it has no header")
	}
	part = castPart{Width: head.Width, Height: head.Height, From: from, Next: from, End: true, Pieces: []castPiece{}}
	var look style
	shown := 0
	for n := 0; lines.Scan(); n++ {
		var event [3]any
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			return castPart{}, errors.New("read recording: a line is not an event")
		}
		at, isTime := event[0].(float64)
		out, isText := event[2].(string)
		if !isTime || !isText || at < part.Seconds {
			return castPart{}, errors.New("read recording: a line is not an event, or its time is before that of the last one")
		}
		part.Seconds = at
		switch {
		case event[1] != "o":
		case n < from:
			look = lookBehind([]byte(out), look)
		case shown >= maxPart:
			part.End = false
		default:
			for _, p := range render([]byte(out), look) {
				part.Pieces = append(part.Pieces, castPiece{at, p})
			}
			look = lookBehind([]byte(out), look)
			shown += len(out)
		}
		if part.End && n >= from {
			part.Next = n + 1
		}
	}
	return part, nil
}
