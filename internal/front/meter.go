package front

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// A Meter counts the requests of a front. It is called from many goroutines, and must not
// block.
type Meter interface {
	// Answered gets each request when its answer or its stream has ended.
	Answered(Answered)
	// Streaming gets 1 when an answer becomes a stream, and -1 when the stream has ended.
	Streaming(change int)
	// Limited gets the name of a limit that has refused a request or connection.
	Limited(limit string)
}

// Answered describes a request and its answer. It contains no text that a client made up.
type Answered struct {
	HTTP   string // HTTP method, or _other
	Route  string // pattern that matched the path; empty if no pattern matched
	Status int
	Took   time.Duration
}

// limitConnections is the name of the limit of connections from one address.
const limitConnections = "connections"

// answer is a ResponseWriter that records what was sent.
type answer struct {
	http.ResponseWriter
	meter     Meter        // may be nil
	closing   *atomic.Bool // if true, the client must open a new connection
	status    int          // 0 until the header is sent
	bytes     int64
	streaming bool // whether the meter counts it as a stream
}

func (f *Front) answer(w http.ResponseWriter) *answer {
	return &answer{ResponseWriter: w, meter: f.meter, closing: &f.closing}
}

// Unwrap is called by http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader sends the header.
func (a *answer) WriteHeader(status int) {
	a.begins(status)
	a.ResponseWriter.WriteHeader(status)
}

// begins records the status of an answer, and whether the answer is a stream of events or a
// connection of another protocol.
func (a *answer) begins(status int) {
	final := status >= http.StatusOK || status == http.StatusSwitchingProtocols
	if a.status != 0 || !final {
		return
	}
	a.status = status
	if a.closing.Load() && status != http.StatusSwitchingProtocols {
		a.Header().Set("Connection", "close") // over HTTP/2, net/http sends GOAWAY instead
	}
	if a.meter != nil && (status == http.StatusSwitchingProtocols || strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream")) {
		a.streaming = true
		a.meter.Streaming(1)
	}
}

// Write sends a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	a.begins(http.StatusOK)
	n, err := a.ResponseWriter.Write(p)
	a.bytes += int64(n)
	return n, err
}

// Flush sends the buffered bytes.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is Flush with its error.
func (a *answer) FlushError() error {
	a.begins(http.StatusOK)
	return http.NewResponseController(a.ResponseWriter).Flush()
}
