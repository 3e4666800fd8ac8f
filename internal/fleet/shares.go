package fleet

import "sync"

// tenantPart is how many tenants it takes to fill a front: none has more than this part of
// what there is, so that one alone keeps no other out.
const tenantPart = 4

// shares counts what is taken of something that has a bound, in all and by each tenant. It is
// safe for concurrent use.
type shares struct {
	most int64 // of all tenants together

	mu  sync.Mutex
	all int64            // guarded by mu
	by  map[string]int64 // guarded by mu: by tenant
}

func newShares(most int64) *shares { return &shares{most: most, by: make(map[string]int64)} }

// take takes n for a tenant, or reports that there is no room. The caller releases it.
func (s *shares) take(tenant string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > s.most || s.by[tenant]+n > s.most/tenantPart {
		return false
	}
	s.add(tenant, n)
	return true
}

// release gives back what take has taken.
func (s *shares) release(tenant string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(tenant, -n)
}

// add counts n; mu is held.
func (s *shares) add(tenant string, n int64) {
	s.all += n
	if s.by[tenant] += n; s.by[tenant] == 0 {
		delete(s.by, tenant)
	}
}
