package mcp_test

import (
	"strings"
	"testing"
)

// W9, W10, C7: TestHandshake checks the handshake of every revision that has one,
// 2024-11-05 first.
func TestHandshake(t *testing.T) {
	for _, tt := range []struct{ ask, get string }{
		{"2024-11-05", "2024-11-05"},
		{"2025-03-26", "2025-03-26"},
		{"2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-11-25"},
		{"2026-07-28", "2025-11-25"}, // this revision has no initialize
		{"9999-01-01", "2025-11-25"},
		{"", "2025-11-25"},
	} {
		t.Run("revision "+tt.ask, func(t *testing.T) {
			c := newToy(t).connect(t)
			if a := c.greet(tt.ask); !strings.Contains(a.raw, `"protocolVersion":"`+tt.get+`"`) {
				t.Errorf("initialize %s answered %s, want revision %s", tt.ask, a.raw, tt.get)
			}
			c.send(call("1", "echo", `{"text":"hi"}`))
			if a := c.next(); a.text() != "hi" {
				t.Errorf("echo answered %s", a.raw)
			}
		})
	}
}
