package search

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
)

// The bounds of cookies.
const (
	cookieJars   = 512
	cookiesKept  = 32 // of one engine and tenant, in all its answers
	cookieLength = 4096
)

// cookies keeps what engines set, of each engine for each tenant: one tenant's
// queries are not tied to another's by them. They are in memory only.
type cookies struct {
	mu   sync.Mutex
	jars map[[2]string]*jar
}

// jar is a cookie jar that is bounded. Its engine's hosts are all it is asked
// about.
type jar struct {
	inner *cookiejar.Jar

	mu   sync.Mutex
	seen map[string]bool // by name
}

func newCookies() *cookies { return &cookies{jars: make(map[[2]string]*jar)} }

// of is the jar of an engine for a tenant.
func (c *cookies) of(engine, tenant string) http.CookieJar {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{engine, tenant}
	j := c.jars[key]
	if j == nil {
		if len(c.jars) >= cookieJars {
			for old := range c.jars { // any: engines do without
				delete(c.jars, old)
				break
			}
		}
		inner, _ := cookiejar.New(nil) // its error is always nil
		j = &jar{inner: inner, seen: make(map[string]bool)}
		c.jars[key] = j
	}
	return j
}

// SetCookies keeps cookies of an answer, as many as there is room for.
func (j *jar) SetCookies(u *url.URL, all []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var kept []*http.Cookie
	for _, c := range all {
		if len(c.Name)+len(c.Value)+len(c.Path) > cookieLength || !j.seen[c.Name] && len(j.seen) >= cookiesKept {
			continue
		}
		// One for all hosts of the engine would be one for a whole country's
		// sites where the engine says ".com": each host has its own.
		c.Domain = ""
		j.seen[c.Name] = true
		kept = append(kept, c)
	}
	j.inner.SetCookies(u, kept)
}

// Cookies are those for a request.
func (j *jar) Cookies(u *url.URL) []*http.Cookie { return j.inner.Cookies(u) }
