package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Paths of a link for audit logs.
const (
	heardPath  = "/link/audit/heard"
	keepPath   = "/link/audit/keep"
	keptPath   = "/link/audit/kept"
	verifyPath = "/link/audit/verify"
)

// Times for audit logs.
const (
	keepWait   = 5 * time.Second
	keepRest   = 250 * time.Millisecond // between two tries, of the checkpoints of one worker
	verifyWait = 10 * time.Minute
	keptWait   = time.Minute
)

// witnesses is how many other workers keep each checkpoint.
const witnesses = 2

// witness has other workers keep the newest checkpoint of a worker. When over is closed, all
// that the worker has said is known, and this is the last time.
func (r *roster) witness(ctx context.Context, l *link, over <-chan struct{}) {
	var now Signed
	var kept []string // that have it
	said := ""
	for {
		last := closed(over)
		r.mu.Lock()
		newest, changed := l.signed, r.changed
		r.mu.Unlock()
		if newest != now {
			now, kept = newest, nil
			l.hear(ctx, now)
		}
		if now != (Signed{}) {
			for _, w := range r.witnessesOf(l, kept) {
				err := w.keep(ctx, l.Name, now)
				if err == nil {
					kept = append(kept, w.Name)
					continue
				}
				if why := w.Name + err.Error(); why != said {
					r.log.Warn("a witness does not keep the checkpoint of an audit log; it is tried again", "worker", l.Name, "witness", w.Name, "err", err)
					said = why
				}
			}
		}
		if last || ctx.Err() != nil {
			return
		}
		timer := time.NewTimer(keepRest)
		select {
		case <-timer.C:
		case <-over:
		case <-ctx.Done():
		}
		timer.Stop()
		select {
		case <-changed: // perhaps meanwhile
		case <-over:
		case <-ctx.Done():
		}
	}
}

// witnessesOf returns the workers that are to keep the checkpoints of a worker beside those
// that have it: the same as long as the same workers are linked.
func (r *roster) witnessesOf(l *link, have []string) (all []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.links {
		if name != l.Name && !slices.Contains(have, name) {
			names = append(names, name)
		}
	}
	for range witnesses - len(have) {
		if len(names) == 0 {
			break
		}
		best := rendezvous(names, l.Name)
		names = slices.DeleteFunc(names, func(n string) bool { return n == best })
		all = append(all, r.links[best])
	}
	return all
}

// ask sends a request of the front itself to a worker, and returns at most size bytes of the
// answer.
func (l *link) ask(ctx context.Context, path string, body []byte, size int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := l.client.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, size+1)) //nolint:forbidigo // bounded
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode >= http.StatusMultipleChoices:
		return nil, fmt.Errorf("it answers %d %.200q", res.StatusCode, text)
	case int64(len(text)) > size:
		return nil, fmt.Errorf("its answer has more than %d bytes", size)
	}
	return text, nil
}

// hear says to a worker that its checkpoint has been heard.
func (l *link) hear(ctx context.Context, s Signed) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	if body, err := json.Marshal(s); err == nil {
		_, _ = l.ask(ctx, heardPath, body, maxReport) // a worker that is gone does not wait for it
	}
}

// keep has a worker keep a checkpoint of another worker's log.
func (l *link) keep(ctx context.Context, worker string, s Signed) error {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	body, err := json.Marshal(Sighting{Worker: worker, Signed: s})
	if err != nil {
		return err
	}
	_, err = l.ask(ctx, keepPath, body, maxReport)
	return err
}

// kept asks a worker which checkpoints it has of others.
func (l *link) kept(ctx context.Context) (all []Sighting, err error) {
	ctx, cancel := context.WithTimeout(ctx, keptWait)
	defer cancel()
	text, err := l.ask(ctx, keptPath, nil, maxKeptText)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err == nil && slices.ContainsFunc(all, func(s Sighting) bool { return !s.fits() || !IsWorkerName(s.Worker) }) {
		err = errors.New("its answer is not a list of checkpoints")
	}
	for i := range all {
		all[i].By = l.Name // whatever it says
	}
	return all, err
}

// linked returns the links of all workers.
func (r *roster) linked() (all []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		all = append(all, l)
	}
	return all
}
