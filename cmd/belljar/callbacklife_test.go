package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

// pendingURI is the resource of callbacks.
const pendingURI = "callback://pending"

// callbackTold matches the message of a callback in a result, and how often the callback
// fired.
var callbackTold = regexp.MustCompile(`^\[callback [0-7]\] (\S+)(?: \(fired (\d+) times)?`)

// toldIn counts, by message, how often callbacks fired, as the texts report it.
func toldIn(texts []string, counts map[string]int) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			m := callbackTold.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			n, err := strconv.Atoi(m[2])
			if err != nil {
				n = 1
			}
			counts[m[1]] += n
		}
	}
}

// posted counts how often callbacks fired, by message, in the deliveries of an inbox.
func posted(t *testing.T, inbox string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(inbox, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, file := range files {
		var letter struct {
			Message string
			Times   int
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &letter)
		}
		if err != nil {
			t.Fatal(err)
		}
		counts[letter.Message] += letter.Times
	}
	return counts
}

// hooked counts the callbacks that hooks got, by message.
func hooked(t *testing.T, log string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(log, "callback-*"))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, file := range files {
		var event struct{ Message string }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &event)
		}
		if err != nil {
			t.Fatal(err)
		}
		counts[event.Message]++
	}
	return counts
}

// anHourPasses makes all callbacks of a state directory an hour older, as if no
// belljar had run meanwhile.
func anHourPasses(t *testing.T, state string) {
	t.Helper()
	db, err := sql.Open("sqlite", store.Path(state))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE callbacks_armed SET due = due - 3600000 WHERE message <> 'far'"); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits for callbacks until n of them were delivered in results.
func waitFor(t *testing.T, c client, counts map[string]int, n int) {
	t.Helper()
	told := func() (n int) {
		for _, times := range counts {
			n += times
		}
		return n
	}
	for told() < n {
		texts := c.texts(t, "SetCallback", map[string]any{"action": "wait", "wait_ms": 30000})
		toldIn(texts, counts)
		if strings.HasPrefix(texts[0], "No callback fired") {
			t.Errorf("nothing more fires after %v, want %d", counts, n)
			return
		}
	}
}

// TestCallbacksOutliveTheServer checks that a server that is killed forgets no callback. A
// callback that was due while no server ran is delivered once; such callbacks are delivered
// one after the other, never more than one in a second. A callback that is due later is
// delivered later. They are delivered with the next result or wait, to subscribers, in the
// inbox and to hooks.
func TestCallbacksOutliveTheServer(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		p := newPlace(t)
		log, inbox := tellers(t, p, "mine"), filepath.Join(p.dir, "inbox")
		p.flags = append(p.outside(t), "--inbox", inbox)
		s := p.start(t, w)
		c := s.connect(t, w, nil)
		for _, one := range []map[string]any{
			{"message": "once", "delay_seconds": 1800, "repeat_count": 1},
			{"message": "many", "delay_seconds": 60, "repeat_count": -1},
			{"message": "ten", "delay_seconds": 600, "repeat_count": 10},
			{"message": "far", "delay_seconds": 3600},
		} {
			c.all(t, "SetCallback", one)
		}
		s.kill()
		anHourPasses(t, p.state)

		s = p.start(t, w)
		var mu sync.Mutex
		updates := 0
		c = s.connect(t, w, &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
			mu.Lock()
			defer mu.Unlock()
			if r.Params.URI == pendingURI {
				updates++
			}
		}})
		c.subscriber.Subscribe(t, c.ClientSession, pendingURI)
		counts := make(map[string]int)
		toldIn(c.texts(t, "TaskManager", map[string]any{"action": "list"}), counts)
		if len(counts) > 1 {
			t.Errorf("the first result tells %v, want at most one callback", counts)
		}
		waitFor(t, c, counts, 3)
		c.all(t, "SetCallback", map[string]any{"message": "soon", "delay_seconds": 1, "repeat_count": 1})
		waitFor(t, c, counts, 4)
		want := map[string]int{"once": 1, "many": 1, "ten": 1, "soon": 1}
		if fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("told: %v, want %v", counts, want)
		}

		var read *sdk.ReadResourceResult
		var state struct {
			Pending []any
			Told    []struct{ Fired time.Time }
			Active  []struct {
				Message string
				Left    int
				DueMS   int64 `json:"due_ms"`
			}
		}
		// The last callback was delivered with another call. It is delivered again if its
		// client closed the connection before the server had sent the whole answer.
		for range 5 {
			c.texts(t, "TaskManager", map[string]any{"action": "list"})
			var err error
			if read, err = c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: pendingURI}); err != nil {
				t.Fatal(err)
			}
			state.Pending = nil
			if err := json.Unmarshal([]byte(read.Contents[0].Text), &state); err != nil {
				t.Fatal(err)
			}
			if len(state.Pending) == 0 {
				break
			}
		}
		left := make(map[string]int)
		for _, one := range state.Active {
			left[one.Message] = one.Left
			if one.DueMS <= 0 {
				t.Errorf("%s is due again at once", one.Message)
			}
		}
		if len(state.Pending) != 0 || fmt.Sprint(left) != fmt.Sprint(map[string]int{"many": -1, "ten": 9, "far": 20}) {
			t.Errorf("then there are %s", read.Contents[0].Text)
		}
		var fired []time.Time
		for _, one := range state.Told {
			fired = append(fired, one.Fired)
		}
		slices.SortFunc(fired, time.Time.Compare)
		for i := 1; i < len(fired); i++ {
			if apart := fired[i].Sub(fired[i-1]); apart < time.Second {
				t.Errorf("two fired within %v", apart)
			}
		}
		mu.Lock()
		if updates == 0 {
			t.Error("who subscribed was told of nothing")
		}
		mu.Unlock()
		c.Close()
		s.stop()
		if got := posted(t, inbox); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("in the inbox: %v, want %v", got, want)
		}
		if got := hooked(t, log); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("hooks were told %v, want %v", got, want)
		}
	})
}

