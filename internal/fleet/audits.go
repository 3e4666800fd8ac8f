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
	auditsAtOnce = 16       // workers that are asked
	maxOneLog    = 32 << 20 // bytes of checkpoints of one log
)

// auditTimes are how long workers have to answer, one and all of them together.
type auditTimes struct{ kept, keptAll, verify, verifyAll time.Duration }

// usualAudit has time for a log that is read as a whole.
var usualAudit = auditTimes{time.Minute, 3 * time.Minute, 5*time.Minute + 10*time.Second, 10 * time.Minute}

// Audit has each linked worker compare its audit log with what other workers have kept of it.
// Logs that were not read are in the list without a report. A worker that does not answer, or
// says too much, is named, and does not keep the others from being asked.
func (f *Front) Audit(ctx context.Context) []Audited {
	links := f.roster.linked()
	slices.SortFunc(links, func(a, b *link) int { return strings.Compare(a.Name, b.Name) })
	all := make([]Audited, len(links))
	shown := make([][]Sighting, len(links))
	silent := make([]bool, len(links))
	share := min(maxKeptText, maxSightings/int64(max(len(links), 1)))
	for i := range all {
		all[i].Unheard = "what it has kept of others is not known: there was no time left to ask"
	}
	each(ctx, len(links), f.audits.keptAll, f.audits.kept, func(ctx context.Context, i int) {
		var err error
		all[i].Unheard = ""
		if shown[i], err = links[i].kept(ctx, share); err != nil {
			all[i].Unheard = fmt.Sprintf("not all that it has kept of others is known: %v", err)
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

// compared returns what is compared of each log, where shown is what each witness has kept, and
// by the index of a witness why not all of that is. A log has [maxOneLog] for all its witnesses,
// which they share: one that shows less than its share leaves the rest to the others, so that no
// number of those that show much displaces what one shows that shows little.
func compared(shown [][]Sighting) (seen map[string][]Sighting, cut map[int]string) {
	sizes := make(map[string]map[int]int) // by log, and by witness
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
	logs := make(map[int]map[string]bool) // that are cut, by witness
	for i, all := range shown {
		for _, s := range all { // the oldest first, which say the least
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
		cut[i] = fmt.Sprintf("not all that it has kept of %s is compared: it has more than its share of %d bytes of one log, which all witnesses have together", which, maxOneLog)
	}
	return seen, cut
}

// fairShare returns the largest size that each user may have so that all together stay within
// most. It sorts wanted.
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

// each calls do for 0 to n-1, some of them at once, and returns when all have returned. A call
// has the time one, and all calls together have the time all: a call whose turn comes later
// does not begin.
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

// kept asks a worker which checkpoints it has of others. With an error, it returns those that
// came before the error.
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
		s.By = l.Name // whatever it says
		all = append(all, s)
		return nil
	})
	return all, err
}

// verify has a worker compare its log with what others have kept of it. keys are those that it
// has had; nil where nobody knows.
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
