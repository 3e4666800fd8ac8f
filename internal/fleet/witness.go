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
	"sync"
	"time"
)

// Paths of requests about audit logs on a link.
const (
	acknowledgePath = "/link/audit/heard"
	keepPath        = "/link/audit/keep"
	keptPath        = "/link/audit/kept"
	verifyPath      = "/link/audit/verify"
)

// Times of requests about audit logs.
const (
	keepWait = 5 * time.Second
	keepRest = 250 * time.Millisecond // pause between two attempts for the checkpoints of one worker
)

// witnesses is how many other workers keep each checkpoint.
const witnesses = 2

// witness sends the newest checkpoint of a worker to other workers, which keep it. When
// over is closed, everything that the worker has sent is known, and witness makes its last
// attempt.
func (r *roster) witness(ctx context.Context, l *link, over <-chan struct{}) {
	var now Signed
	var kept []string // names of the workers that have it
	said := ""
	for {
		last := closed(over)
		r.mu.Lock()
		newest, changed := l.signed, r.changed
		r.mu.Unlock()
		if newest != now {
			now, kept = newest, nil
			l.acknowledge(ctx, now)
		}
		kept = present(r, kept) // a witness that is not linked any more may never return
		if now != (Signed{}) {
			var why string
			if kept, why = keepBy(ctx, r, l, now, kept); why != "" && why != said {
				r.log.Warn("a witness does not keep the checkpoint of an audit log; the front asks others, and tries this one again", "worker", l.Name, "err", why)
				said = why
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
		case <-changed: // may be closed already
		case <-over:
		case <-ctx.Done():
		}
	}
}

// keepTries is how many workers are asked, one after the other, to keep one checkpoint.
// There must be more of them than witnesses, because some may be unable to keep it.
const keepTries = 8

// keepBy makes workers keep a checkpoint, until enough of them have it. have are the
// workers that already have it. It returns all workers that have it, and why others do not
// keep it.
func keepBy(ctx context.Context, r *roster, l *link, s Signed, have []string) (all []string, why string) {
	asked := slices.Clone(have)
	for len(have) < witnesses && len(asked) < len(have)+keepTries {
		next := r.witnessesOf(l, asked, witnesses-len(have))
		if len(next) == 0 {
			break
		}
		errs := make([]error, len(next))
		var asking sync.WaitGroup
		for i, w := range next {
			asked = append(asked, w.Name)
			asking.Go(func() { errs[i] = w.keep(ctx, l.Name, s) })
		}
		asking.Wait()
		for i, w := range next {
			if errs[i] == nil {
				have = append(have, w.Name)
			} else if why == "" {
				why = fmt.Sprintf("%s: %v", w.Name, errs[i])
			}
		}
	}
	return have, why
}

// present returns those of the named workers that are linked.
func present(r *roster, names []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(names, func(name string) bool { return r.links[name] == nil })
}

// witnessesOf returns n workers that should keep the checkpoints of a worker, except for
// those that were asked already. The result is the same as long as the same workers are
// linked.
func (r *roster) witnessesOf(l *link, asked []string, n int) (all []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.links {
		if name != l.Name && !slices.Contains(asked, name) {
			names = append(names, name)
		}
	}
	for range min(n, len(names)) {
		best := rendezvous(names, l.Name)
		names = slices.DeleteFunc(names, func(n string) bool { return n == best })
		all = append(all, r.links[best])
	}
	return all
}

// ask sends a request of the front itself to a worker, and returns the answer. An answer of
// more than size bytes is an error.
func (l *link) ask(ctx context.Context, path string, body []byte, size int64) ([]byte, error) {
	res, err := l.post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, size+1)) //nolint:forbidigo // the reader has a bound
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > size:
		return nil, fmt.Errorf("its answer has more than %d bytes", size)
	}
	return text, nil
}

// post is ask for a caller that reads and closes the body of the answer itself.
func (l *link) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	res, err := l.send(ctx, path, body)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errors.New("it does not answer")
	case err != nil:
		return nil, err
	case res.StatusCode >= http.StatusMultipleChoices:
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxWhy)) //nolint:forbidigo // the reader has a bound
		return nil, fmt.Errorf("it answers %d %.200q", res.StatusCode, text)
	}
	return res, nil
}

// send is post for a caller that also checks the status.
func (l *link) send(ctx context.Context, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return l.client.RoundTrip(req)
}

// acknowledge informs a worker that the front has its checkpoint.
func (l *link) acknowledge(ctx context.Context, s Signed) {
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	if body, err := json.Marshal(s); err == nil {
		_, _ = l.ask(ctx, acknowledgePath, body, maxReport) // if the worker has gone, the error does not matter
	}
}

// keep makes a worker keep a checkpoint of another worker's log.
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

// linked returns the links of all workers.
func (r *roster) linked() (all []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		all = append(all, l)
	}
	return all
}
