package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// backwardsBy reads a log from its end, size records at a time, and returns the numbers of
// the records.
func backwardsBy(t testing.TB, dir string, want Search, size int) (seqs []uint64) {
	t.Helper()
	var at Cursor
	for {
		n := 0
		next, more, err := ReadBack(t.Context(), dir, at, want, func(e Entry, c Cursor) bool {
			if e.Seq != c.Seq {
				t.Errorf("record %d is at %v", e.Seq, c)
			}
			if got, err := ReadRecord(dir, c); err != nil || string(got.Raw) != string(e.Raw) {
				t.Errorf("at %v: %v, %s", c, err, got.Raw)
			}
			seqs = append(seqs, e.Seq)
			n++
			return n < size
		})
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return seqs
		}
		if at, err = ParseCursor(next.String()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadBack checks that ReadBack returns the same records as Read, in the opposite
// order, in parts of any size, over all files.
func TestReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	cfg := config(dir)
	cfg.Audit.Rotate = 8 << 10
	l := begin(t, cfg)
	for i := range 60 {
		d := decision(i)
		switch i % 3 {
		case 1:
			d.Tenant, d.Verdict, d.Rules[0].ID = `a "b" <c>`, "deny", "no-<b>"
			d.Facts.Command = "echo é\u2028 <x>"
			d.Args = nil
		case 2:
			d.Tool, d.Facts.Upstream = "WebSearch", "<files>"
			if i%6 == 5 {
				d.Session = "s-<1>"
			}
		}
		if err := l.Write(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := l.Write(t.Context(), Approval{ID: "ap-1", Tenant: `a "b" <c>`, Event: "asked"}); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, l)
	if full, err := list(dir, isFull); err != nil || len(full) < 3 {
		t.Fatal(full, err)
	}
	for _, tt := range []struct {
		want Search
		also func(e Entry) bool
		n    int // least number of records
	}{
		{Search{}, func(Entry) bool { return true }, 120},
		{Search{Filter: Filter{Tenant: `a "b" <c>`}}, func(Entry) bool { return true }, 80},
		{Search{Filter: Filter{Verdict: "deny"}}, func(Entry) bool { return true }, 20},
		{Search{Filter: Filter{Verdict: "allow", Tool: "WebSearch"}}, func(Entry) bool { return true }, 20},
		{Search{Filter: Filter{Session: "s-<1>"}}, func(e Entry) bool { return e.Session == "s-<1>" || e.Box == "s-<1>" }, 3},
		{Search{Filter: Filter{Kind: KindApproval}}, func(Entry) bool { return true }, 60},
		{Search{Filter: Filter{Kind: KindDecision, Tenant: `a "b" <c>`, Tool: "WebSearch"}}, func(Entry) bool { return true }, 0},
		{Search{Rule: "no-<b>"}, func(e Entry) bool { return len(e.Rules) > 0 && e.Rules[0].ID == "no-<b>" }, 20},
		{Search{Upstream: "<files>"}, func(e Entry) bool { return e.Facts.Upstream != "" }, 20},
		{Search{Upstream: "files"}, func(Entry) bool { return false }, 0},
		{Search{Text: "é\u2028 <x>"}, func(e Entry) bool { return e.Verdict == "deny" }, 20},
		{Search{Text: "part59 "}, func(e Entry) bool { return e.CallID == "c-59" }, 1},
		{Search{Text: "nothing has it"}, func(Entry) bool { return false }, 0},
	} {
		var want []uint64
		if err := Read(t.Context(), dir, tt.want.Filter, func(e Entry) error {
			if tt.also(e) {
				want = append(want, e.Seq)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(want)
		if len(want) < tt.n {
			t.Errorf("%+v: %d records in order", tt.want, len(want))
		}
		for _, size := range []int{1, 7, 1000} {
			if got := backwardsBy(t, dir, tt.want, size); !slices.Equal(got, want) {
				t.Errorf("%+v by %d: got %v, want %v", tt.want, size, got, want)
			}
		}
	}
	for _, text := range []string{"", "1", "-", "0-0", "1-", "1--1", "-1-1", "x-1", "1-x", "99999999999999999999-1", "1-99999999999999999999"} {
		if c, err := ParseCursor(text); err == nil {
			t.Errorf("%q is the place %v", text, c)
		}
	}
	for _, c := range []Cursor{{1, 1}, {1 << 40, 0}, {2, 0}, {3, 1 << 40}} {
		if e, err := ReadRecord(dir, c); !errors.Is(err, ErrNoRecord) {
			t.Errorf("%v: got %d, %v", c, e.Seq, err)
		}
	}
	seen := 0 // records before a cursor whose offset is not the offset of record 10
	if _, _, err := ReadBack(t.Context(), dir, Cursor{10, 3}, Search{}, func(e Entry, _ Cursor) bool { seen++; return e.Seq < 10 }); err != nil || seen != 9 {
		t.Errorf("before record 10: %d records, %v", seen, err)
	}
	// A search whose context ends before it has found a record can continue where it
	// stopped.
	at, more, err := ReadBack(&endsLater{t.Context(), 2}, dir, Cursor{}, Search{Text: "nothing has it"}, func(Entry, Cursor) bool { return true })
	if err != nil || !more || at.Seq == 0 || at.Seq > 120 {
		t.Errorf("after the end of its time it is at %v, %v, %v", at, more, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, more, err := ReadBack(ctx, dir, Cursor{}, Search{}, func(Entry, Cursor) bool { t.Error("it reads on"); return false }); err != nil || !more {
		t.Errorf("after the end of its context: %v, %v", more, err)
	}
}

// endsLater is a context that ends after asks calls of Err.
type endsLater struct {
	context.Context
	asks int
}

func (c *endsLater) Err() error {
	if c.asks--; c.asks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// ReadBack skips damage that a crash or another program has made, but returns an error for
// a line that is longer than any record.
func TestReadBackOfDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	fill(t, config(dir), 3)
	name := filepath.Join(dir, currentName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	count := func() int { return len(backwardsBy(t, dir, Search{}, 2)) }
	most := count()
	for what, text := range map[string]string{
		"a torn line":   string(whole) + `{"seq":99,"prev":"`,
		"empty lines":   "\n\n" + string(whole) + "\n\n",
		"zeros":         string(whole) + strings.Repeat("\x00", 4096),
		"another line":  string(whole) + "hello\n{}\n[]\n",
		"no end":        strings.TrimSuffix(string(whole), "\n"),
		"nothing":       "",
		"no line ends":  strings.Repeat("x", 3<<20),
		"one long line": strings.Repeat("x", 3<<20) + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		_, _, err := ReadBack(t.Context(), dir, Cursor{}, Search{}, func(Entry, Cursor) bool { n++; return true })
		if long := strings.Contains(what, "line") && len(text) > 2<<20; long != (err != nil) || !long && text != "" && n < most-1 {
			t.Errorf("%s: %d of %d records, %v", what, n, most, err)
		}
	}
}

// BenchmarkReadBack measures searches in a log of a million records: the newest page, a
// rare text, a tenant without records, and the denied calls of a tool.
func BenchmarkReadBack(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "audit")
	fill(b, config(dir), 1_000_000)
	for name, want := range map[string]Search{
		"newest": {}, "rare": {Text: "part12 "}, "nothing": {Filter: Filter{Tenant: "nobody"}}, "tool": {Filter: Filter{Tool: "WebSearch", Verdict: "deny"}},
	} {
		b.Run(name, func(b *testing.B) {
			var most time.Duration
			for b.Loop() {
				began, n := time.Now(), 0
				if _, _, err := ReadBack(b.Context(), dir, Cursor{}, want, func(Entry, Cursor) bool { n++; return n < 100 }); err != nil {
					b.Fatal(err)
				}
				most = max(most, time.Since(began))
			}
			b.ReportMetric(most.Seconds(), "s-most")
		})
	}
}
