package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar.dev/internal/pause"
	"belljar.dev/mcp/wire"
)

// A modern server notifies of changes only on a stream that the client opens (MCP
// 2026-07-28, "Subscriptions").

const listenMethod = "subscriptions/listen"

// subscription returns the params of a request that listens to the changes of a server's
// lists; nil if there is nothing to listen to.
func subscription(info *Info) []byte {
	if info.Era != wire.Modern {
		return nil
	}
	var wanted []byte
	for _, list := range []string{"tools", "prompts", "resources"} {
		if string(wire.Member(wire.Member(info.Capabilities, list), "listChanged")) == "true" {
			wanted = appendMember(wanted, []byte(list+"ListChanged"), []byte("true"))
		}
	}
	if wanted == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"notifications":{%s}}`, wanted)
}

// subscribe listens to the changes of a server's lists until the connection ends.
func subscribe(ctx context.Context, c *Conn, params []byte) {
	const first, longest = time.Second, time.Minute
	wait := first
	for {
		began := time.Now()
		err := listen(ctx, c, params)
		c.mu.Lock()
		c.stats.Subscribe = excerpt([]byte(err.Error()), mostShown)
		c.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Code == wire.MethodNotFound.Code(wire.Modern) {
			return // the server does not have the method, although it declared it
		}
		if time.Since(began) > longest {
			wait = first
		}
		if pause.For(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, longest)
	}
}

// listen opens one subscription and returns why it ended.
func listen(ctx context.Context, c *Conn, params []byte) error {
	r, err := newRequest(listenMethod, params, 0)
	if err != nil {
		return err
	}
	cl := newCall(r, CallOptions{Timeout: -1}, 0)
	cl.stream = true
	if err := c.send(ctx, cl, r, nil); err != nil {
		return err
	}
	c.mu.Lock()
	c.stats.Subscribe = ""
	c.mu.Unlock()
	if _, err := c.wait(ctx, cl); err != nil {
		return err
	}
	return errors.New("the server has ended the subscription")
}
