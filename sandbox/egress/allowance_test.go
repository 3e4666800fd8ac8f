package egress

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestAllowance checks that the bytes of an hour go through, and no more bytes until the
// hour is over.
func TestAllowance(t *testing.T) {
	var a Allowance
	a.Set("tenant a", 100)
	start := time.Now()
	for _, tt := range []struct {
		after time.Duration
		bytes int64
		want  string
	}{
		{0, 0, ""},
		{0, 60, ""},
		{10 * time.Minute, 40, ""},
		{10 * time.Minute, 0, "which ends in 50m0s"},
		{20 * time.Minute, 1, "the 100 bytes of this hour (quota egress)"},
		{59*time.Minute + 59*time.Second, 0, "which ends in 1m0s"},
		{time.Hour, 0, ""},
		{time.Hour, 30, ""},
	} {
		got := a.add(start.Add(tt.after), tt.bytes)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("after %v, %d bytes: %q, want %q", tt.after, tt.bytes, got, tt.want)
		}
	}
	if got := a.Used(start.Add(time.Hour)); got != 30 {
		t.Errorf("%d bytes are counted in the second hour, want 30", got)
	}
	a.Set("tenant a", 20) // the policy was read again
	if a.add(start.Add(time.Hour), 0) == "" {
		t.Error("a lower bound does not hold")
	}
	if got := (*Allowance)(nil).add(start, 1<<60) + new(Allowance).add(start, 1<<60); got != "" {
		t.Errorf("without a bound: %q", got)
	}
}

// Two doors share one allowance: bytes that go through one are not left for the other. A
// third door, of another tenant, has its own.
func TestDoorsShareAnAllowance(t *testing.T) {
	p := echo(t)
	var shared, other Allowance
	shared.Set("tenant a", 1000)
	other.Set("tenant b", 1000)
	doors := make([]*Door, 3)
	for i, allowed := range []*Allowance{&shared, &shared, &other} {
		doors[i] = open(t, Config{
			Egress: private(allowing(at("a.example", p)), at("a.example", p)), Allowed: allowed,
			Resolver: &answers{known: map[string][]string{"a.example": {"127.0.0.1"}}},
		})
	}
	c, err := doors[0].Dial(t.Context(), "tcp", at("a.example", p))
	if err != nil {
		t.Fatal(err)
	}
	ping(t, c, strings.Repeat("x", 500)) // 500 bytes out and 500 back
	_, err = c.Write([]byte("x"))
	if r, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(r.Record.Reason, "the 1000 bytes of this hour (quota egress)") {
		t.Errorf("after 1001 bytes: %v, want a refusal that names the quota", err)
	}
	c.Close()
	if _, err := doors[1].Dial(t.Context(), "tcp", at("a.example", p)); !errors.As(err, new(*Refused)) {
		t.Errorf("another door of the tenant: %v, want a refusal", err)
	}
	c, err = doors[2].Dial(t.Context(), "tcp", at("a.example", p))
	if err != nil {
		t.Fatalf("the door of another tenant: %v", err)
	}
	ping(t, c, "y")
	c.Close()
}
