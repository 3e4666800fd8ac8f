package search

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// How long what was found is given out again, and how much of it is kept. It is
// kept in memory only: results tell what was asked for.
const (
	freshFor      = 10 * time.Minute
	freshNews     = 2 * time.Minute
	freshPartial  = time.Minute // engines were missing, or there is nothing
	staleFor      = 24 * time.Hour
	cacheTenants  = 64
	cacheQueries  = 128 // of one tenant
	cachedResults = 100 // of one query
)

// mark stands for a query of a tenant. Only the fan that made it can tell
// which.
type mark [sha256.Size]byte

// small is enough of a mark to tell two queries apart.
func (m mark) small() uint64 { return binary.LittleEndian.Uint64(m[:8]) }

// newMarker makes marks with a key of its own, which nobody else has.
func newMarker() func(tenant string, parts ...any) mark {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails (crypto/rand)
	return func(tenant string, parts ...any) mark {
		h := hmac.New(sha256.New, key[:])
		// JSON keeps the parts apart; these are texts and numbers, which always
		// marshal.
		text, _ := json.Marshal(append([]any{tenant}, parts...))
		h.Write(text)
		return mark(h.Sum(nil))
	}
}

// asKey is a query as its mark is made of it: without what does not change
// what engines answer.
func (q Query) asKey() Query {
	q.Text = strings.Join(strings.Fields(q.Text), " ")
	q.MaxResults, q.Timeout = 0, 0
	return q
}

// cache keeps what was found, of each tenant apart: nobody learns by a hit, or
// by its own being pushed out, what another asked.
type cache struct {
	mu  sync.Mutex
	all map[string]*shelf
}

// shelf is one tenant's part.
type shelf struct {
	used  time.Time
	kept  map[mark]kept
	order []mark // as they were put in
}

type kept struct {
	report *Report
	born   time.Time
	fresh  time.Duration
}

func newCache() *cache { return &cache{all: make(map[string]*shelf)} }

// get returns the report on a query and its age, if it is fresh enough to be given
// out without asking the engines. With stale it may be a day old.
func (c *cache) get(tenant string, m mark, now time.Time, stale bool) (*Report, time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.all[tenant]
	if s == nil {
		return nil, 0, false
	}
	s.used = now
	k, ok := s.kept[m]
	age := now.Sub(k.born)
	if !ok || !stale && age >= k.fresh || age >= staleFor || stale && len(k.report.Results) == 0 {
		return nil, 0, false
	}
	return k.report, age, true
}

// put keeps a report.
func (c *cache) put(tenant string, m mark, r *Report, now time.Time, fresh time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.all[tenant]
	if s == nil {
		c.makeRoom()
		s = &shelf{kept: make(map[mark]kept)}
		c.all[tenant] = s
	}
	s.used = now
	if _, again := s.kept[m]; !again {
		if len(s.order) >= cacheQueries {
			delete(s.kept, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, m)
	}
	s.kept[m] = kept{r, now, fresh}
}

// makeRoom has room for one more tenant; mu must be held.
func (c *cache) makeRoom() {
	if len(c.all) < cacheTenants {
		return
	}
	oldest := ""
	for tenant, s := range c.all {
		if oldest == "" || s.used.Before(c.all[oldest].used) {
			oldest = tenant
		}
	}
	delete(c.all, oldest)
}
