package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"belljar.dev/internal/jsonlist"
)

// Bounds of a worker's work on requests of fronts about audit logs.
const (
	checkpointEvery = time.Second
	checkpointMost  = 64 // number of checkpoints in each checkpointEvery
)

// checkpointRate limits the rate of checkpoints that a worker accepts. It is safe for
// concurrent use.
type checkpointRate struct {
	mu    sync.Mutex
	since time.Time // guarded by mu
	count int       // guarded by mu: number of checkpoints since then
}

// room reports whether another checkpoint may be accepted now.
func (k *checkpointRate) room(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.since) >= checkpointEvery {
		k.since, k.count = now, 0
	}
	k.count++
	return k.count <= checkpointMost
}

// audit answers a request of a front about audit logs.
func (w *Worker) audit(rw http.ResponseWriter, r *http.Request) {
	if w.cfg.Audit == nil {
		http.Error(rw, "this worker keeps no audit log", http.StatusNotFound)
		return
	}
	switch r.URL.Path {
	case keepPath:
		w.keepOf(rw, r)
		return
	case acknowledgePath:
		w.acknowledge(rw, r)
		return
	}
	if !w.auditing.TryLock() { // each of these requests reads a whole log
		http.Error(rw, "the worker is answering another front", http.StatusTooManyRequests)
		return
	}
	defer w.auditing.Unlock()
	var text []byte
	var err error
	if r.URL.Path == keptPath {
		var all []Sighting
		if all, err = w.cfg.Audit.Kept(r.Context()); err == nil {
			text, err = json.Marshal(all)
		}
	} else {
		text, err = w.verify(r)
	}
	if err != nil {
		w.cfg.Log.Error("a request of a front about the audit log cannot be answered", "path", r.URL.Path, "err", err)
		http.Error(rw, "its log says why", http.StatusInternalServerError)
		return
	}
	_, _ = rw.Write(text)
}

// verify compares the audit log with the checkpoints in the body of a request.
func (w *Worker) verify(r *http.Request) ([]byte, error) {
	var seen []Sighting
	size := 0
	err := jsonlist.Each(r.Body, jsonlist.Bounds{Elements: maxCompared, Bytes: maxSighting}, func(text json.RawMessage) error {
		var s Sighting
		if err := json.Unmarshal(text, &s); err != nil || !s.fits() {
			return errors.New("it is not a list of checkpoints")
		}
		if size += s.size(); size > maxOneLog {
			return fmt.Errorf("there are more than %d bytes", maxOneLog)
		}
		seen = append(seen, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what others have kept of this log: %w", err)
	}
	return w.cfg.Audit.Verify(r.Context(), seen, r.URL.Query()["key"])
}

// acknowledge records which checkpoint of this worker a front has.
func (w *Worker) acknowledge(rw http.ResponseWriter, r *http.Request) {
	var s Signed
	if json.NewDecoder(http.MaxBytesReader(rw, r.Body, 4*MaxSigned)).Decode(&s) != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	connOf(r.Context()).acknowledged = s
	close(w.acknowledged)
	w.acknowledged = make(chan struct{})
	rw.WriteHeader(http.StatusNoContent)
}

// WaitAcknowledged waits until all linked fronts have the newest checkpoint of this worker,
// or until ctx ends.
func (w *Worker) WaitAcknowledged(ctx context.Context) {
	if w.cfg.Audit == nil {
		return
	}
	newest := w.cfg.Audit.Newest()
	for {
		w.mu.Lock()
		all, acknowledged := true, w.acknowledged
		for c := range w.running {
			all = all && (c.acknowledged == newest || c.first != nil || closed(c.lost))
		}
		w.mu.Unlock()
		if all {
			return
		}
		select {
		case <-acknowledged:
		case <-ctx.Done():
			return
		}
	}
}

// keepOf keeps a checkpoint of another worker's log.
func (w *Worker) keepOf(rw http.ResponseWriter, r *http.Request) {
	var s Sighting
	err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 4*MaxSigned)).Decode(&s)
	switch {
	case err != nil || !s.fits() || !IsWorkerName(s.Worker) || s.Worker == w.cfg.Name:
		http.Error(rw, "this is not a checkpoint of another worker", http.StatusBadRequest)
		return
	case !w.checkpoints.room(time.Now()):
		http.Error(rw, "there are too many checkpoints at the same time", http.StatusTooManyRequests)
		return
	}
	if err := w.cfg.Audit.Keep(r.Context(), s.Worker, s.Signed); err != nil {
		w.cfg.Log.Error("a checkpoint of another worker is not kept", "worker", s.Worker, "err", err)
		http.Error(rw, "its log says why", http.StatusInternalServerError)
		return
	}
	rw.WriteHeader(http.StatusNoContent)
}
