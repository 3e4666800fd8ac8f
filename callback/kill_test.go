package callback

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/state"
)

// TestKilledWhileWriting kills 200 writers in the middle of their work. What one
// was told is set must be there.
func TestKilledWhileWriting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	kills := 200
	if testing.Short() {
		kills = 20
	}
	kills = max(kills/int(testenv.Patience(t)), 4)
	var mu sync.Mutex
	kept := make(map[string]bool)
	var wg sync.WaitGroup
	const writers = 4
	for w := range writers {
		wg.Go(func() {
			for i := w; i < kills; i += writers {
				for _, id := range killed(t, dir, 1+i%7) {
					mu.Lock()
					kept[id] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()

	s := state.New(dir)
	defer s.Close()
	found := 0
	err := s.Tables(schema).Read(t.Context(), func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "SELECT id FROM callbacks_armed WHERE message = 'again' AND left = 3")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			delete(kept, id)
			found++
		}
		return rows.Err()
	})
	if err != nil || len(kept) > 0 {
		t.Errorf("after %d kills: %d callbacks are lost that were said to be set, %v", kills, len(kept), err)
	}
	t.Logf("%d kills, %d callbacks there, %d lost", kills, found, len(kept))
}

// killed is what a writer said before it was killed, at the latest at its n-th
// word.
func killed(t *testing.T, dir string, n int) (said []string) {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "CALLBACK_TEST_WRITER="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "error") {
			t.Errorf("a writer stopped: %s", lines.Text())
			break
		}
		said = append(said, lines.Text())
		if len(said) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	return said
}

// TestARestartKeepsCallbacks: what was set is there in the next program, and
// what was due meanwhile fires once, one a second, and not all at once.
func TestARestartKeepsCallbacks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	now := func(c *Config) { c.Now = func() time.Time { return clock } }
	first := state.New(dir)
	b, err := New(Config{Store: first, Place: place, Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"a", "b", "c"} {
		set(t, b, m, 10*time.Second, 5)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	clock = clock.Add(time.Hour) // nobody was there
	again := opened(t, dir, now)
	if all, err := again.List(t.Context(), "local"); err != nil || len(all) != 3 {
		t.Fatalf("after the restart: got %d callbacks, %v, want 3", len(all), err)
	}
	for _, want := range []string{"0 a x1 left 4\n", "1 b x1 left 4\n", "2 c x1 left 4\n", ""} {
		for range 2 { // the second within the same second
			if err := again.Tick(t.Context(), always); err != nil {
				t.Fatal(err)
			}
		}
		got, err := again.Take(t.Context(), "local", "s-2", nil)
		if err != nil || messages(got) != want {
			t.Errorf("got %q, %v, want %q", messages(got), err, want)
		}
		clock = clock.Add(time.Second)
	}
}
