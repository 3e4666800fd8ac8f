package fleet

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
)

// maxHeld is how many bytes of an answer a front buffers, so that it can send another one in
// its place.
const maxHeld = 256 << 10

// answer sends the answer of a worker to the client. If the worker is gone before its end,
// the client gets another answer in its place, or a connection that is cut where a part of
// the answer has been sent.
func (f *Front) answer(w http.ResponseWriter, res *http.Response, fl *flight, l *link) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		f.stream(w, res, fl, l)
		return
	}
	size := int64(maxHeld) // of an answer that does not say how long it is
	if res.ContentLength >= 0 {
		size = min(res.ContentLength+1, maxHeld) // the byte more shows that this is all
	}
	if !f.answers.take(fl.Tenant, size) { // then it is not buffered, and is cut where the worker is lost
		size = 0
	}
	defer f.answers.release(fl.Tenant, size)
	held, err := hold(res.Body, int(size))
	whole := errors.Is(err, io.EOF)
	if err != nil && !whole {
		f.cut(w, fl, l, err)
		return
	}
	copyHeaders(w.Header(), res.Header)
	if whole {
		w.Header().Set("Content-Length", strconv.Itoa(len(held)))
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(held)
		return
	}
	w.WriteHeader(res.StatusCode)
	if _, err := w.Write(held); err != nil {
		return
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}

// hold reads up to size bytes. Its error is that of the reader; nil where there may be more.
func hold(r io.Reader, size int) (held []byte, err error) {
	held = make([]byte, 0, min(size, pieceSize))
	for len(held) < size && err == nil {
		if len(held) == cap(held) {
			held = slices.Grow(held, min(len(held), size-len(held)))
		}
		var n int
		n, err = r.Read(held[len(held):min(cap(held), size)])
		held = held[:len(held)+n]
	}
	return held, err
}

// cut answers where nothing of an answer has been sent yet.
func (f *Front) cut(w http.ResponseWriter, fl *flight, l *link, err error) {
	select {
	case <-l.lost:
		f.lost(w, fl, l)
	default:
		f.cfg.Log.Debug("an answer ended early", "worker", l.Name, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// lost answers in the place of a worker that is gone.
func (f *Front) lost(w http.ResponseWriter, fl *flight, l *link) {
	m := fl.message
	f.cfg.Log.Warn("a worker is gone while it had a request", "worker", l.Name, "place", fl.Place, "method", m.Method, "tool", m.Tool)
	if m.ID == nil {
		refuse(w, "the worker of this place is gone; it is not known what of this request it has done")
		return
	}
	frame := f.cfg.Protocol.Lost(m)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(frame)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(frame)
}

// stream sends a stream of events, each as a whole, so that one can be put behind them.
func (f *Front) stream(w http.ResponseWriter, res *http.Response, fl *flight, l *link) {
	copyHeaders(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return
	}
	c := cutter{
		message: fl.message, protocol: f.cfg.Protocol,
		take:    func() bool { return f.answers.take(fl.Tenant, maxHeld) },
		release: func() { f.answers.release(fl.Tenant, maxHeld) },
	}
	defer c.free()
	piece := make([]byte, firstPiece)
	for {
		n, err := res.Body.Read(piece)
		if events := c.next(piece[:n]); len(events) > 0 {
			if _, err := w.Write(events); err != nil || out.Flush() != nil {
				return
			}
		}
		if n == len(piece) && n < pieceSize { // a stream that says much
			piece = make([]byte, pieceSize)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return
		case c.torn || fl.message.ID == nil || c.answered:
			panic(http.ErrAbortHandler)
		}
		select {
		case <-l.lost:
		default: // the client has gone, or the worker ends the answer without reason
			panic(http.ErrAbortHandler)
		}
		f.cfg.Log.Warn("a worker is gone while it had a request", "worker", l.Name, "place", fl.Place, "method", fl.message.Method, "tool", fl.message.Tool)
		frame := f.cfg.Protocol.Lost(fl.message)
		_, _ = w.Write(append(append([]byte("event: message\ndata: "), frame...), "\n\n"...))
		_ = out.Flush()
		return
	}
}
