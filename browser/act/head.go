package act

import (
	"bytes"

	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// head is what decides where a message of Chrome goes.
type head struct {
	id      int64
	method  string
	session string
	params  []byte // not decoded
}

// headOf reads the head of a message, of a cut one as much as is there.
func headOf(text []byte) (h head, ok bool) {
	var m struct {
		ID        int64        `json:"id"`
		Method    string       `json:"method"`
		SessionID string       `json:"sessionId"`
		Params    jsonv2.Value `json:"params"`
	}
	err := jsonv2.Unmarshal(text, &m, jsonOptions)
	// The beginning of a cut message was read, and the number stands there.
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
