package callback

import (
	"path/filepath"
	"testing"
	"time"
)

// TestToldAgainUntilItArrived checks that no other caller gets a delivery that was taken.
// The delivery waits again if it may be lost, and is not repeated after it arrived. A
// callback that fires meanwhile has a further delivery, and each firing is counted once. A
// process that has ended has delivered nothing.
func TestToldAgainUntilItArrived(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	dead := false
	process := func(self string) *Book {
		return opened(t, dir, func(c *Config) {
			c.Self, c.Now, c.Alive = self, func() time.Time { return clock }, func(string) bool { return !dead }
		})
	}
	b := process("1")
	set(t, b, "m", time.Second, 10)
	fire := func() {
		t.Helper()
		clock = clock.Add(2 * time.Second)
		if err := b.Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	take := func(want string) []Delivery {
		t.Helper()
		all, err := b.Take(t.Context(), me, nil)
		if err != nil || messages(all) != want {
			t.Errorf("got %q, %v, want %q", messages(all), err, want)
		}
		return all
	}
	told := func(all []Delivery, want int) {
		t.Helper()
		if err := b.Told(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		n, got := 0, 0
		fired, err := b.Fired(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range fired {
			if !d.Told.IsZero() {
				n, got = n+1, got+d.Times
			}
		}
		if got != want {
			t.Errorf("%d deliveries are told, %d times, want %d times", n, got, want)
		}
	}
	fire()
	first := take("0 m x1 left 9\n")
	take("")
	b.Untold(first)
	fire()
	again := take("0 m x2 left 8\n")
	fire()
	take("") // nothing more until it is known whether the delivery with two firings arrived
	told(again, 2)
	last := take("0 m x1 left 7\n")
	told(last, 3)
	take("")

	fire()
	lost := take("0 m x1 left 6\n")
	dead = true
	b = process("2")
	if err := b.Tick(t.Context(), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	told(take("0 m x1 left 6\n"), 4)
	if len(lost) != 1 {
		t.Errorf("got %d, want 1", len(lost))
	}
}

// TestManyTellers checks that each delivery is given to only one of several callers that
// take at the same time, and also after it was returned with Untold.
func TestManyTellers(t *testing.T) {
	clock := time.Now()
	b := opened(t, "", func(c *Config) { c.Now = func() time.Time { return clock } })
	for range Slots {
		set(t, b, "m", time.Second, 1)
	}
	for range Slots {
		clock = clock.Add(2 * time.Second)
		if err := b.Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		got := make(chan []Delivery, 8)
		for range cap(got) {
			go func() {
				b.remember() // like a callback that fires meanwhile
				all, err := b.Take(t.Context(), me, nil)
				if err != nil {
					t.Error(err)
				}
				got <- all
			}()
		}
		var all []Delivery
		for range cap(got) {
			all = append(all, <-got...)
		}
		if len(all) != Slots {
			t.Fatalf("round %d: %d deliveries were given, want %d", round, len(all), Slots)
		}
		b.Untold(all)
	}
}
