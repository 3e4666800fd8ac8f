package console

import (
	"slices"
	"strings"
	"testing"
)

// Definitions that wait are in the inbox with their lines, and a decision names their
// version.
func TestPins(t *testing.T) {
	o := &others{pins: []Pin{
		{Upstream: "files", Tenant: "a", Name: "tool read", What: "changed", Diff: "@@ tool\n-old\n+new\x1b[2J\n same\n", Version: "v1"},
		{Upstream: "files", Name: "tool large", What: "new", Diff: strings.Repeat("+x\n", MaxPinLines+1), Version: "v2"},
	}}
	g := start(t, func(_ *rig, v *Views) { v.Upstreams = o })
	token := g.login(Operator)
	var in inbox
	g.send("GET", "api/v1/inbox", token, nil).into(t, &in)
	want := []diffLine{{"@", "@ tool"}, {"-", "old"}, {"+", `new\x1b[2J`}, {" ", "same"}}
	if len(in.Pins) != 2 || !slices.Equal(in.Pins[0].Lines, want) || in.Pins[0].Cut || in.Pins[0].Version != "v1" || in.Pins[0].Command != "belljar upstream approve files" {
		t.Errorf("got %+v", in.Pins)
	}
	if p := in.Pins[1]; !p.Cut || len(p.Lines) != MaxPinLines {
		t.Errorf("a large one: %d lines, cut: %v", len(p.Lines), p.Cut)
	}
	for _, tt := range []struct {
		path string
		body any
		want int
	}{
		{"files/pins", map[string]any{"approve": true}, 400},
		{"files/pins", map[string]any{"approve": true, "version": "v0"}, 409},
		{"files/pins", map[string]any{"approve": true, "version": "v1", "name": "tool read"}, 200},
		{"files/restart", struct{}{}, 200},
		{"nosuch/restart", struct{}{}, 404},
	} {
		if got := g.send("POST", "api/v1/upstreams/"+tt.path, token, tt.body); got.status != tt.want {
			t.Errorf("%s %v: got %d %s, want %d", tt.path, tt.body, got.status, got.body, tt.want)
		}
	}
	if want := []string{"files true by ann (uid 7)", "restart by ann (uid 7)"}; !slices.Equal(o.said, want) {
		t.Errorf("got %q, want %q", o.said, want)
	}
}
