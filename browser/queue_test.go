package browser_test

import (
	"context"
	"testing"
	"testing/synctest"

	"belljar.dev/browser"
)

// TestQueueOfTenants checks that a tenant whose calls fill its queue does not keep another
// tenant from waiting, and from getting the next turn.
func TestQueueOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		q := browser.NewTurns(1, most)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := q.Take(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		turns := make(chan string, most+1)
		wait := func(tenant string) {
			go func() {
				if q.Take(ctx, tenant) == nil {
					turns <- tenant
				}
			}()
			synctest.Wait()
		}
		for range most {
			wait("b")
		}
		if err := q.Take(ctx, "b"); browser.KindOf(err) != browser.KindFull {
			t.Errorf("one call of b too many: %v, want that its queue is full", err)
		}
		wait("a")
		var order string
		for range most + 1 {
			q.Give()
			order += <-turns
		}
		if order != "babb" {
			t.Errorf("the turns are of %s, want babb", order)
		}
	})
}
