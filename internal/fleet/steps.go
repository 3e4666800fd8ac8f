package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"belljar.dev/internal/fleet/claims"
	"belljar.dev/internal/printable"
)

// Step is a step that a worker makes with a place that moves.
type Step string

// The steps of a move, and the steps that undo a move. Each step can be repeated: the
// second time nothing is left to do.
const (
	StepLook    Step = "look"    // report whether the place can move from here, or to here
	StepFreeze  Step = "freeze"  // freeze the place, so that it answers nothing any more
	StepPack    Step = "pack"    // write a frozen place as a stream; for an export, freeze it meanwhile
	StepReceive Step = "receive" // make a copy from a stream, which is not in use yet
	StepTake    Step = "take"    // put the copy to work
	StepDrop    Step = "drop"    // remove the frozen place
	StepThaw    Step = "thaw"    // put the frozen place to work again
	StepDiscard Step = "discard" // remove the copy
)

// Marked is a place that moves, with its mark.
type Marked struct {
	Place string `json:"place"`
	claims.Mark
}

// Looked is the answer to StepLook.
type Looked struct {
	Last  uint64 `json:"last"` // number of the last move that the worker knows of
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Mover gives access to the places of a worker, for moves. Its methods are safe for
// concurrent use.
type Mover interface {
	// Do makes a step without a stream. After a Refusal, another attempt would not help.
	Do(ctx context.Context, s Step, m Marked) (Looked, error)
	// Pack writes a frozen place to out.
	Pack(ctx context.Context, m Marked, out io.Writer) error
	// Receive makes a copy of a place from the output of Pack. It calls alive when it makes
	// progress.
	Receive(ctx context.Context, m Marked, in io.Reader, alive func()) error
}

// Refusal is the error of a step that a worker refuses. Another attempt would not help.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

// ErrBusy is the error of a step that must wait for another step of the same place.
var ErrBusy = errors.New("the worker is busy with this place")

// ErrAtWork is ErrBusy if the other step makes progress, or has begun only a short time
// ago.
var ErrAtWork = fmt.Errorf("%w, and makes progress", ErrBusy)

// Path and headers of the request for a step, and bounds of its answer.
const (
	movePath   = "/link/move"
	moveHeader = headerPrefix + "Move"
	maxWhy     = 1000 // bytes of a reason
	maxLooked  = 4 << 10
	atWork     = headerPrefix + "At-Work" // header that turns StatusLocked into ErrAtWork
)

// move answers the request for a step.
func (w *Worker) move(rw http.ResponseWriter, r *http.Request) {
	var m Marked
	if w.cfg.Mover == nil || json.Unmarshal([]byte(r.Header.Get(moveHeader)), &m) != nil || m.Place == "" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	if m.Move > claims.MaxMove {
		w.answer(rw, m, Looked{}, &Refusal{"no move can have such a number"})
		return
	}
	var err error
	var looked Looked
	// the front's limit is shorter, so the front ends the stream first, with a reason
	stream := &TimedStream{Wait: 2 * w.times.stall, W: rw, Body: r.Body}
	switch s := Step(r.URL.Query().Get("step")); s {
	case StepPack:
		ctx, over := context.WithTimeoutCause(r.Context(), w.times.copy, errTooLong)
		defer over()
		part := &partWriter{Writer: stream}
		if err = w.cfg.Mover.Pack(ctx, m, part); err != nil && part.wrote {
			w.cfg.Log.Error("a place cannot be packed", "place", m.Place, "move", m.Move, "err", err)
			panic(http.ErrAbortHandler) // a part was sent, which the front must not take for the whole
		}
		if part.wrote {
			return
		}
	case StepReceive:
		ctx, over := context.WithTimeoutCause(r.Context(), w.times.copy, errTooLong)
		defer over()
		err = w.cfg.Mover.Receive(ctx, m, stream, sayAlive(rw, w.times.say))
	case StepLook, StepFreeze, StepTake, StepDrop, StepThaw, StepDiscard:
		looked, err = w.cfg.Mover.Do(r.Context(), s, m)
	default:
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	w.answer(rw, m, looked, err)
}

// sayAlive returns a function that reports to the front that a worker makes progress with a
// request whose answer is not ready yet.
func sayAlive(rw http.ResponseWriter, every time.Duration) func() {
	last := time.Now()
	return func() {
		if now := time.Now(); now.Sub(last) >= every {
			last = now
			rw.WriteHeader(http.StatusProcessing)
		}
	}
}

// partWriter records whether a part of an answer was sent.
type partWriter struct {
	io.Writer
	wrote bool
}

// Write sends a part of the answer.
func (b *partWriter) Write(p []byte) (int, error) {
	b.wrote = true
	return b.Writer.Write(p)
}

// answer writes the answer to a request for a step without a stream.
func (w *Worker) answer(rw http.ResponseWriter, m Marked, looked Looked, err error) {
	refused, final := errors.AsType[*Refusal](err)
	switch {
	case final:
		http.Error(rw, clip(refused.Why), http.StatusConflict)
	case errors.Is(err, ErrBusy):
		if errors.Is(err, ErrAtWork) {
			rw.Header().Set(atWork, "1")
		}
		rw.WriteHeader(http.StatusLocked)
	case err != nil:
		w.cfg.Log.Error("a step of the move of a place failed", "place", m.Place, "move", m.Move, "err", err)
		http.Error(rw, clip(err.Error()), http.StatusInternalServerError)
	default:
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(looked)
	}
}

// clip shortens a text for people. It does not cut a character in two.
func clip(why string) string {
	if len(why) <= maxWhy {
		return why
	}
	return strings.ToValidUTF8(why[:maxWhy], "")
}

// do makes a worker take a step without a stream.
func (l *link) do(ctx context.Context, s Step, m Marked) (looked Looked, err error) {
	res, err := l.step(ctx, s, m, http.NoBody)
	if err != nil {
		return looked, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxLooked)).Decode(&looked); err != nil {
		return looked, fmt.Errorf("worker %s: %w", l.Name, err)
	}
	if looked.Last > claims.MaxMove {
		return looked, errLastMove
	}
	return looked, nil
}

// step makes a worker take a step. The caller closes the body of the answer.
func (l *link) step(ctx context.Context, s Step, m Marked, body io.Reader) (*http.Response, error) {
	header, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+movePath+"?step="+string(s), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set(moveHeader, string(header))
	res, err := l.via(s == StepPack || s == StepReceive).client.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", l.Name, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(res.Body, maxWhy)) //nolint:forbidigo // the reader has a bound
	switch {
	case res.StatusCode == http.StatusLocked && res.Header.Get(atWork) != "":
		return nil, fmt.Errorf("worker %s: %w", l.Name, ErrAtWork)
	case res.StatusCode == http.StatusLocked:
		return nil, fmt.Errorf("worker %s: %w", l.Name, ErrBusy)
	case res.StatusCode == http.StatusConflict:
		return nil, &Refusal{fmt.Sprintf("worker %s: %s", l.Name, printable.Line(string(why), maxWhy))}
	case res.StatusCode == http.StatusNotFound || res.Header.Get(notBegun) != "":
		return nil, &Refusal{fmt.Sprintf("worker %s does not move places; install one version of belljar everywhere", l.Name)}
	}
	return nil, fmt.Errorf("worker %s, %s: %s: %s", l.Name, s, res.Status, printable.Line(string(why), maxWhy))
}

// noteMoves records which places that move a worker has. The caller holds mu of the roster.
func (l *link) noteMoves(moves *[]Marked) {
	if moves != nil {
		l.moves = slices.Clone(*moves)
	}
}

// remnant is something that a move has left at a worker, or that a move still needs there.
type remnant struct {
	*link
	Marked
}

// remnants returns the remnants at all workers.
func (r *roster) remnants() (all []remnant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		for _, m := range l.moves {
			all = append(all, remnant{l, m})
		}
	}
	return all
}

// hasRemnant reports whether a worker has a remnant of a place.
func (r *roster) hasRemnant(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if slices.ContainsFunc(l.moves, func(m Marked) bool { return m.Place == place }) {
			return true
		}
	}
	return false
}
