package login

import (
	"errors"
	"testing"

	"belljar.dev/mcp/upstream/peer"
)

// If a connection to a server needs a login, its error names the command to run, in each
// transport.
func TestPeerGetsTheError(t *testing.T) {
	for what, transport := range map[string]peer.HTTP{
		"Streamable HTTP": {},
		"HTTP+SSE":        {SSE: true},
	} {
		w := newWorld()
		transport.URL, transport.Client = serverURL, w.source(t, openBook(t, "", newClock())).HTTPClient()
		c, err := peer.Open(t.Context(), transport, peer.Config{})
		if err == nil {
			c.Close()
		}
		wantsLogin(t, err)
		if needed, ok := errors.AsType[*NeededError](err); !ok || len(needed.Challenge) != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
