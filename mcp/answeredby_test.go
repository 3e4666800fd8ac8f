package mcp

import "testing"

// An event that is cut anywhere, as a front has the first part of a large one, is read as far
// as it goes.
func TestAnsweredByAPart(t *testing.T) {
	const event = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"res\\u0075lt\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\\\b\\n\\\"c\\\"\"}]}}"
	const known = len("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,")
	a := Forwarded{ID: []byte("7"), Method: "tools/call"}
	for n := range len(event) + 1 {
		whole := append(make([]byte, 0, n), event[:n]...) // nothing behind it
		if got := a.AnsweredBy(whole); got != (n >= known-1) {
			t.Errorf("%q: answered %t", whole, got)
		}
	}
	if a.AnsweredBy([]byte(`data: {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}`)) {
		t.Error("a request of the server is taken for the answer")
	}
}
