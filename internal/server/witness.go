package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/policies/audit"
)

// witness is what the audit log of a worker has to do with other workers. It is safe for
// concurrent use; the zero value is ready.
type witness struct {
	mu     sync.Mutex
	newest audit.Signed    // guarded by mu: of this log, for others to keep
	news   func()          // guarded by mu: called when newest has changed; nil for nobody
	others map[string]kept // guarded by mu: by worker
}

// kept is the newest checkpoint of another worker's log that this log has.
type kept struct {
	signed audit.Signed
	at     audit.Checkpoint
}

// signed notes a checkpoint of this log.
func (w *witness) signed(s audit.Signed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest = s; w.news != nil {
		w.news()
	}
}

// maxWitnessed is how many other workers' newest checkpoints are remembered.
const maxWitnessed = 4096

// judge reports whether a checkpoint is news, and what is wrong with it.
func (w *witness) judge(worker string, k kept) (news bool, wrong string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.others[worker]
	switch {
	case !ok:
	case before.signed == k.signed, before.signed.Key == k.signed.Key && k.at.Seq < before.at.Seq && !k.at.Time.After(before.at.Time): // by another front, or late
		return false, ""
	case before.signed.Key != k.signed.Key:
		wrong = "its log has another key now"
	case k.at.Seq < before.at.Seq:
		wrong = fmt.Sprintf("its log had %d records and has %d now", before.at.Seq, k.at.Seq)
	case k.at.Seq == before.at.Seq && k.at.Hash != before.at.Hash:
		wrong = fmt.Sprintf("record %d of its log is another one now", k.at.Seq)
	}
	if w.others == nil || len(w.others) >= maxWitnessed {
		w.others = make(map[string]kept) // one that comes again costs a second record
	}
	w.others[worker] = k
	return true, wrong
}

// forFleet is the ledger for the fronts of a worker; nil without one.
func (l *ledger) forFleet() fleet.Audit {
	if l == nil {
		return nil
	}
	return fleetLedger{l}
}

// tell has news called when there is another checkpoint for others to keep.
func (l *ledger) tell(news func()) {
	if l == nil {
		return
	}
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	l.witness.news = news
}

// sign signs what has been written.
func (l *ledger) sign(ctx context.Context) {
	if l == nil {
		return
	}
	if err := l.log.Sign(ctx); err != nil {
		l.out.Error("the audit log is not signed", "err", err)
	}
}

// fleetLedger is a ledger as the fronts of a worker see it.
type fleetLedger struct{ *ledger }

// Newest returns the newest checkpoint that others are to keep.
func (l fleetLedger) Newest() fleet.Signed {
	l.witness.mu.Lock()
	defer l.witness.mu.Unlock()
	return fleet.Signed(l.witness.newest)
}

// Keep writes down a checkpoint of another worker's log. One that contradicts what was
// written down before is reported as well: both records stay.
func (l fleetLedger) Keep(ctx context.Context, worker string, s fleet.Signed) error {
	signed := audit.Signed(s)
	c, err := signed.Open()
	if err != nil {
		return fmt.Errorf("read the checkpoint: %w", err)
	}
	news, wrong := l.witness.judge(worker, kept{signed, c})
	if wrong != "" {
		l.out.Error("the audit log of another worker was changed: run `belljar audit verify --fleet` at a front", "worker", worker, "why", wrong)
	}
	if !news {
		return nil
	}
	return l.log.Write(ctx, audit.Witness{Worker: worker, Signed: signed})
}

// Kept returns the checkpoints that the log has of others. Of each worker's log these are at
// most fleet.MaxKept: all of the newest, and fewer the older they are.
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

// thinned is a list of at most so many: every second one of its older half is left out.
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

// verifyTime bounds how long a log is read.
const verifyTime = 5 * time.Minute

// Verify compares the log with what witnesses have kept of it.
func (l fleetLedger) Verify(ctx context.Context, seen []fleet.Sighting) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	var against audit.Against
	for _, s := range seen {
		against.Witnesses = append(against.Witnesses, audit.Sighting{By: s.By, Signed: audit.Signed(s.Signed)})
	}
	report, err := audit.Verify(ctx, l.dir, against)
	found := control.AuditReport{
		Records: report.Records, First: report.First, Last: report.Last, Signed: report.Signed,
		Witnessed: report.Witnessed, Witnesses: report.Witnesses, Notes: report.Notes,
	}
	if err != nil {
		found.Fault = err.Error()
	}
	return json.Marshal(found)
}
