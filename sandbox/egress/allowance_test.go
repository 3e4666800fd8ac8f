package egress

import (
	"strings"
	"testing"
	"time"
)

// The bytes of an hour go through, and no more until the hour is over.
func TestAllowance(t *testing.T) {
	var a Allowance
	a.Set("tenant a", 100)
	start := time.Now()
	for _, tt := range []struct {
		after time.Duration
		bytes int64
		want  string
	}{
		{0, 0, ""}, {0, 60, ""}, {10 * time.Minute, 40, ""}, {10 * time.Minute, 0, "50m0s of it are left"}, {20 * time.Minute, 1, "the 100 bytes of this hour (quota egress)"},
		{59*time.Minute + 59*time.Second, 0, "1m0s of it"}, {time.Hour, 0, ""}, {time.Hour, 30, ""},
	} {
		got := a.add(start.Add(tt.after), tt.bytes)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("after %v, %d bytes: %q, want %q", tt.after, tt.bytes, got, tt.want)
		}
	}
	if got := a.Used(start.Add(time.Hour)); got != 30 {
		t.Errorf("%d bytes are counted in the second hour, want 30", got)
	}
	a.Set("tenant a", 20) // a policy that was read again
	if a.add(start.Add(time.Hour), 0) == "" {
		t.Error("a lower bound does not hold")
	}
	if got := (*Allowance)(nil).add(start, 1<<60) + new(Allowance).add(start, 1<<60); got != "" {
		t.Errorf("without a bound: %q", got)
	}
}
