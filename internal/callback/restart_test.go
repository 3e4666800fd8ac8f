package callback

import (
	"path/filepath"
	"testing"
	"time"

	"belljar.dev/internal/store"
)

// TestARestartKeepsCallbacks checks that callbacks survive a restart. Callbacks that became
// due while no process ran fire once each, one per second.
func TestARestartKeepsCallbacks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	now := func(c *Config) { c.Now = func() time.Time { return clock } }
	first := store.New(dir)
	b := New(Config{Config: store.Config{Store: first, Place: place, Now: func() time.Time { return clock }}})
	for _, m := range []string{"a", "b", "c"} {
		set(t, b, m, 10*time.Second, 5)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	clock = clock.Add(time.Hour) // no process runs in this hour
	again := opened(t, dir, now)
	if all, err := again.List(t.Context(), "local"); err != nil || len(all) != 3 {
		t.Fatalf("after the restart: got %d callbacks, %v, want 3", len(all), err)
	}
	for _, want := range []string{"0 a x1 left 4\n", "1 b x1 left 4\n", "2 c x1 left 4\n", ""} {
		for range 2 { // the second call is within the same second
			if err := again.Tick(t.Context(), always); err != nil {
				t.Fatal(err)
			}
		}
		got, err := tell(t, again, "local", "s-2", nil)
		if err != nil || messages(got) != want {
			t.Errorf("got %q, %v, want %q", messages(got), err, want)
		}
		clock = clock.Add(time.Second)
	}
}
