package callback

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/store"
)

// TestTexts checks the published texts (L7, L9): the answers to set, list and cancel are
// the texts that agents know.
func TestTexts(t *testing.T) {
	clock := time.Now()
	b := opened(t, "", func(c *Config) { c.Now = func() time.Time { return clock } })
	var got strings.Builder
	say := func(text string) { got.WriteString(text + "\n---\n") }
	list := func() {
		all, err := b.List(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		say(Active(all, clock))
	}
	list()
	say(Scheduled(set(t, b, "check the build", 30*time.Second, 40)))
	say(Scheduled(set(t, b, "say \"hello\"\nin two lines", time.Hour, Forever)))
	clock = clock.Add(18 * time.Second)
	list()
	slot := 0
	gone, err := b.Cancel(t.Context(), "local", &slot)
	if err != nil {
		t.Fatal(err)
	}
	say(Cancelled(gone, true))
	set(t, b, "second", time.Second, 0)
	if gone, err = b.Cancel(t.Context(), "local", nil); err != nil {
		t.Fatal(err)
	}
	say(Cancelled(gone, false))
	if gone, err = b.Cancel(t.Context(), "local", nil); err != nil {
		t.Fatal(err)
	}
	say(Cancelled(gone, false))
	say(Told(Delivery{Slot: 3, Message: "look", Times: 1, Left: Forever}))
	say(Told(Delivery{Slot: 3, Message: "look", Times: 4, Left: 2}))
	say(Told(Delivery{Slot: 3, Message: "look", Times: 1}))
	golden.Equal(t, "texts.golden", got.String())
}

// TestBadRequests checks that a request that cannot be granted is refused with a reason,
// and changes nothing.
func TestBadRequests(t *testing.T) {
	b := opened(t, "", nil)
	for i := range Slots {
		set(t, b, fmt.Sprint("m", i), time.Minute, 0)
	}
	before, err := b.List(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	nine, three := 9, 3
	var got strings.Builder
	for _, tt := range []struct {
		name string
		r    Request
	}{
		{"9th slot", Request{Message: "m", Delay: time.Minute}},
		{"3,000 characters", Request{Message: strings.Repeat("ä", 3000), Delay: time.Minute}},
		{"empty", Request{Message: " \n", Delay: time.Minute}},
		{"not UTF-8", Request{Message: "\xff", Delay: time.Minute}},
		{"no delay", Request{Message: "m"}},
		{"too late", Request{Message: "m", Delay: 3601 * time.Second}},
		{"less than no repeat", Request{Message: "m", Delay: time.Minute, Repeat: -2}},
		{"a slot that is none", Request{Message: "m", Delay: time.Minute, Slot: &nine}},
		{"a slot in use", Request{Message: "m", Delay: time.Minute, Slot: &three}},
	} {
		_, err := b.Set(t.Context(), me, tt.r)
		fmt.Fprintf(&got, "%s: %v\n", tt.name, err)
		if err == nil {
			t.Errorf("%s was set", tt.name)
		}
	}
	_, err = b.Cancel(t.Context(), "local", &nine)
	fmt.Fprintf(&got, "cancel a slot that is none: %v\n", err)
	_, err = b.Cancel(t.Context(), "other", &three)
	fmt.Fprintf(&got, "cancel another tenant's: %v\n", err)
	if !errors.Is(err, ErrEmpty) {
		t.Errorf("cancel of another tenant's callback: got %v, want %v", err, ErrEmpty)
	}
	golden.Equal(t, "bad.golden", got.String())
	after, err := b.List(t.Context(), "local")
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("after bad requests: got %v, %v, want %v", after, err, before)
	}
	if _, err := b.Set(t.Context(), store.Owner{Tenant: "other"}, Request{Message: strings.Repeat("ä", MaxMessage), Delay: MaxDelay, Repeat: Forever}); err != nil {
		t.Errorf("the longest message, in the slots of another tenant: %v", err)
	}
}

// running starts a Book in a bubble of synctest. The Book fires callbacks until stop is
// called.
func running(t *testing.T, idle func(string) bool) (b *Book, stop func()) {
	t.Helper()
	s := store.New("")
	b = New(Config{Config: store.Config{Store: s, Place: place}})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx, idle) })
	return b, func() {
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// after waits for a duration, and returns the deliveries that can be taken then.
func after(t *testing.T, b *Book, d time.Duration) string {
	t.Helper()
	wait := time.NewTimer(d)
	<-wait.C
	synctest.Wait()
	all, err := tell(t, b, "local", "s-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return messages(all)
}

func TestFiresAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := running(t, always)
		defer stop()
		set(t, b, "m", 30*time.Second, 3)
		for i, want := range []string{"0 m x1 left 2\n", "0 m x1 left 1\n", "0 m x1 left 0\n", ""} {
			if got := after(t, b, 31*time.Second); got != want {
				t.Errorf("after %d times its delay: got %q, want %q", i+1, got, want)
			}
		}
		if all, err := b.List(t.Context(), "local"); err != nil || len(all) != 0 {
			t.Errorf("after the last time: got %v, %v, want no callback", all, err)
		}
	})
}

