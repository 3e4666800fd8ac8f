package gateway

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/mcp"
)

// A call that waits for its client sends no notifications to the client: the client's
// request already has its result.
func TestNothingIsToldWhileACallWaits(t *testing.T) {
	var k keeper
	free := make(chan struct{})
	one := k.begin(t.Context(), mcp.Call{}, slog.New(slog.DiscardHandler), func(context.Context, *kept) (*mcp.Result, error) {
		<-free
		return &mcp.Result{}, nil
	})
	told := 0
	one.tell(func(mcp.Call) { told++ })
	_, _, asks := one.now()
	asks <- struct{}{}
	if _, err := one.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.tell(func(mcp.Call) { told++ })
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	close(free)
	k.wg.Wait()
}

// A panic in a kept call makes only this call fail.
func TestPanicOfACallThatIsKept(t *testing.T) {
	var k keeper
	one := k.begin(t.Context(), mcp.Call{}, slog.New(slog.DiscardHandler), func(context.Context, *kept) (*mcp.Result, error) { panic("no") })
	if _, err := one.follow(t.Context()); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v", err)
	}
}
