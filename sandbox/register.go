package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"belljar.dev/policies"
	"belljar.dev/sandbox/egress"
	"belljar.dev/sandbox/limit"
)

// register is what a supervisor knows about its boxes. It is guarded by the supervisor's
// mu.
type register struct {
	closed     bool // whether no box may be opened any more
	boxes      map[string]*Box
	workspaces map[string]*Workspace        // by directory; the one without a directory is left out
	opening    sync.WaitGroup               // calls of Open in progress; Add is called with mu held
	count      int                          // number of cgroup names used so far
	allowances map[string]*egress.Allowance // by tenant
	tenants    map[string]int               // by tenant: index in the uid range
}

// room refuses a box for which its tenant has no room, because of the boxes that are open
// or of what these may store on disk. The boxes of other people's servers are not counted:
// next to a dozen servers, whose number package upstream bounds, an agent would have none
// left.
func (r *register) room(g policies.Grant) error {
	open, disk, totals := 0, int64(0), g.Totals()
	for _, other := range r.boxes {
		if other.grant.Tenant() == g.Tenant() {
			if !ofUpstream(other.grant) {
				open++
			}
			disk += onDisk(other.grant)
		}
	}
	switch {
	case open >= totals.Boxes && !ofUpstream(g):
		return &limit.Refusal{
			Message: fmt.Sprintf("%d boxes of tenant %q are open, as many as the totals of the policy allow (quota boxes: %d); end another session first, or have the operator raise boxes", open, g.Tenant(), totals.Boxes),
			Err:     limit.ErrTooMany,
		}
	case totals.Disk > 0 && disk+onDisk(g) > totals.Disk:
		return &limit.Refusal{
			Message: fmt.Sprintf("the open boxes of tenant %q may store %d bytes on disk, and with this one it would be more than its %d (quota disk); end another session first, or have the operator raise disk", g.Tenant(), disk, totals.Disk),
			Err:     limit.ErrTooMany,
		}
	}
	return nil
}

// ofUpstream reports whether a box of a grant is the box of an upstream server.
func ofUpstream(g policies.Grant) bool { return g.OfUpstream().Server != "" }

// onDisk returns how many bytes a box of a grant may store on disk outside of its
// workspace.
func onDisk(g policies.Grant) int64 {
	if g.Storage() != policies.StorageDisk {
		return 0
	}
	return g.Limits().BoxLimits.Tmp
}

// user returns the user as which a tenant's boxes run on the host. It belongs to no account
// and to no other tenant of this supervisor, and is never 0. Another supervisor uses the
// same numbers; namespaces separate its boxes from those of this one.
func (r *register) user(tenant string) (int, error) {
	index, ok := r.tenants[tenant]
	if !ok {
		if len(r.tenants) >= maxTenants {
			return 0, fmt.Errorf("open box: %d tenants are known: %w", len(r.tenants), limit.ErrTooMany)
		}
		index = len(r.tenants)
		r.tenants[tenant] = index
	}
	return firstUID + index, nil
}

func (s *Supervisor) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known.boxes, id)
}

// Allowance returns the allowance for the bytes that go through the doors of a tenant in an
// hour: those of its boxes, and those of the program that act for it. It has the bound of
// the newest grant, because the policy may have changed.
func (s *Supervisor) Allowance(g policies.Grant) *egress.Allowance {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.known.allowances[g.Tenant()]
	if a == nil {
		a = &egress.Allowance{}
		s.known.allowances[g.Tenant()] = a
	}
	a.Set("tenant "+strconv.Quote(g.Tenant()), g.Totals().Egress)
	return a
}

// Boxes returns the open boxes, sorted by id.
func (s *Supervisor) Boxes() []*Box {
	s.mu.Lock()
	defer s.mu.Unlock()
	boxes := make([]*Box, 0, len(s.known.boxes))
	for _, b := range s.known.boxes {
		if b.open {
			boxes = append(boxes, b)
		}
	}
	slices.SortFunc(boxes, func(a, b *Box) int { return cmp.Compare(a.id, b.id) })
	return boxes
}
