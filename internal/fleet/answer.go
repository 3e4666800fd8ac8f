package fleet

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
)

// maxBuffered is how many bytes of an answer a front buffers before it sends them, so that
// it can send another answer in their place.
const maxBuffered = 256 << 10

// answer sends the answer of a worker to the client. If the worker is lost before the end
// of the answer, the client gets another answer in its place; if a part was already sent,
// the connection is cut.
func (f *Front) answer(w http.ResponseWriter, res *http.Response, fl *flight, l *link) {
	size := int64(maxBuffered) // for an answer of unknown length
	if res.ContentLength >= 0 {
		size = min(res.ContentLength, maxBuffered-1) + 1 // one byte more shows that the answer is complete; ContentLength+1 may overflow
	}
	if !f.answers.acquire(fl.Tenant, size) { // without room the answer is not buffered, and is cut if the worker is lost
		size = 0
	}
	defer f.answers.release(fl.Tenant, size)
	head, err := readAhead(res.Body, int(size))
	whole := errors.Is(err, io.EOF)
	switch {
	case err != nil && !whole && l.over(): // nothing has been sent yet
		f.lost(w, fl, l)
		return
	case err != nil && !whole:
		f.cfg.Log.Debug("an answer ended early", "worker", l.Name, "err", err)
		panic(http.ErrAbortHandler)
	}
	copyHeaders(w.Header(), res.Header)
	if whole {
		w.Header().Set("Content-Length", strconv.Itoa(len(head)))
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(head)
		return
	}
	w.WriteHeader(res.StatusCode)
	if _, err := w.Write(head); err != nil {
		return
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part of the answer for the whole
	}
}

// readAhead reads up to size bytes. It returns the error of the reader; nil if there may be
// more.
func readAhead(r io.Reader, size int) (head []byte, err error) {
	head = make([]byte, 0, min(size, pieceSize))
	for len(head) < size && err == nil {
		if len(head) == cap(head) {
			head = slices.Grow(head, min(len(head), size-len(head)))
		}
		var n int
		n, err = r.Read(head[len(head):min(cap(head), size)])
		head = head[:len(head)+n]
	}
	return head, err
}

// lost sends an answer in place of a worker that is lost.
func (f *Front) lost(w http.ResponseWriter, fl *flight, l *link) {
	m := fl.message
	f.cfg.Log.Warn("a worker disconnected while it had a request", "worker", l.Name, "place", fl.Place, "method", m.Method, "tool", m.Tool)
	if m.ID == nil {
		refuse(w, "the worker of this place has disconnected; it is not known which part of this request it has done")
		return
	}
	frame := f.cfg.Protocol.Lost(m)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(frame)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(frame)
}

// refuse answers a request that was not run at all, or asks the client to send it again.
func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, why, http.StatusServiceUnavailable)
}
