package fleet

import "net/http"

// Protocol is what a front has to know of the messages that it forwards.
type Protocol interface {
	// Read returns what a request asks for.
	Read(h http.Header, body []byte) Message
	// Answers reports whether an event of a stream is the answer to a message.
	Answers(event []byte, m Message) bool
	// Lost is the answer to a message whose worker is gone. It may have run.
	Lost(m Message) []byte
}

// Message is what a request asks for.
type Message struct {
	ID     []byte // JSON; nil for what gets no answer
	Method string
	Tool   string // of a call
	Modern bool   // the revision of the protocol has no sessions
	Lasts  bool   // the answer is a stream that lasts
}
