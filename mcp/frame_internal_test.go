package mcp

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/mcp/wire"
)

// If making an answer fails or panics, the answer becomes an error with the id of its
// request.
func TestFramed(t *testing.T) {
	for name, tt := range map[string]struct {
		build func() ([]byte, error)
		want  string
		bad   bool
	}{
		"a line":  {func() ([]byte, error) { return []byte("{}"), nil }, "{}", false},
		"error":   {func() ([]byte, error) { return []byte("{}"), errors.New("no") }, `"id":7,"error":{"code":-32603,"message":"no"`, true},
		"a panic": {func() ([]byte, error) { panic("no") }, `"id":7,"error":{"code":-32603,"message":"internal error in tools/list`, true},
	} {
		m := &wire.Message{ID: []byte("7"), Method: "tools/list"}
		frame, bad := framed(slog.New(slog.DiscardHandler), m, nil, m.Method, "", tt.build)
		if !strings.Contains(string(frame), tt.want) || (bad != nil) != tt.bad {
			t.Errorf("%s: got %s and %v, want %s", name, frame, bad, tt.want)
		}
	}
}
