package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// warden refuses calls whose text demands it, and adds a line to the others.
type warden struct {
	mu   sync.Mutex
	seen []string
}

func (w *warden) Before(_ context.Context, _ mcp.Call, f policies.Facts) *policies.Refusal {
	if text, _ := f.Args["text"].(string); text == "no" {
		r := policies.Decision{Verdict: policies.Deny, Rule: "hook:warden", Reason: "Not this."}.Denied("c-1")
		return &r
	}
	return nil
}

func (w *warden) After(_ context.Context, c mcp.Call, _ policies.Facts, o mcp.Outcome) mcp.Beside {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf("%s refused=%v err=%v", c.Tool, o.Refused, o.Err))
	return mcp.Beside{Content: []mcp.Content{{Text: "by the way"}}}
}

// TestAround checks that code around a call can refuse the call and add to its result.
// After runs at the end of each call, even if the call panics.
func TestAround(t *testing.T) {
	w := &warden{}
	ty := newToy(t, func(c *mcp.Config) { c.Around = w })
	session, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, tt := range []struct {
		tool, args, want string
		isError          bool
	}{
		{"echo", `{"text": "hi"}`, "hi|by the way", false},
		{"echo", `{"text": "no"}`, "DENIED by policy rule hook:warden", true},
		{"fail", `{}`, "it did not work", true},
		{"panic", `{}`, "internal error", true},
	} {
		res, err := ty.Call(t.Context(), session, tt.tool, []byte(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, c := range res.Content {
			texts = append(texts, c.Text)
		}
		if got := strings.Join(texts, "|"); res.IsError != tt.isError || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s: got %q, error %v, want %q", tt.tool, tt.args, got, res.IsError, tt.want)
		}
	}
	want := "[echo refused=false err=<nil> echo refused=true err=<nil> fail refused=false err=it did not work; try echo panic refused=false err=the tool stopped unexpectedly]"
	if got := fmt.Sprint(w.seen); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

func TestDescribe(t *testing.T) {
	ty := newToy(t)
	if !ty.Describe("echo", "says it twice") || ty.Describe("echo", "says it twice") || ty.Describe("nothing", "x") {
		t.Error("Describe does not report what changed")
	}
	for _, info := range ty.Tools() {
		if info.Name == "echo" && info.Description != "says it twice" {
			t.Errorf("got the description %q", info.Description)
		}
	}
}
