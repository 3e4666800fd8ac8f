package audit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Follow sees each record once, in order, whatever is rotated meanwhile.
func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Rotate = 8 << 10
	fill(t, cfg, 5)
	last := verify(t, dir).Last
	l := begin(t, cfg)
	done := errors.New("all were seen")
	const records = 120
	followed := make(chan error, 1)
	next := last
	go func() {
		n := 0
		followed <- Follow(t.Context(), dir, last, Filter{}, func(e Entry) error {
			if next++; e.Seq != next {
				return fmt.Errorf("got record %d, want %d", e.Seq, next)
			}
			if e.Kind == KindDecision {
				n++
			}
			if n == records {
				return done
			}
			return nil
		})
	}()
	for i := range records {
		if err := l.Write(t.Context(), decision(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-followed; !errors.Is(err, done) {
		t.Error(err)
	}
	finish(t, l)
	// A log that no process writes to is followed until the context ends.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Follow(ctx, dir, 0, Filter{}, func(Entry) error { return done }); err != nil {
		t.Error(err)
	}
}

func TestFilter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := begin(t, config(dir))
	denied := decision(1)
	denied.Verdict, denied.Tool, denied.Session = "deny", "WebSearch", "s-2"
	for _, r := range []Record{
		decision(0),
		Outcome{CallID: "c-0", Session: "s-1", Tool: "Bash"},
		denied,
		Egress{Box: "s-1", Host: "a.example", Verdict: "deny"},
		Approval{ID: "ap-1", Session: "s-2", Event: "asked"},
		PolicyChange{Event: "read", File: "p.yaml"},
		Session{Event: "start", Session: "s-1"},
		Server{Event: "start"},
	} {
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, l)
	now := time.Now()
	for _, tt := range []struct {
		f    Filter
		want int
	}{
		{Filter{}, 11},
		{Filter{Session: "s-1"}, 4},
		{Filter{Session: "s-2"}, 2},
		{Filter{Tool: "Bash"}, 2},
		{Filter{Verdict: "allow"}, 2},
		{Filter{Verdict: "deny"}, 2},
		{Filter{Verdict: "deny", Calls: true}, 1},
		{Filter{Kind: KindEgress}, 1},
		{Filter{Since: now.Add(-time.Hour)}, 11},
		{Filter{Since: now.Add(time.Hour)}, 0},
	} {
		n := 0
		if err := Read(t.Context(), dir, tt.f, func(Entry) error { n++; return nil }); err != nil || n != tt.want {
			t.Errorf("%+v: got %d records (%v), want %d", tt.f, n, err, tt.want)
		}
	}
}
