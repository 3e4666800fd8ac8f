package fleet

import "sync"

// tenantPart is how many tenants it takes to fill a front: none has more than this part of
// what there is, so that one alone keeps no other out.
const tenantPart = 4

// shares counts what is taken of something that has a bound, in all and by each user of it:
// a tenant, or an address. It is safe for concurrent use.
type shares struct {
	most int64 // of all users together
	each int64 // of one user

	mu  sync.Mutex
	all int64            // guarded by mu
	by  map[string]int64 // guarded by mu: by user
}

// newShares divides most into parts. No user gets more than one of them.
func newShares(most, parts int64) *shares {
	return &shares{most: most, each: most / parts, by: make(map[string]int64)}
}

// acquire counts n for a user, or reports that there is no room. The caller releases it.
func (s *shares) acquire(user string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > s.most || s.by[user]+n > s.each {
		return false
	}
	s.add(user, n)
	return true
}

// release gives back what acquire has counted.
func (s *shares) release(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(user, -n)
}

// add counts n; mu is held.
func (s *shares) add(user string, n int64) {
	s.all += n
	if s.by[user] += n; s.by[user] == 0 {
		delete(s.by, user)
	}
}
