package callback

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const place = "/project"

// opened returns a book over a store that is closed when the test ends.
func opened(t *testing.T, dir string, change func(*Config)) *Book {
	t.Helper()
	s := store.New(dir)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	cfg := Config{Config: store.Config{Store: s, Place: place}}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// me is the owner of the callbacks in most tests.
var me = store.Owner{Tenant: "local", Session: "s-1"}

func always(string) bool { return true }

func set(t *testing.T, b *Book, message string, delay time.Duration, repeat int) Callback {
	t.Helper()
	c, err := b.Set(t.Context(), me, Request{Message: message, Delay: delay, Repeat: repeat})
	if err != nil {
		t.Fatalf("set %q: %v", message, err)
	}
	return c
}

// messages returns deliveries as text, one on each line.
func messages(all []Delivery) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%d %s x%d left %d\n", d.Slot, d.Message, d.Times, d.Left)
	}
	return b.String()
}

// tell takes the deliveries that wait, and reports them as told.
func tell(t *testing.T, b *Book, tenant, session string, alive func(string) bool) ([]Delivery, error) {
	t.Helper()
	all, err := b.Take(t.Context(), store.Owner{Tenant: tenant, Session: session}, alive)
	if err == nil && len(all) > 0 {
		err = b.Told(t.Context(), all)
	}
	return all, err
}
