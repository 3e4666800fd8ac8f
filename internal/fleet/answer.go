package fleet

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
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
	// Read one byte more than is held, to see whether that is all.
	held, err := io.ReadAll(io.LimitReader(res.Body, maxHeld)) //nolint:forbidigo // bounded
	if err != nil {
		f.cut(w, fl, l, err)
		return
	}
	copyHeaders(w.Header(), res.Header)
	if len(held) < maxHeld {
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
	var held []byte   // the begin of an event
	torn := false     // a part of an event has been sent
	answered := false // the client has the answer
	var piece [16 << 10]byte
	for {
		n, err := res.Body.Read(piece[:])
		held = append(held, piece[:n]...)
		whole := bytes.LastIndex(held, []byte("\n\n"))
		if whole >= 0 {
			whole += 2
		}
		switch {
		case whole > 0:
			answered = answered || fl.message.ID != nil && f.has(held[:whole], torn, fl.message)
			torn = false
		case len(held) > maxHeld:
			whole, torn = len(held), true
			answered = answered || fl.message.ID != nil && f.cfg.Protocol.Answers(held, fl.message)
		default:
			whole = 0
		}
		if whole > 0 {
			if _, err := w.Write(held[:whole]); err != nil {
				return
			}
			if held = append(held[:0], held[whole:]...); out.Flush() != nil {
				return
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return
		case torn || fl.message.ID == nil || answered:
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

// has reports whether the answer to a message is among events.
func (f *Front) has(events []byte, torn bool, m Message) bool {
	for i, event := range bytes.Split(events, []byte("\n\n")) {
		if i == 0 && torn {
			continue // whose begin has been looked at
		}
		if f.cfg.Protocol.Answers(event, m) {
			return true
		}
	}
	return false
}

// copyHeaders copies what goes from a worker to a client.
func copyHeaders(to, from http.Header) {
	for name, values := range from {
		if passes(name) {
			to[name] = values
		}
	}
}
