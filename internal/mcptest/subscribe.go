// Package mcptest contains what tests need of the sdk's client and the sdk does not offer.
package mcptest

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Subscriber subscribes to resources, and returns once the server has recorded the
// subscription. Since subscriptions are streams (revision 2026-07-28, "Subscriptions"), the
// sdk's Subscribe does not wait for this, and the client is not notified of changes before
// it.
type Subscriber struct{ acked chan struct{} }

// NewSubscriber prepares a client. It must be called before the client connects.
func NewSubscriber(c *sdk.Client) Subscriber {
	s := Subscriber{make(chan struct{}, 64)}
	c.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			res, err := next(ctx, method, req)
			if method == "notifications/subscriptions/acknowledged" {
				s.acked <- struct{}{}
			}
			return res, err
		}
	})
	return s
}

// Subscribe subscribes to a resource, and waits until the server has recorded the
// subscription.
func (s Subscriber) Subscribe(t testing.TB, session *sdk.ClientSession, uri string) {
	t.Helper()
	if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
		t.Fatalf("subscribe to %s: %v", uri, err)
	}
	if session.InitializeResult().ProtocolVersion < "2026-07-28" {
		return // the response already confirmed the subscription
	}
	select {
	case <-s.acked:
	case <-t.Context().Done():
		t.Fatalf("subscribe to %s: not acknowledged", uri)
	}
}
