package durable

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

// writers is the number of writers of one room that run at the same time, because several
// processes share the data.
const writers = 3

// killsEnv is the environment variable with the number of writers that are killed for each
// room. The default is 60, and fewer on a slow machine. A slow room has a tenth of that.
const killsEnv = "BELLJAR_TEST_WRITERS"

// TestKill kills writers of each room in the middle of their work. Each step that a writer
// reported as acknowledged must be in the store.
func TestKill(t *testing.T) {
	kills := max(60/int(testenv.Patience(t)), 4)
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil || kills < 4 {
			t.Fatalf("%s is %q, want a number of at least 4", killsEnv, text)
		}
	}
	for name, r := range rooms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, writers, kills := t.TempDir(), writers, kills
			if r.slow {
				testenv.Need(t, testenv.UserNamespaces)
				writers, kills = 1, max(kills/10, 4)
			}
			var said []string
			twice := make(map[string]bool)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := w; i < kills; i += writers {
						steps := killed(t, dir, name, 1+i%7)
						mu.Lock()
						for _, step := range steps {
							if twice[step] {
								t.Errorf("%q was acknowledged twice: an id was given again", step)
							}
							twice[step] = true
						}
						said = append(said, steps...)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			at := place{store: store.New(filepath.Join(dir, "state")), dir: dir}
			defer at.store.Close()
			lost, err := r.missing(t.Context(), at, said)
			if err != nil || len(lost) > 0 {
				t.Errorf("%d of %d steps were acknowledged and are lost, %v: %q", len(lost), len(said), err, lost[:min(len(lost), 10)])
			}
			if err := sound(t.Context(), at); err != nil {
				t.Error(err)
			}
			if len(said) < kills {
				t.Errorf("only %d steps were acknowledged", len(said))
			}
			t.Logf("%d kills, %d steps acknowledged, %d lost", kills, len(said), len(lost))
		})
	}
}

// killed starts a writer, and kills it when it has reported n steps. It returns the steps
// that the writer reported, which may be more.
func killed(t *testing.T, dir, room string, n int) (said []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), dirEnv+"="+dir, roomEnv+"="+room)
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
		step, ok := strings.CutPrefix(lines.Text(), "said "+room+" ")
		if !ok {
			t.Errorf("the writer says %q", lines.Text())
			continue
		}
		if said = append(said, step); len(said) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // the error says that the process was killed
	return said
}
