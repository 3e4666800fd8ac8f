package act_test

import (
	"bytes"
	"image/jpeg"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestShow checks that a person sees what a seat shows, and that this does not change the
// agent's work: no Chrome is started, and no step can name a point of a picture that the
// agent has not seen.
func TestShow(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>0</title><body style="margin:0;background:#f00" onclick="document.title=1"><div style="height:3000px">`)
	unknown := func(what, id string) {
		t.Helper()
		if _, err := s.seats.Show(s.ctx(), id); act.ReasonOf(err) != act.ReasonUnknown {
			t.Errorf("%s: %v", what, err)
		}
	}
	show := func(id string) {
		t.Helper()
		k, err := s.seats.Show(s.ctx(), id)
		if err != nil {
			t.Fatal(err, cause(err))
		}
		img, err := jpeg.Decode(bytes.NewReader(k.Picture))
		if err != nil {
			t.Fatal(err)
		}
		if r, g, _, _ := img.At(200, 200).RGBA(); r < 0xe000 || g > 0x2000 {
			t.Errorf("the picture of %s is of something else", k.URL)
		}
	}
	unknown("before the first call", "")
	s.goTo(s.url("site", "/"))
	id := s.seats.List()[0].ID
	unknown("another name", "nosuch")
	show(id)
	point := act.Step{Do: act.DoClick, XY: &act.Point{X: 20, Y: 20}}
	if _, err := s.do(point); act.ReasonOf(err) != act.ReasonStale {
		t.Errorf("a point of the person's picture: %v", err)
	}
	if _, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture}); err != nil {
		t.Fatal(err)
	}
	s.must(act.Step{Do: act.DoScroll, Text: "down"})
	show(id)
	if _, err := s.do(point); act.ReasonOf(err) != act.ReasonStale {
		t.Errorf("a point of the agent's picture, after a scroll that only the person has seen: %v", err)
	}
	if got := s.eval("document.title"); got != `"0"` {
		t.Errorf("the page was clicked: %s", got)
	}
	s.seat.Kill()
	if !testenv.Until(20*time.Second, func() bool { _, err := s.seats.Show(s.ctx(), id); return act.ReasonOf(err) == act.ReasonUnknown }) {
		t.Error("a browser that has died is shown")
	}
	if got := len(s.seats.List()); got != 1 {
		t.Errorf("%d seats", got)
	}
	_ = s.seat.Close()
	unknown("after its end", id)
}