// TestTwoServersShareCallbacks checks that two servers of one workspace and tenant share
// callbacks, and that exactly one of them delivers each message in a result, to the inbox
// and to hooks. A server that is killed leaves its callbacks to the other.
func TestTwoServersShareCallbacks(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	p := newPlace(t)
	log, inbox := tellers(t, p, "mine"), filepath.Join(p.dir, "inbox")
	p.flags = append(p.outside(t), "--inbox", inbox)
	servers := []*serving{p.start(t, wires[0]), p.start(t, wires[2])}
	clients := []client{servers[0].connect(t, wires[0], nil), servers[1].connect(t, wires[2], nil)}
	counts := []map[string]int{{}, {}}
	for i, c := range clients {
		for _, name := range []string{"a", "b"} {
			// On a busy machine, a callback may fire before the next one is set; then the
			// result of that call contains it.
			toldIn(c.texts(t, "SetCallback", map[string]any{"message": fmt.Sprint(name, i), "delay_seconds": 1, "repeat_count": 2}), counts[i])
		}
	}
	list := clients[1].texts(t, "SetCallback", map[string]any{"action": "list"})
	toldIn(list, counts[1])
	if got := strings.Join(list, "\n"); !strings.Contains(got, "Active callbacks (4/8):") {
		t.Errorf("the second server lists %q", got)
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { waitFor(t, c, counts[i], 4) })
	}
	wg.Wait()
	for i, want := range []map[string]int{{"a0": 2, "b0": 2}, {"a1": 2, "b1": 2}} {
		if fmt.Sprint(counts[i]) != fmt.Sprint(want) {
			t.Errorf("the agent of server %d is told %v, want %v", i, counts[i], want)
		}
	}

	clients[0].all(t, "SetCallback", map[string]any{"message": "left", "delay_seconds": 1, "repeat_count": 1})
	servers[0].kill()
	waitFor(t, clients[1], counts[1], 5)
	servers[1].stop()
	want := map[string]int{"a0": 2, "b0": 2, "a1": 2, "b1": 2, "left": 1}
	if got := hooked(t, log); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("hooks were told %v, want %v", got, want)
	}
	if got := posted(t, inbox); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in the inbox: %v, want %v", got, want)
	}
}
