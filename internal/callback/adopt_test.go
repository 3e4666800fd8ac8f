package callback

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestSeveralProcesses checks that a callback fires, and is delivered and posted, in the
// process that set it. When that process has ended, all this happens in exactly one of the
// other processes.
func TestSeveralProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	var mu sync.Mutex
	posted := make(map[string]int)
	dead := make(map[string]bool)
	process := func(self string) *Book {
		return opened(t, dir, func(c *Config) {
			c.Self = self
			c.Alive = func(other string) bool { mu.Lock(); defer mu.Unlock(); return !dead[other] }
			c.Now = func() time.Time { return clock }
			c.Post = func(d Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				if self == "1" && dead["3"] {
					return errors.New("killed before it posted")
				}
				posted[fmt.Sprint(d.Message, " x", d.Times, " by ", self)]++
				return nil
			}
		})
	}
	all := map[string]*Book{"1": process("1"), "2": process("2"), "3": process("3")}
	set(t, all["1"], "one", time.Second, 5)
	set(t, all["2"], "two", time.Second, 5)
	later := func(names ...string) {
		t.Helper()
		clock = clock.Add(2 * time.Second)
		for _, name := range names {
			if err := all[name].Tick(t.Context(), always); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(name, want string) {
		t.Helper()
		got, err := tell(t, all[name], "local", "s-"+name, nil)
		if err != nil || messages(got) != want {
			t.Errorf("%s takes %q, %v, want %q", name, messages(got), err, want)
		}
	}
	later("3", "2", "1")
	take("3", "")
	take("2", "1 two x1 left 4\n")
	take("1", "0 one x1 left 4\n")

	// Process 1 fires its callback again, and is killed before it has posted or delivered
	// it.
	dead["3"] = true
	later("1")
	dead["3"], dead["1"] = false, true
	clock = clock.Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	told := make(chan string, 100)
	for _, name := range []string{"2", "3"} {
		wg.Go(func() {
			for range 20 {
				if err := all[name].Tick(t.Context(), func(string) bool { return false }); err != nil {
					t.Error(err)
				}
				got, err := tell(t, all[name], "local", "s-"+name, nil)
				if err != nil {
					t.Error(err)
				}
				for _, d := range got {
					told <- fmt.Sprint(d.Message, " x", d.Times)
				}
			}
		})
	}
	wg.Wait()
	close(told)
	var texts []string
	for text := range told {
		texts = append(texts, text)
	}
	if len(texts) != 1 || texts[0] != "one x1" {
		t.Errorf("after the first was killed its delivery is told as %q, want once", texts)
	}
	if n := posted["one x1 by 2"] + posted["one x1 by 3"]; n != 1 || posted["one x1 by 1"] != 1 || posted["two x1 by 2"] != 1 {
		t.Errorf("posted: %v, want each once", posted)
	}
	// A callback of the ended process fires in the process that took it over, and in no
	// other.
	later("2", "3")
	later("2", "3") // a process with two due callbacks fires one of them each time
	n := 0
	for _, name := range []string{"2", "3"} {
		got, err := tell(t, all[name], "local", "s-"+name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range got {
			if d.Message == "one" {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("what the first had set is told by %d processes, want one", n)
	}
}
