package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar.dev/internal/jsonlist"
	"belljar.dev/internal/order"
)

// Times and bounds of an audit.
const (
	auditsAtOnce = 16       // number of workers that are asked at the same time
	maxOneLog    = 32 << 20 // bytes of the checkpoints that are compared with one log
)

// auditTimes are the times that one worker has to answer, and the times that all workers
// together have.
type auditTimes struct{ kept, keptAll, verify, verifyAll time.Duration }

// usualAudit is long enough to read and verify a whole log.
var usualAudit = auditTimes{time.Minute, 3 * time.Minute, 5*time.Minute + 10*time.Second, 10 * time.Minute}

// Audit makes each linked worker compare its audit log with the checkpoints that other
// workers have kept of it. Logs that were not read are in the list without a report. A
// worker that does not answer, or whose answer is too large, is named. The others are asked
// nevertheless.
func (f *Front) Audit(ctx context.Context) []Audited {
	links := f.roster.linked()
	slices.SortFunc(links, func(a, b *link) int { return strings.Compare(a.Name, b.Name) })
	all := make([]Audited, len(links))
	shown := make([][]Sighting, len(links))
	silent := make([]bool, len(links))
	share := min(maxKeptText, maxSightings/int64(max(len(links), 1)))
	for i := range all {
		all[i].Unheard = "the checkpoints of other workers that it keeps are not known: there was no time left to ask"
	}
	each(ctx, len(links), f.audits.keptAll, f.audits.kept, func(ctx context.Context, i int) {
		var err error
		all[i].Unheard = ""
		if shown[i], err = links[i].kept(ctx, share); err != nil {
			all[i].Unheard = fmt.Sprintf("not all checkpoints of other workers that it keeps are known: %v", err)
			silent[i] = ctx.Err() != nil
		}
	})
	for i, l := range links {
		all[i].Worker = l.Name
	}
	seen, cut := compared(shown)
	for i, why := range cut {
		all[i].Unheard = cmp.Or(all[i].Unheard, why)
	}
	each(ctx, len(links), f.audits.verifyAll, f.audits.verify, func(ctx context.Context, i int) {
		a := &all[i]
		a.Seen = len(seen[a.Worker])
		if silent[i] {
			a.Error = "its log was not read: it does not answer"
			return
		}
		report, err := links[i].verify(ctx, seen[a.Worker], f.cfg.Keys.of(a.Worker))
		if a.Report = report; err != nil {
			a.Error = fmt.Sprintf("its log was not read: %v", err)
		}
	})
	for i := range all {
		if a := &all[i]; a.Report == nil && a.Error == "" {
			a.Error = "its log was not read: there was no time left to ask"
		}
		delete(seen, all[i].Worker)
	}
	var away []Audited
	for worker, sightings := range seen {
		away = append(away, Audited{Worker: worker, Seen: len(sightings), Error: "its log was not read: it is not linked"})
	}
	all = slices.Concat(all, away)
	order.By(all, func(a, b *Audited) int { return strings.Compare(a.Worker, b.Worker) })
	return all
}

// compared returns the checkpoints that each worker's log is compared with. shown are the
// checkpoints that each witness has kept. cut says, by the index of a witness, why not all
// of its checkpoints are compared. The witnesses of a log share [maxOneLog] bytes. If a
// witness needs less than its share, the others get the rest. So witnesses with many
// checkpoints cannot displace those of a witness with few.
func compared(shown [][]Sighting) (seen map[string][]Sighting, cut map[int]string) {
	sizes := make(map[string]map[int]int) // bytes by log and by witness
	for i, all := range shown {
		for _, s := range all {
			if sizes[s.Worker] == nil {
				sizes[s.Worker] = make(map[int]int)
			}
			sizes[s.Worker][i] += s.size()
		}
	}
	shares := make(map[string]int, len(sizes))
	for log, of := range sizes {
		shares[log] = fairShare(slices.Collect(maps.Values(of)), maxOneLog)
	}
	seen, cut = make(map[string][]Sighting, len(sizes)), make(map[int]string)
	logs := make(map[int]map[string]bool) // logs with checkpoints that are cut, by witness
	for i, all := range shown {
		for _, s := range all { // the oldest ones are left out first, because they prove the least
			if sizes[s.Worker][i] > shares[s.Worker] {
				sizes[s.Worker][i] -= s.size()
				if logs[i] == nil {
					logs[i] = make(map[string]bool)
				}
				logs[i][s.Worker] = true
				continue
			}
			seen[s.Worker] = append(seen[s.Worker], s)
		}
		shown[i] = nil
	}
	for i, of := range logs {
		names := slices.Sorted(maps.Keys(of))
		which := "worker " + names[0]
		if len(names) > 1 {
			which = fmt.Sprintf("%d workers, the first of them %s,", len(names), names[0])
		}
		cut[i] = fmt.Sprintf("not all checkpoints of %s that it keeps are compared: they are longer than its share of the %d bytes that all witnesses together may send about one log", which, maxOneLog)
	}
	return seen, cut
}

// fairShare returns the largest share for each user such that all of them together stay
// within most. It sorts wanted.
func fairShare(wanted []int, most int) int {
	slices.Sort(wanted)
	for i, n := range wanted {
		if each := most / (len(wanted) - i); n > each {
			return each
		}
		most -= n
	}
	return math.MaxInt
}

// each calls do for 0 to n-1, several of them at the same time, and returns when all calls
// have returned. One call has the time one, and all calls together have the time all: later
// calls are not made.
func each(ctx context.Context, n int, all, one time.Duration, do func(ctx context.Context, i int)) {
	ctx, cancel := context.WithTimeout(ctx, all)
	defer cancel()
	var running sync.WaitGroup
	turn := make(chan struct{}, auditsAtOnce)
	for i := range n {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-turn }()
			ctx, cancel := context.WithTimeout(ctx, one)
			defer cancel()
			do(ctx, i)
		})
	}
	running.Wait()
}

// kept requests the checkpoints of others that a worker has kept. With an error, it returns
// those that arrived before the error.
func (l *link) kept(ctx context.Context, most int64) (all []Sighting, err error) {
	res, err := l.post(ctx, keptPath, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	of, size := make(map[string]int), int64(0)
	err = jsonlist.Each(res.Body, jsonlist.Bounds{Elements: maxShown, Bytes: maxSighting}, func(text json.RawMessage) error {
		var s Sighting
		if json.Unmarshal(text, &s) != nil || !s.fits() || !IsWorkerName(s.Worker) || s.Key == "" || s.Worker == l.Name {
			return errors.New("its answer is not a list of checkpoints of others")
		}
		if of[s.Worker]++; of[s.Worker] > MaxKept {
			return fmt.Errorf("it shows more than %d checkpoints of worker %s", MaxKept, s.Worker)
		}
		if size += int64(len(text)); size > most {
			return fmt.Errorf("it shows more than %d bytes", most)
		}
		s.By = l.Name // whatever the worker says
		all = append(all, s)
		return nil
	})
	return all, err
}

// verify makes a worker compare its log with the checkpoints that others have kept. keys
// are the keys that the worker has had; nil if they are not known.
func (l *link) verify(ctx context.Context, seen []Sighting, keys []string) (json.RawMessage, error) {
	body, err := json.Marshal(seen)
	if err != nil {
		return nil, err
	}
	path := verifyPath
	if keys != nil {
		path += "?" + url.Values{"key": keys}.Encode()
	}
	text, err := l.ask(ctx, path, body, maxReport)
	if err == nil && !json.Valid(text) {
		err = errors.New("its report is not JSON")
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
