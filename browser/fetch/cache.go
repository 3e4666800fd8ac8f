package fetch

import (
	"container/list"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The bounds of one tenant's cache.
const (
	cacheFor     = 15 * time.Minute // how long an answer is fresh
	cacheKept    = 2 * time.Hour    // how long the server can be asked whether an answer is still valid (ETag)
	cacheEntries = 256
	cacheBytes   = 64 << 20
	cacheEach    = 16 << 20
)

// cache keeps answers, including redirects: each URL is judged whenever a call reaches it,
// whether its answer is kept or not. It is safe for concurrent use.
type cache struct {
	mu    sync.Mutex
	all   map[string]*list.Element
	order *list.List // elements are *cached, the most recently used first
	bytes int
}

// cached is one answer. It is never changed.
type cached struct {
	key      string
	hop      *hop
	until    time.Time // time until which it is fresh
	etag     string
	modified string
}

func newCache() *cache { return &cache{all: make(map[string]*list.Element), order: list.New()} }

// get returns an answer that is kept, whether fresh or not.
func (c *cache) get(key string, now time.Time) (*cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.all[key]
	if e == nil {
		return nil, false
	}
	k, _ := e.Value.(*cached)
	if now.Sub(k.hop.fetched) > cacheKept {
		c.remove(e)
		return nil, false
	}
	c.order.MoveToFront(e)
	return k, now.Before(k.until)
}

// put keeps an answer, if it may be kept.
func (c *cache) put(key string, h *hop, now time.Time) {
	k := &cached{key: key, hop: h, until: now.Add(freshFor(h)), etag: h.header.Get("ETag"), modified: h.header.Get("Last-Modified")}
	if !h.keepable() || len(h.body) > cacheEach || k.etag == "" && k.modified == "" && !k.until.After(now) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.all[key]; e != nil {
		c.remove(e)
	}
	c.all[key] = c.order.PushFront(k)
	c.bytes += len(h.body)
	for c.bytes > cacheBytes || c.order.Len() > cacheEntries {
		c.remove(c.order.Back())
	}
}

// remove drops an entry; mu must be held.
func (c *cache) remove(e *list.Element) {
	k, _ := c.order.Remove(e).(*cached)
	delete(c.all, k.key)
	c.bytes -= len(k.hop.body)
}

// keepable reports whether an answer may be kept at all.
func (h *hop) keepable() bool {
	control := strings.ToLower(h.header.Get("Cache-Control"))
	switch h.status {
	case http.StatusOK, http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusNotFound, http.StatusGone:
	default:
		return false
	}
	return h.partial == "" && !strings.Contains(control, "no-store") && h.header.Get("Vary") != "*"
}

// freshFor returns how long an answer counts as fresh. An answer with no-cache never does.
func freshFor(h *hop) time.Duration {
	if strings.Contains(strings.ToLower(h.header.Get("Cache-Control")), "no-cache") {
		return 0
	}
	if h.status == http.StatusNotFound || h.status == http.StatusGone {
		return time.Minute // the page may exist soon
	}
	return cacheFor
}
