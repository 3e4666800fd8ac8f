package act

import (
	"bytes"

	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// head contains the parts of a message of Chrome that decide where the message goes.
type head struct {
	id      int64
	method  string
	session string
	params  []byte // JSON that is not decoded
}

// headOf reads the head of a message. If the message was cut, it reads as much as there is.
func headOf(text []byte) (h head, ok bool) {
	var m struct {
		ID        int64        `json:"id"`
		Method    string       `json:"method"`
		SessionID string       `json:"sessionId"`
		Params    jsonv2.Value `json:"params"`
	}
	err := jsonv2.Unmarshal(text, &m, jsonOptions)
	// A cut message is not valid, but its number is at the beginning and was read.
	return head{m.ID, m.Method, m.SessionID, m.Params}, err == nil || m.ID >= firstID
}

// glance returns the method and the session of an event without decoding it: Chrome
// writes the method at the beginning, and the session at the end.
func glance(text []byte) (method, session string, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"method":"`))
	if !ok {
		return "", "", false
	}
	name, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return "", "", false
	}
	tail := rest[max(0, len(rest)-80):]
	if _, after, there := bytes.Cut(tail, []byte(`"sessionId":"`)); there {
		id, _, _ := bytes.Cut(after, []byte(`"`))
		session = string(id)
	}
	return string(name), session, true
}
