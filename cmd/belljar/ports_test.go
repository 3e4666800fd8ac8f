package main

import (
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// TestBoxIsAmbiguous checks what `ports open --box` reports if two boxes have ids that
// begin alike.
func TestBoxIsAmbiguous(t *testing.T) {
	boxes := []control.Box{{Server: 1, ID: "s-ABCDEFGHIJ"}, {Server: 2, ID: "s-ABCDEFGHIJ"}}
	if got, err := choose(boxes, "s-ABCDEFGHIJKLMN", 80); err == nil || !strings.Contains(err.Error(), `2 boxes have ids that begin with "s-ABCDEFGHIJ"`) {
		t.Errorf("got %+v, %v", got, err)
	}
}
