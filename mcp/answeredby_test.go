package mcp

import "testing"

// AnsweredBy reads an event as far as it is complete, wherever it is cut off: a front has
// only the first part of a large event.
func TestAnsweredByAPart(t *testing.T) {
	const event = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"res\\u0075lt\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\\\b\\n\\\"c\\\"\"}]}}"
	const known = len("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,")
	a := Forwarded{ID: []byte("7"), Method: "tools/call"}
	for n := range len(event) + 1 {
		whole := append(make([]byte, 0, n), event[:n]...) // with no bytes after the event
		if got := a.AnsweredBy(whole); got != (n >= known-1) {
			t.Errorf("%q: answered %t", whole, got)
		}
	}
	if a.AnsweredBy([]byte(`data: {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`)) {
		t.Error("a request of the server is taken for the answer")
	}
}
