package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"belljar.dev/mcp/wire"
)

// mostID is the largest length of an event's id, in bytes; a longer id is ignored.
const mostID = 1 << 10

// event is one event of a stream (WHATWG HTML, "Server-sent events").
type event struct {
	name string
	data []byte
}

// events reads a stream of events.
type events struct {
	lines *wire.LineReader
	most  int           // most bytes of the data of one event
	id    string        // id of the latest event that had one
	retry time.Duration // how long the client must wait before it reconnects; 0 if the server did not say
}

func newEvents(r io.Reader, most int) *events {
	// A line is a little longer than the data that it contains.
	return &events{lines: wire.NewLineReader(&lineMeter{r: r, most: mostSkipped}, most+64), most: most}
}

// next returns the next event that has data. For an event that is too large it returns a
// *wire.LongLineError, and the next call continues after that event. At the end of the
// stream it returns io.EOF: an incomplete event is dropped.
func (e *events) next() (event, error) {
	var ev event
	large := false
	for {
		line, err := e.lines.Next()
		if _, ok := errors.AsType[*wire.LongLineError](err); ok {
			large, ev.data = true, nil
			continue
		}
		if err != nil {
			return event{}, err
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			switch {
			case large:
				return event{}, &wire.LongLineError{}
			case len(ev.data) > 0:
				return ev, nil
			}
			ev = event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = string(value[:min(len(value), mostID)])
		case "data":
			switch {
			case large || len(ev.data)+len(value) > e.most:
				large, ev.data = true, nil
			case ev.data == nil:
				ev.data = value // the usual case: one line, which has its own memory
			default:
				ev.data = append(append(ev.data, '\n'), value...)
			}
		case "id":
			if len(value) <= mostID && bytes.IndexByte(value, 0) < 0 {
				e.id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// readBody reads a body to its end. It returns an error if the size of the body exceeds
// most, in bytes.
func readBody(r io.Reader, most int) ([]byte, error) {
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(r, int64(most)+1)); err != nil {
		return nil, err
	}
	if b.Len() > most {
		return nil, fmt.Errorf("the body has more than %d bytes", most)
	}
	return b.Bytes(), nil
}
