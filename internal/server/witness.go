package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies/audit"
)

// witness contains what the audit log of a worker exchanges with other workers. It is safe
// for concurrent use; the zero value is ready.
type witness struct {
	mu     sync.Mutex
	newest audit.Signed    // guarded by mu: newest checkpoint of this log, for other workers to keep
	news   func()          // guarded by mu: called when newest has changed; nil calls nothing
	others map[string]kept // guarded by mu: newest known checkpoint of each other worker, by worker
	heard  uint64          // guarded by mu: number of checkpoints that have arrived from others

	// closed when others contains the checkpoints that were in the log at the start; nil if
	// the log is not read
	read chan struct{}
	stop context.CancelFunc
}

// kept is the newest checkpoint of another worker's log in this log.
type kept struct {
	signed audit.Signed
	at     audit.Checkpoint
	heard  uint64 // value of witness.heard when it arrived
}

// signed records a new checkpoint of this log.
func (w *witness) signed(s audit.Signed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest = s; w.news != nil {
		w.news()
	}
}

// maxWitnessed is the most other workers whose newest checkpoints are remembered.
const maxWitnessed = 4096

// judge reports whether a checkpoint is new, and how it contradicts an earlier one; wrong
// is empty if it does not. The checkpoint is remembered only by note, after it was written
// to the log.
func (w *witness) judge(worker string, k kept) (news bool, wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.others[worker]
	switch {
	case !ok:
	// sent by another front, or late
	case before.signed == k.signed, before.signed.Key == k.signed.Key && k.at.Seq < before.at.Seq && !k.at.Time.After(before.at.Time):
		return false, ""
	case before.signed.Key != k.signed.Key:
		wrong = "the key of its log has changed"
	case k.at.Seq < before.at.Seq:
		wrong = fmt.Sprintf("its log had %d records and has %d now", before.at.Seq, k.at.Seq)
	case k.at.Seq == before.at.Seq && k.at.Hash != before.at.Hash:
		wrong = fmt.Sprintf("record %d of its log has changed", k.at.Seq)
	}
	return true, wrong
}

// note remembers a checkpoint that was written to the log.
func (w *witness) note(worker string, k kept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(worker, k)
}

// put remembers a checkpoint. If there are too many, it forgets the checkpoint that arrived
// first. If a forgotten checkpoint arrives again, the log gets a second record of it. The
// caller holds mu.
func (w *witness) put(worker string, k kept) {
	if w.others == nil {
		w.others = make(map[string]kept)
	}
	if _, known := w.others[worker]; !known && len(w.others) >= maxWitnessed {
		oldest := ""
		for name, o := range w.others {
			if oldest == "" || o.heard < w.others[oldest].heard {
				oldest = name
			}
		}
		delete(w.others, oldest)
	}
	w.heard++
	k.heard = w.heard
	w.others[worker] = k
}

// remember reads in the background the newest checkpoint of each other worker in the log.
// The caller ends it with forget.
func (w *witness) remember(ctx context.Context, l *ledger) {
	ctx, w.stop = context.WithCancel(ctx)
	w.read = make(chan struct{})
	go func() {
		defer close(w.read)
		all := make(map[string]kept)
		_, _, err := audit.ReadBack(ctx, l.dir, audit.Cursor{}, audit.Search{Filter: audit.Filter{Kind: audit.KindWitness}}, func(e audit.Entry, _ audit.Cursor) bool {
			var one audit.Witness
			if json.Unmarshal(e.Raw, &one) == nil && all[one.Worker].signed == (audit.Signed{}) {
				if at, err := one.Open(); err == nil {
					all[one.Worker] = kept{signed: one.Signed, at: at, heard: e.Seq}
				}
			}
			return len(all) < maxWitnessed
		})
		if err != nil && ctx.Err() == nil {
			l.out.Error("it is not known which checkpoints of other workers the audit log has", "err", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(all[a].heard, all[b].heard) }) {
			w.put(name, all[name])
		}
	}()
}

// forget ends remember, and waits for it.
func (w *witness) forget() {
	if w.read != nil {
		w.stop()
		<-w.read
	}
}

