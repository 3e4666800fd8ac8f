package fleet

import "net/http"

// Protocol interprets the messages that a front forwards.
type Protocol interface {
	// Read returns the message in a request.
	Read(h http.Header, body []byte) Message
	// Answers reports whether an event of a stream is the answer to a message.
	Answers(event []byte, m Message) bool
	// Lost returns the answer to a message whose worker is lost. The message may have run.
	Lost(m Message) []byte
}

// Message describes the message in a request.
type Message struct {
	ID     []byte // id in JSON; nil if the message gets no answer
	Method string
	Tool   string // name of the tool that is called
	Modern bool   // whether the revision of the protocol has no sessions
	Lasts  bool   // whether the answer is a stream that lasts
}