// TestUntakenCountsUp checks that a callback that fires again before its delivery is taken
// has one delivery with a higher count.
func TestUntakenCountsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := running(t, always)
		defer stop()
		set(t, b, "m", 10*time.Second, Forever)
		if got, want := after(t, b, 45*time.Second), "0 m x4 left -1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestFiresOnlyWhenIdle checks that repetitions that were missed while the tenant was busy
// are not repeated later, and that callbacks that became due together fire one per second.
func TestFiresOnlyWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy := true
		b, stop := running(t, func(string) bool { mu.Lock(); defer mu.Unlock(); return !busy })
		defer stop()
		set(t, b, "a", 5*time.Second, 10)
		set(t, b, "b", 5*time.Second, 10)
		if got := after(t, b, time.Minute); got != "" {
			t.Errorf("while busy: got %q, want nothing", got)
		}
		mu.Lock()
		busy = false
		mu.Unlock()
		for _, want := range []string{"0 a x1 left 9\n", "1 b x1 left 9\n", "", ""} {
			if got := after(t, b, time.Second); got != want {
				t.Errorf("second by second: got %q, want %q", got, want)
			}
		}
		if got, want := after(t, b, 5*time.Second), "0 a x1 left 8\n1 b x1 left 8\n"; got != want {
			t.Errorf("a delay later: got %q, want %q", got, want)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, stop := running(t, always)
		defer stop()
		set(t, b, "m", 20*time.Second, 1)
		began := time.Now()
		got, err := b.Wait(t.Context(), me, nil, time.Minute)
		if took := time.Since(began).Round(time.Second); err != nil || messages(got) != "0 m x1 left 0\n" || took > 22*time.Second {
			t.Errorf("got %q, %v after %v, want the message after 20 s", messages(got), err, took)
		}
		began = time.Now()
		got, err = b.Wait(t.Context(), me, nil, time.Minute)
		if took := time.Since(began); err != nil || len(got) != 0 || took != time.Minute {
			t.Errorf("got %q, %v after %v, want nothing after a minute", messages(got), err, took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = b.Wait(ctx, me, nil, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: got %v, want %v", err, context.Canceled)
		}
	})
}

// TestTheClockGoesBack checks that no callback waits longer than its delay if the clock is
// set back.
func TestTheClockGoesBack(t *testing.T) {
	clock := time.Now()
	b := opened(t, "", func(c *Config) { c.Now = func() time.Time { return clock } })
	set(t, b, "m", 10*time.Second, 1)
	clock = clock.Add(-24 * time.Hour)
	if err := b.Tick(t.Context(), always); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(lookAgain + time.Second)
	if err := b.Tick(t.Context(), always); err != nil {
		t.Fatal(err)
	}
	if got, err := tell(t, b, "local", "s", nil); err != nil || len(got) != 1 {
		t.Errorf("got %q, %v, want the message", messages(got), err)
	}
}