// forFleet returns the ledger for the fronts of a worker; nil if l is nil.
func (l *ledger) forFleet() fleet.Audit {
	if l == nil {
		return nil
	}
	return fleetLedger{l}
}

// tell sets the function news, which is called when there is a new checkpoint for other
// workers to keep.
func (l *ledger) tell(news func()) {
	if l == nil {
		return
	}
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	l.witness.news = news
}

// sign signs what was written to the log so far.
func (l *ledger) sign(ctx context.Context) {
	if l == nil {
		return
	}
	if err := l.log.Sign(ctx); err != nil {
		l.out.Error("the audit log is not signed", "err", err)
	}
}

// fleetLedger is a ledger in the form for the fronts of a worker.
type fleetLedger struct{ *ledger }

// Newest returns the newest checkpoint of this log, which others are to keep.
func (l fleetLedger) Newest() fleet.Signed {
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	return fleet.Signed(l.witness.newest)
}

// Keep writes a checkpoint of another worker's log to this log. If the checkpoint
// contradicts one that was written before, Keep also reports this, and both records stay.
func (l fleetLedger) Keep(ctx context.Context, worker string, s fleet.Signed) error {
	signed := audit.Signed(s)
	c, err := signed.Open()
	if err != nil {
		return fmt.Errorf("read the checkpoint: %w", err)
	}
	select { // so that checkpoints from an earlier process are compared too
	case <-l.witness.read:
	case <-ctx.Done():
		return ctx.Err()
	}
	k := kept{signed: signed, at: c}
	news, wrong := l.witness.judge(worker, k)
	if wrong != "" {
		l.out.Error("the audit log of another worker was changed: run `belljar audit verify --fleet` at a front", "worker", worker, "why", wrong)
	}
	if !news {
		return nil
	}
	if err := l.log.Write(ctx, audit.Witness{Worker: worker, Signed: signed}); err != nil {
		return err // the front sends it again
	}
	l.witness.note(worker, k)
	return nil
}

// Kept returns the checkpoints of other workers' logs in this log. For each worker these
// are at most fleet.MaxKept: all recent ones, and fewer of the older ones.
func (l fleetLedger) Kept(ctx context.Context) ([]fleet.Sighting, error) {
	by := make(map[string][]fleet.Sighting)
	err := audit.Witnessed(ctx, l.dir, "", func(w audit.Witness) error {
		if len(by) >= maxWitnessed && by[w.Worker] == nil {
			return nil
		}
		by[w.Worker] = thinned(append(by[w.Worker], fleet.Sighting{Worker: w.Worker, Signed: fleet.Signed(w.Signed)}), fleet.MaxKept)
		return nil
	})
	all := []fleet.Sighting{}
	for _, some := range by {
		all = append(all, some...)
	}
	return all, err
}

// thinned returns a list, whose largest length is most. It leaves out every second element
// of the older half.
func thinned[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	n := 0
	for i := 0; i < len(all)/2; i += 2 {
		all[n] = all[i]
		n++
	}
	return slices.Delete(all, n, len(all)/2)
}

// verifyTime is the time limit for reading a log.
const verifyTime = 5 * time.Minute

// Verify compares the log with the checkpoints of it that witnesses have kept.
func (l fleetLedger) Verify(ctx context.Context, seen []fleet.Sighting, keys []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	// Keys is not nil even if no key is known, so that the word of a single witness does
	// not count as proof.
	against := audit.Against{Keys: append([]string{}, keys...)}
	for _, s := range seen {
		against.Witnesses = append(against.Witnesses, audit.Sighting{By: s.By, Signed: audit.Signed(s.Signed)})
	}
	report, err := audit.Verify(ctx, l.dir, against)
	found := control.AuditReport{
		Records: report.Records, First: report.First, Last: report.Last, Signed: report.Signed,
		Witnessed: report.Witnessed, Witnesses: report.Witnesses, Notes: report.Notes, Disputes: report.Disputes,
	}
	if fault, ok := errors.AsType[*audit.Fault](err); ok {
		found.Fault = fault.Error()
	} else if err != nil {
		found.Unread = err.Error()
	}
	return json.Marshal(found)
}
