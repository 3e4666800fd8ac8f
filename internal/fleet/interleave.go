package fleet

import "net/http"

// maxTurn is the number of bytes that one answer sends before another answer of the link may
// send. HTTP/2 sends the frames of several answers in turn, and a frame contains up to 16 KiB
// of what one call of Write passed. On a slow link a small answer waits for a frame of each
// large answer twice: before its headers and before its body. With frames of 4 KiB, large
// answers take half as long again on a fast link.
const maxTurn = 8 << 10

// interleaved is an answer whose frames are at most [maxTurn] bytes long.
type interleaved struct{ http.ResponseWriter }

// Write writes a part of the answer, frame by frame.
func (w interleaved) Write(p []byte) (n int, err error) {
	for len(p) > maxTurn && err == nil {
		var m int
		m, err = w.ResponseWriter.Write(p[:maxTurn])
		n, p = n+m, p[m:]
	}
	if err != nil {
		return n, err
	}
	m, err := w.ResponseWriter.Write(p)
	return n + m, err
}

// Unwrap is for http.ResponseController.
func (w interleaved) Unwrap() http.ResponseWriter { return w.ResponseWriter }