// TestWhoIsTold checks that tenants and places get only their own callbacks, and that a
// session that is still open gets the callbacks that it set.
func TestWhoIsTold(t *testing.T) {
	clock := time.Now()
	s := store.New(filepath.Join(t.TempDir(), "st"))
	defer s.Close()
	books := make([]*Book, 2)
	for i, at := range []string{place, "/elsewhere"} {
		books[i] = New(Config{Config: store.Config{Store: s, Place: at, Now: func() time.Time { return clock }}})
	}
	b := books[0]
	set(t, b, "m", time.Second, 1)
	clock = clock.Add(2 * time.Second)
	for _, b := range books {
		if err := b.Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	alive := true
	lives := func(session string) bool { return alive && session == "s-1" }
	for _, tt := range []struct {
		name, tenant, session string
		book                  *Book
		dead                  bool
		want                  int
	}{
		{name: "another tenant", tenant: "other", session: "s-1", book: b},
		{name: "another place", tenant: "local", session: "s-1", book: books[1]},
		{name: "another session", tenant: "local", session: "s-2", book: b},
		{name: "another session, its own is over", tenant: "local", session: "s-2", book: b, dead: true, want: 1},
		{name: "once more", tenant: "local", session: "s-1", book: b},
	} {
		alive = !tt.dead
		got, err := tell(t, tt.book, tt.tenant, tt.session, lives)
		if err != nil || len(got) != tt.want {
			t.Errorf("%s: got %q, %v, want %d", tt.name, messages(got), err, tt.want)
		}
	}
	if got, err := b.Fired(t.Context(), "local"); err != nil || len(got) != 1 || got[0].Told.IsZero() {
		t.Errorf("what has fired: got %v, %v, want the one that was taken", got, err)
	}
}

// TestNothingFiresAtTheBound checks that the number of deliveries that wait is bounded, and
// that no callback is lost at the bound.
func TestNothingFiresAtTheBound(t *testing.T) {
	clock := time.Now()
	b := opened(t, "", func(c *Config) { c.Now = func() time.Time { return clock } })
	for range maxPending {
		set(t, b, "m", time.Second, 1)
		clock = clock.Add(2 * time.Second)
		if err := b.Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	set(t, b, "last", time.Second, 1)
	for range 3 {
		clock = clock.Add(2 * time.Second)
		if err := b.Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := tell(t, b, "local", "s", nil); err != nil || len(got) != maxPending {
		t.Errorf("got %d, %v, want %d", len(got), err, maxPending)
	}
	clock = clock.Add(2 * time.Second)
	if err := b.Tick(t.Context(), always); err != nil {
		t.Fatal(err)
	}
	if got, err := tell(t, b, "local", "s", nil); err != nil || messages(got) != "0 last x1 left 0\n" {
		t.Errorf("got %q, %v, want the last", messages(got), err)
	}
	if got, err := b.Fired(t.Context(), "local"); err != nil || len(got) != keptTaken {
		t.Errorf("got %d deliveries that are remembered, %v, want %d", len(got), err, keptTaken)
	}
}

// TestPostedAgain checks that a delivery that could not be posted is posted by the process
// that takes over.
func TestPostedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "st")
	clock := time.Now()
	var posted []string
	fails := true
	change := func(c *Config) {
		c.Now = func() time.Time { return clock }
		c.Post = func(d Delivery) error {
			if fails {
				return errors.New("no")
			}
			posted = append(posted, d.Message)
			return nil
		}
	}
	b := opened(t, dir, change)
	set(t, b, "m", time.Second, 1)
	clock = clock.Add(2 * time.Second)
	if err := b.Tick(t.Context(), always); err != nil {
		t.Fatal(err)
	}
	fails = false
	for range 2 {
		if err := opened(t, dir, change).Tick(t.Context(), always); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(posted, []string{"m"}) {
		t.Errorf("got %q posted, want the message once", posted)
	}
}

func BenchmarkSet(b *testing.B) {
	s := store.New(filepath.Join(b.TempDir(), "st"))
	defer s.Close()
	book := New(Config{Config: store.Config{Store: s, Place: place}})
	for n := 0; b.Loop(); n++ {
		if _, err := book.Set(b.Context(), store.Owner{Tenant: fmt.Sprint(n / Slots)}, Request{Message: "m", Delay: time.Minute}); err != nil {
			b.Fatal(err)
		}
	}
}
