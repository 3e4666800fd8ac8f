package search

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
)

// Bounds of cookies.
const (
	cookieJars   = 512
	cookiesKept  = 32 // cookies of one engine and tenant, in all answers together
	cookieLength = 4096
)

// cookies keeps the cookies that engines set, separately for each engine and tenant, so
// that they do not connect the queries of two tenants. They are kept in memory only.
type cookies struct {
	mu   sync.Mutex
	jars map[[2]string]*jar
}

// jar is a cookie jar with bounds. It only gets requests to the hosts of its engine.
type jar struct {
	inner *cookiejar.Jar

	mu   sync.Mutex
	seen map[string]bool // names of its cookies
}

func newCookies() *cookies { return &cookies{jars: make(map[[2]string]*jar)} }

// of returns the jar of an engine for a tenant.
func (c *cookies) of(engine, tenant string) http.CookieJar {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{engine, tenant}
	j := c.jars[key]
	if j == nil {
		if len(c.jars) >= cookieJars {
			for old := range c.jars { // removes any one jar: engines work without cookies
				delete(c.jars, old)
				break
			}
		}
		inner, _ := cookiejar.New(nil) // the error is always nil
		j = &jar{inner: inner, seen: make(map[string]bool)}
		c.jars[key] = j
	}
	return j
}

// SetCookies keeps the cookies of an answer, as far as there is room for them.
func (j *jar) SetCookies(u *url.URL, all []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var kept []*http.Cookie
	for _, c := range all {
		if len(c.Name)+len(c.Value)+len(c.Path) > cookieLength || !j.seen[c.Name] && len(j.seen) >= cookiesKept {
			continue
		}
		// A domain such as ".com" would send the cookie to other sites as well, so each
		// host has its own cookies.
		c.Domain = ""
		j.seen[c.Name] = true
		kept = append(kept, c)
	}
	j.inner.SetCookies(u, kept)
}

// Cookies returns the cookies for a request.
func (j *jar) Cookies(u *url.URL) []*http.Cookie { return j.inner.Cookies(u) }
