package fleet

import "sync"

// tenantPart is the number of equal parts into which a resource of a front is divided. A
// tenant gets at most one part, so one tenant alone cannot keep the others out.
const tenantPart = 4

// shares counts the use of a bounded resource, by all users together and by each user: a
// tenant or an address. It is safe for concurrent use.
type shares struct {
	most int64 // maximum for all users together
	each int64 // maximum for one user

	mu  sync.Mutex
	all int64            // guarded by mu: amount that all users have
	by  map[string]int64 // guarded by mu: amount by user
}

// newShares returns the shares of a resource whose maximum is most. One user gets at most
// most/parts.
func newShares(most, parts int64) *shares {
	return &shares{most: most, each: most / parts, by: make(map[string]int64)}
}

// acquire gives n to a user, and reports whether there was room. The caller must release
// it.
func (s *shares) acquire(user string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all+n > s.most || s.by[user]+n > s.each {
		return false
	}
	s.add(user, n)
	return true
}

// release returns what acquire has given.
func (s *shares) release(user string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(user, -n)
}

// add adds n to the counts. The caller holds mu.
func (s *shares) add(user string, n int64) {
	s.all += n
	if s.by[user] += n; s.by[user] == 0 {
		delete(s.by, user)
	}
}
