package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"belljar.dev/internal/pause"
)

// policyPath is where a front gives a worker the policy of the fleet.
const policyPath = "/link/policy"

// Times and bounds of the policy of a fleet.
const (
	// MaxPolicy is the most bytes of the text of a Policy. As JSON it usually fits into a message of NATS.
	MaxPolicy     = 512 << 10
	MaxPolicyJSON = 6*MaxPolicy + 1<<10 // bytes of it as JSON, in which a byte may take six
	giveWait      = 30 * time.Second    // for a worker to read it
	giveRest      = time.Second         // after a try that failed
	// MaxNumber is the highest number of a policy.
	MaxNumber = 1 << 53
	// maxAhead is how far the number of a worker may be above that of the front, which may have lost
	// its state. A worker that says more does not decide about the next number.
	maxAhead   = 1_000_000
	behindWait = time.Minute // after which a worker with another policy takes no new places
)

// giveTo gives a worker the policy of the fleet whenever it has an older one, until over is closed.
func giveTo(ctx context.Context, r *roster, l *link, over <-chan struct{}) {
	tried := uint64(0) // the worker has answered to it
	for {
		r.mu.Lock()
		g, changed, has := r.policy, r.changed, l.number
		known := r.links[l.Name] == l // it has said which one it has
		r.mu.Unlock()
		if known && g.Number > has && g.Number != tried {
			why, err := l.sendPolicy(ctx, g)
			switch {
			case err != nil:
				r.log.Warn("a worker does not take the policy of the fleet; it is tried again", "worker", l.Name, "number", g.Number, "err", err)
				_ = pause.For(ctx, giveRest) // the loop asks ctx
			case why != "":
				r.log.Error("a worker refuses the policy of the fleet, and keeps the one that it has", "worker", l.Name, "number", g.Number, "why", why)
			}
			if err == nil {
				tried = g.Number
				r.mu.Lock()
				if r.policy.Number == g.Number { // or Give has forgotten the refusal of an older one
					l.refused = why
				}
				r.mu.Unlock()
			} else if ctx.Err() == nil && !closed(over) {
				continue
			}
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
		}
		if closed(over) || ctx.Err() != nil {
			return
		}
	}
}

// sendPolicy has a worker take a policy, and returns why the worker refuses it. After an error it is not
// known whether it was taken.
func (l *link) sendPolicy(ctx context.Context, g Policy) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, giveWait)
	defer cancel()
	body, err := json.Marshal(g)
	if err != nil {
		return "", err
	}
	res, err := l.send(ctx, policyPath, body)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) //nolint:forbidigo // bounded
	switch {
	case err != nil:
		return "", err
	case res.StatusCode == http.StatusConflict, res.StatusCode == http.StatusNotFound:
		return string(text), nil
	case res.StatusCode != http.StatusNoContent:
		return "", fmt.Errorf("it answers %d %.200q", res.StatusCode, text)
	}
	return "", nil
}

// maxRefusal is how many bytes of a reason are kept.
const maxRefusal = 4 << 10

// behind reports whether a worker has another policy than the fleet for too long to take new places;
// mu of the roster is held.
func behind(r *roster, l *link) bool {
	since := r.policySince
	if l.since.After(since) {
		since = l.since
	}
	return r.policy.Number > 0 && l.number != r.policy.Number && time.Since(since) > behindWait
}
