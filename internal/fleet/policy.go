package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Policy is a policy that an operator gave to the whole fleet. Its number is larger than
// the number of any policy before.
type Policy struct {
	Number uint64 `json:"number"`
	Text   string `json:"text"`
	By     string `json:"by,omitempty"` // operator who set the policy, for audit logs; empty after a restart
}

// Give makes the workers take a policy, both those that are linked and those that connect
// later. A policy that is older than the last one is ignored.
func (f *Front) Give(g Policy) {
	f.roster.mu.Lock()
	defer f.roster.mu.Unlock()
	if g.Number > f.roster.policy.Number {
		f.roster.policy, f.roster.policySince = g, time.Now()
		for _, l := range f.roster.links {
			l.refused = "" // the refused policy was an older one
		}
		f.roster.notify()
	}
}

// NextPolicy returns the number for a policy that is newer than all known ones. The error
// says why this front alone cannot give a policy to the fleet; it is nil if the front can.
func (f *Front) NextPolicy() (next uint64, err error) {
	f.roster.mu.Lock()
	defer f.roster.mu.Unlock()
	next = f.roster.policy.Number
	most := next + maxAhead
	for _, l := range f.roster.links {
		if l.number <= most {
			next = max(next, l.number)
		}
	}
	if l := ofSeveral(slices.Collect(maps.Values(f.roster.links))); l != nil && !f.cfg.SharedClaims {
		err = fmt.Errorf("worker %s has %d fronts, and two of them could give it two policies; start all fronts with the same --nats", l.Name, l.Fronts)
	}
	if len(f.cfg.Workers) > 0 && !f.cfg.SharedClaims {
		err = errors.New("this front has --workers, so there are other fronts, which would not get the policy; start all fronts with the same --nats, or write the policy into the file of --policy on each machine")
	}
	return next + 1, err
}
