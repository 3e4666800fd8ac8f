package console

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"belljar.dev/internal/control"
)

// A sample of a box contains the usage since the sample before. Their number is bounded,
// and the samples of a box that is gone are removed.
func TestUsage(t *testing.T) {
	var u usage
	now := time.Now()
	box := control.Box{ID: "s-1", Memory: 1 << 20}
	for i := range mostSamples + 10 {
		box.CPU += 2500 // 2500 ms of processor time in five seconds
		box.Network += 5000
		u.sample(now.Add(time.Duration(i)*sampleEvery), []control.Box{box, {ID: fmt.Sprint(i)}})
	}
	all := u.stats([]control.Box{box, {ID: "new", Memory: 7}})
	if len(all) != 2 || len(u.boxes) != 2 {
		t.Fatalf("%d boxes, %d are kept", len(all), len(u.boxes))
	}
	one := all[0]
	if len(one.Memory) != mostSamples || len(one.CPU) != mostSamples || len(one.Network) != mostSamples {
		t.Errorf("%d samples, want %d", len(one.Memory), mostSamples)
	}
	if slices.Min(one.CPU) != 50 || slices.Max(one.CPU) != 50 || slices.Max(one.Network) != 1000 || one.Memory[0] != 1<<20 {
		t.Errorf("got %+v", one)
	}
	if all[1].Memory[0] != 7 {
		t.Errorf("a box without a sample: %+v", all[1])
	}
	u.sample(now.Add(time.Hour), []control.Box{{ID: "s-1", CPU: 1}}) // another box with the same id
	if got := u.stats([]control.Box{box})[0]; len(got.CPU) != 1 || got.CPU[0] != 0 {
		t.Errorf("a new box of the same id: %+v", got)
	}
}

// Samples are taken only while a person is logged in.
func TestUsageIsSampledForPeople(t *testing.T) {
	g := start(t, full)
	if g.access.anybody() {
		t.Error("somebody is logged in")
	}
	token := g.login(Viewer)
	var is struct {
		Boxes []boxStats
		Every float64
	}
	g.send("GET", "api/v1/stats", token, nil).into(t, &is)
	if len(is.Boxes) != 1 || is.Boxes[0].Memory[0] != 7 || is.Every != 5 || !g.access.anybody() {
		t.Errorf("got %+v", is)
	}
	g.send("POST", "api/v1/logout", token, nil)
	if g.access.anybody() {
		t.Error("somebody is logged in after the logout")
	}
}
