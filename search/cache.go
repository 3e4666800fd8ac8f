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

// How long a report is returned again, and how many reports are kept. They are kept in
// memory only, because results show what was asked.
const (
	freshFor      = 10 * time.Minute
	freshNews     = 2 * time.Minute
	freshPartial  = time.Minute // for a report in which engines or results are missing
	staleFor      = 24 * time.Hour
	cacheTenants  = 64
	cacheQueries  = 128 // reports of one tenant
	cachedResults = 100 // results of one report
)

// mark stands for a query of a tenant. Only the fan that made the mark can tell for which
// query.
type mark [sha256.Size]byte

// small returns part of a mark, which is enough to tell two queries apart.
func (m mark) small() uint64 { return binary.LittleEndian.Uint64(m[:8]) }

// newMarker returns a function that makes marks with its own secret key.
func newMarker() func(tenant string, parts ...any) mark {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	return func(tenant string, parts ...any) mark {
		h := hmac.New(sha256.New, key[:])
		// JSON keeps the parts separate. Marshal cannot fail: the parts consist of texts,
		// numbers and lists of texts.
		text, _ := json.Marshal(append([]any{tenant}, parts...))
		h.Write(text)
		return mark(h.Sum(nil))
	}
}

// asKey returns the query from which its mark is made: without the fields that do not
// change the answers of engines.
func (q Query) asKey() Query {
	q.Text = strings.Join(strings.Fields(q.Text), " ")
	q.MaxResults, q.Timeout = 0, 0
	return q
}

// cache keeps reports, separately for each tenant: neither a hit nor an eviction shows a
// tenant what another tenant asked.
type cache struct {
	mu  sync.Mutex
	all map[string]*shelf
}

// shelf contains the reports of one tenant.
type shelf struct {
	used  time.Time
	kept  map[mark]kept
	order []mark // marks in the order in which they were added
}

type kept struct {
	report *Report
	born   time.Time
	fresh  time.Duration
}

func newCache() *cache { return &cache{all: make(map[string]*shelf)} }

// get returns the report on a query and its age, if it is fresh enough to be returned
// without asking the engines. With stale set, get returns the report if it has results and
// is less than a day old.
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

// makeRoom makes room for one more tenant. The caller must hold mu.
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
