package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"belljar.dev/internal/printable"
	"belljar.dev/mcp"
	"belljar.dev/mcp/wire"
)

// question asks the client of a call, and waits for the answer.
func (c *conn) question(ctx context.Context, run *running, id string, form mcp.Form) (mcp.FormAnswer, error) {
	answer := make(chan mcp.FormAnswer, 1)
	done := make(chan struct{})
	defer close(done)
	give := func(a mcp.FormAnswer) {
		select {
		case answer <- a:
		default: // the question already has an answer
		}
	}
	how, err := c.put(ctx, run, mcp.Offer{
		ID: id, Left: askedWait, Form: form,
		Over: func(ctx context.Context) {
			select {
			case <-done:
			case <-ctx.Done():
			}
		},
		Take: func(_ context.Context, a mcp.FormAnswer) error {
			give(a)
			return nil
		},
		Lost: func() { give(mcp.FormAnswer{Action: mcp.FormDismissed}) },
	})
	if err != nil {
		return mcp.FormAnswer{}, err
	}
	if how != mcp.AskedNow {
		return mcp.FormAnswer{}, wire.Errorf(wire.InvalidRequest, "the client cannot be asked while the call runs")
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return mcp.FormAnswer{}, context.Cause(ctx)
	}
}

// put puts a question to the client of a call. If the call is kept, put also puts the
// question to the later calls in which the client continues it.
func (c *conn) put(ctx context.Context, run *running, offer mcp.Offer) (mcp.Asked, error) {
	if run.kept == nil {
		how := run.call.Ask(ctx, offer)
		if how == mcp.AskedByResult {
			c.mu.Lock()
			run.comes = true
			c.mu.Unlock()
		}
		return how, nil
	}
	offer.ID = questionPrefix + rand.Text() // a question of this call only
	for {
		call, next, asks := run.kept.now()
		if slices.Contains(call.Brought(), offer.ID) {
			return call.Ask(ctx, offer), nil
		}
		if err := c.offers.keep(offer.ID, run.kept); err != nil {
			return mcp.NotAsked, wire.Errorf(wire.InvalidRequest, "%v", err)
		}
		how := call.Ask(ctx, offer)
		select {
		case asks <- struct{}{}:
		default: // another question has already sent the token
		}
		select {
		case <-next:
		case <-ctx.Done():
			return how, context.Cause(ctx)
		}
	}
}

// countAsked counts a question of a call, and returns the number so far. It returns 0 if
// run is nil.
func (c *conn) countAsked(run *running) int {
	if run == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	run.asked++
	return run.asked
}

// questionID returns the ID of the nth question of a call. The same question of the same
// call has the same ID when a modern client makes the call again with the answer.
func (c *conn) questionID(n int, params json.RawMessage) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", c.server.Name, n, params))
	return questionPrefix + hex.EncodeToString(sum[:8])
}

// readable returns a text of a server, with its lines, escaped so that a terminal only
// shows it.
func readable(text string) string {
	var b strings.Builder
	w := printable.NewWriter(&b)
	_, err := io.WriteString(w, text[:min(len(text), askedText)])
	if errors.Join(err, w.Flush()) != nil {
		return "" // does not happen: the writer is a buffer in memory
	}
	return b.String()
}
