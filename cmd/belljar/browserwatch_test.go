package main

import (
	"bytes"
	"encoding/json"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// watchesAndStops makes a person watch the browser of a place's agent and stop the agent,
// which tries a step meanwhile (BR42).
func watchesAndStops(t *testing.T, p *place, step func() string) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		out, err := p.run(t, append([]string{"browser"}, args...)...)
		if err != nil {
			t.Fatalf("browser %v: %v: %s", args, err, out)
		}
		return out
	}
	list := func() control.Browser {
		t.Helper()
		var all []control.Browser
		if err := json.Unmarshal([]byte(run("list", "--json")), &all); err != nil || len(all) != 1 {
			t.Fatalf("the browsers are %+v, %v", all, err)
		}
		return all[0]
	}
	b := list()
	if b.State != "live" || b.Tabs != 1 || b.Profile != "shop" || b.HeldBy != "" {
		t.Errorf("the browser is %+v", b)
	}
	if ps := strings.Join(strings.Fields(run("ps")), " "); !strings.Contains(ps, b.ID+" agent ") {
		t.Errorf("the boxes of Chromes are\n%s", ps)
	}
	file := filepath.Join(p.dir, "shown.jpg")
	if err := os.WriteFile(file, []byte("of before"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("watch", b.ID, "--to", file, "--once")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if img, err := jpeg.DecodeConfig(bytes.NewReader(data)); err != nil || img.Width != 1280 || img.Height != 800 {
		t.Errorf("the picture has %d x %d pixels, %v", img.Width, img.Height, err)
	}
	run("hold", b.ID)
	if b := list(); b.HeldBy == "" || b.HeldSince.IsZero() {
		t.Errorf("the browser that is held is %+v", b)
	}
	if got := step(); !strings.Contains(got, "a person has stopped all acts in this browser") || !strings.Contains(got, "nothing was done") {
		t.Errorf("a step while a person has stopped the agent: %s", got)
	}
	run("release", b.ID)
	if b := list(); b.HeldBy != "" || !b.HeldSince.IsZero() {
		t.Errorf("the browser that was released is %+v", b)
	}
	if out, err := p.run(t, "browser", "hold", "seat-99"); err == nil || !strings.Contains(out, "belljar browser list") {
		t.Errorf("an unknown browser: %v: %s", err, out)
	}
	if log := run("list"); !strings.Contains(log, b.ID) {
		t.Errorf("the list is\n%s", log)
	}
}
