package otlp

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// Kind is the side of a call on which a span is. The values are those of the protocol.
type Kind int

// The kinds that belljar uses.
const (
	Internal Kind = 1 // work within this process
	Server   Kind = 2 // work for a request of a client
)

// Attr is an attribute: Value is a string, an int64 or a bool.
type Attr struct {
	Key   string
	Value any
}

// Span is a piece of work with its times. A zero Parent means that the span has no parent.
type Span struct {
	TraceID    [16]byte
	ID, Parent [8]byte
	State      string // value of the header tracestate, unchanged
	Remote     bool   // whether the parent is a span of another process
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Failed     bool
	Message    string // reason of the failure, without any text of an agent or a command
}

// The flags of a span (opentelemetry/proto/trace/v1): the span is sampled, it is known
// whether its parent is remote, and its parent is remote.
const (
	flagSampled     = 0x001
	flagKnowsRemote = 0x100
	flagIsRemote    = 0x200
)

// prefix returns a request up to its first span.
func prefix(cfg Config) []byte {
	b := []byte(`{"resourceSpans":[{"resource":{"attributes":`)
	b = appendAttrs(b, cfg.Resource)
	b = append(b, `},"scopeSpans":[{"scope":{"name":`...)
	b = appendText(b, cfg.Scope)
	b = append(b, `,"version":`...)
	b = appendText(b, cfg.ScopeVersion)
	return append(b, `},"spans":[`...)
}

// body returns the body of a request for a group of spans.
func (e *Exporter) body(batch []Span) []byte {
	b := make([]byte, 0, len(e.prefix)+512*len(batch))
	b = append(b, e.prefix...)
	for i := range batch {
		if i > 0 {
			b = append(b, ',')
		}
		b = batch[i].append(b)
	}
	return append(b, `]}]}]}`...)
}

// append appends a span in the JSON encoding: IDs in hexadecimal digits, numbers of 64 bits
// as strings.
func (s *Span) append(b []byte) []byte {
	b = append(b, `{"traceId":"`...)
	b = hex.AppendEncode(b, s.TraceID[:])
	b = append(b, `","spanId":"`...)
	b = hex.AppendEncode(b, s.ID[:])
	b = append(b, '"')
	flags := flagSampled | flagKnowsRemote
	if s.Parent != [8]byte{} {
		b = append(b, `,"parentSpanId":"`...)
		b = hex.AppendEncode(b, s.Parent[:])
		b = append(b, '"')
		if s.Remote {
			flags |= flagIsRemote
		}
	}
	if s.State != "" {
		b = append(b, `,"traceState":`...)
		b = appendText(b, s.State)
	}
	b = append(b, `,"flags":`...)
	b = strconv.AppendInt(b, int64(flags), 10)
	b = append(b, `,"name":`...)
	b = appendText(b, s.Name)
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(s.Kind), 10)
	b = append(b, `,"startTimeUnixNano":"`...)
	b = strconv.AppendInt(b, s.Start.UnixNano(), 10)
	b = append(b, `","endTimeUnixNano":"`...)
	b = strconv.AppendInt(b, s.End.UnixNano(), 10)
	b = append(b, `","attributes":`...)
	b = appendAttrs(b, s.Attrs)
	if s.Failed {
		b = append(b, `,"status":{"code":2`...)
		if s.Message != "" {
			b = append(b, `,"message":`...)
			b = appendText(b, s.Message)
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

func appendAttrs(b []byte, attrs []Attr) []byte {
	b = append(b, '[')
	for i, a := range attrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"key":`...)
		b = appendText(b, a.Key)
		b = append(b, `,"value":{`...)
		switch v := a.Value.(type) {
		case string:
			b = append(b, `"stringValue":`...)
			b = appendText(b, v)
		case int64:
			b = append(b, `"intValue":"`...)
			b = strconv.AppendInt(b, v, 10)
			b = append(b, '"')
		case bool:
			b = append(b, `"boolValue":`...)
			b = strconv.AppendBool(b, v)
		}
		b = append(b, `}}`...)
	}
	return append(b, ']')
}

func appendText(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // marshalling a string cannot fail
		return append(b, `""`...)
	}
	return append(b, text...)
}
