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

// policyPath is the path to which a front sends the policy of the fleet to a worker.
const policyPath = "/link/policy"

// Times and bounds of the policy of a fleet.
const (
	// MaxPolicy is the maximum size of the text of a Policy, in bytes. As JSON the text
	// usually fits into a message of NATS.
	MaxPolicy     = 512 << 10
	MaxPolicyJSON = 6*MaxPolicy + 1<<10 // size as JSON in bytes; one byte may become six
	giveWait      = 30 * time.Second    // time in which a worker must read it
	giveRest      = time.Second         // pause after an attempt that failed
	// MaxNumber is the largest number of a policy.
	MaxNumber = 1 << 53
	// maxAhead is by how much the number of a worker's policy may exceed that of the front,
	// which may have lost its state. A larger number is ignored when the next number is
	// chosen.
	maxAhead   = 1_000_000
	behindWait = time.Minute // after this time, a worker with another policy gets no new places
)

// giveTo sends the policy of the fleet to a worker whenever the worker has an older one,
// until over is closed.
func giveTo(ctx context.Context, r *roster, l *link, over <-chan struct{}) {
	tried := uint64(0) // number of the last policy that the worker has answered
	for {
		r.mu.Lock()
		g, changed, has := r.policy, r.changed, l.number
		known := r.links[l.Name] == l // whether the worker has reported its policy
		r.mu.Unlock()
		if known && g.Number > has && g.Number != tried {
			why, err := l.sendPolicy(ctx, g)
			switch {
			case err != nil:
				r.log.Warn("a worker does not accept the policy of the fleet; the front tries again", "worker", l.Name, "number", g.Number, "err", err)
				_ = pause.For(ctx, giveRest) // the loop checks ctx
			case why != "":
				r.log.Error("a worker refuses the policy of the fleet, and keeps the one that it has", "worker", l.Name, "number", g.Number, "why", why)
			}
			if err == nil {
				tried = g.Number
				r.mu.Lock()
				if r.policy.Number == g.Number { // otherwise Give has already cleared the refusal of an older policy
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

// sendPolicy sends a policy to a worker, and returns the reason if the worker refuses it.
// After an error it is not known whether the worker has accepted it.
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
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) //nolint:forbidigo // the reader has a bound
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

// behind reports whether a worker has had another policy than the fleet for so long that it
// gets no new places. The caller holds mu of the roster.
func behind(r *roster, l *link) bool {
	since := r.policySince
	if l.since.After(since) {
		since = l.since
	}
	return r.policy.Number > 0 && l.number != r.policy.Number && time.Since(since) > behindWait
}
