package act

import (
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
	// Of a cut message what comes first was read, and that is the number.
	return head{m.ID, m.Method, m.SessionID, m.Params}, err == nil || m.ID >= firstID
}
