package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Audit has each linked worker compare its audit log with what other workers have kept of it.
// Logs of workers that are not linked are in the list without a report.
func (f *Front) Audit(ctx context.Context) (all []Audited, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	links := f.roster.linked()
	seen := make(map[string][]Sighting)
	size, faults := 0, ""
	for _, l := range links {
		sightings, err := l.kept(ctx)
		if err != nil {
			faults += fmt.Sprintf("worker %s does not say what it has kept of others: %v; ", l.Name, err)
			continue
		}
		for _, s := range sightings {
			if size += len(s.Key) + len(s.Checkpoint); size > maxSightings {
				return nil, fmt.Errorf("the workers have kept more than %d bytes of checkpoints", maxSightings)
			}
			seen[s.Worker] = append(seen[s.Worker], s)
		}
	}
	for _, l := range links {
		a := Audited{Worker: l.Name, Seen: len(seen[l.Name]), Error: faults}
		body, err := json.Marshal(seen[l.Name])
		if err != nil {
			return nil, err
		}
		if text, err := l.ask(ctx, verifyPath, body, maxReport); err != nil {
			a.Error += fmt.Sprintf("worker %s does not verify its log: %v", l.Name, err)
		} else if a.Report = text; !json.Valid(text) {
			a.Report, a.Error = nil, a.Error+"its report is not JSON"
		}
		delete(seen, l.Name)
		all = append(all, a)
	}
	for worker, sightings := range seen {
		all = append(all, Audited{Worker: worker, Seen: len(sightings), Error: "it is not linked, so its log was not read"})
	}
	slices.SortFunc(all, func(a, b Audited) int { return strings.Compare(a.Worker, b.Worker) })
	return all, ctx.Err()
}
