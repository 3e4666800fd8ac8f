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
	// The port decides between ids as they are shown. A whole id may be that of the other box.
	boxes[1].Listening = []uint16{80}
	if got, err := choose(boxes, "s-ABCDEFGHIJ", 80); err != nil || got.Server != 2 {
		t.Errorf("the id as it is shown: got %+v, %v", got, err)
	}
	if got, err := choose(boxes, "s-ABCDEFGHIJKLMN", 80); err == nil {
		t.Errorf("the whole id: got %+v", got)
	}
	boxes[0].Listening = []uint16{80}
	if got, err := choose(boxes, "s-ABCDEFGHIJ", 80); err == nil || strings.Contains(err.Error(), "--box") {
		t.Errorf("both have the port: got %+v, %v", got, err)
	}
}
