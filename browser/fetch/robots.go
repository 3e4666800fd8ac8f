package fetch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"belljar.dev/policies"
)

// The bounds of robots.txt (RFC 9309, 2.5: at least 500 KiB are read).
const (
	robotsBytes = 512 << 10
	robotsRules = 500
	robotsPath  = 256  // bytes of a pattern
	robotsURL   = 2048 // bytes of a path that is matched
	robotsFor   = time.Hour
	robotsHosts = 256
	robotsName  = "belljar"
)

// robots contains the rules of one host that concern belljar.
type robots struct {
	closed bool // everything is forbidden, since there was no answer (2.3.1.4)
	rules  []robotsRule
}

type robotsRule struct {
	allow   bool
	pattern string
}

// allows reports whether a path, with its query, may be fetched: the longest pattern
// decides, and of two equally long ones the pattern that allows it (2.2.2).
func (r *robots) allows(path string) bool {
	if path == "/robots.txt" {
		return true
	}
	if r.closed {
		return false
	}
	path = path[:min(len(path), robotsURL)]
	longest, allow := -1, true
	for _, rule := range r.rules {
		if n := len(rule.pattern); n >= longest && robotsMatch(rule.pattern, path) {
			if n > longest || rule.allow {
				longest, allow = n, rule.allow
			}
		}
	}
	return allow
}

// robotsMatch matches a pattern with * and a closing $ (2.2.3) with the beginning of a
// path. It backtracks only to the last *, so its time is bounded by the product of both
// lengths.
func robotsMatch(pattern, path string) bool {
	end := strings.HasSuffix(pattern, "$")
	pattern = strings.TrimSuffix(pattern, "$")
	p, s, star, mark := 0, 0, -1, 0
	for {
		switch {
		case p == len(pattern) && (!end || s == len(path)):
			return true
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, s
			p++
			continue
		case p < len(pattern) && s < len(path) && pattern[p] == path[s]:
			p, s = p+1, s+1
			continue
		}
		if star < 0 || mark >= len(path) {
			return false
		}
		mark++
		p, s = star+1, mark
	}
}

// parseRobots reads the groups for belljar, or else those for every robot (2.2.1).
func parseRobots(text []byte) *robots {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var ours, all robots
	named, mine, everybody, inRules := false, false, false, false
	for line := range bytes.Lines(text[:min(len(text), robotsBytes)]) {
		if i := bytes.IndexAny(line, "#\r\n"); i >= 0 {
			line = line[:i]
		}
		k, v, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		v = strings.TrimSpace(v)
		switch k = strings.ToLower(strings.TrimSpace(k)); k {
		case "user-agent":
			if inRules {
				mine, everybody, inRules = false, false, false
			}
			switch {
			case v == "*":
				everybody = true
			case strings.EqualFold(v, robotsName):
				mine, named = true, true
			}
		case "allow", "disallow":
			inRules = true
			if v == "" || len(v) > robotsPath {
				continue
			}
			rule := robotsRule{allow: k == "allow", pattern: v}
			if mine && len(ours.rules) < robotsRules {
				ours.rules = append(ours.rules, rule)
			}
			if everybody && len(all.rules) < robotsRules {
				all.rules = append(all.rules, rule)
			}
		}
	}
	if named {
		return &ours
	}
	return &all
}

// robotsCache keeps the rules of the hosts.
type robotsCache struct {
	mu  sync.Mutex
	all map[string]robotsEntry
}

type robotsEntry struct {
	rules *robots
	until time.Time
}

func newRobotsCache() *robotsCache { return &robotsCache{all: make(map[string]robotsEntry)} }

func (c *robotsCache) get(origin string, now time.Time) *robots {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.all[origin]; ok && now.Before(e.until) {
		return e.rules
	}
	return nil
}

func (c *robotsCache) put(origin string, r *robots, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= robotsHosts {
		clear(c.all)
	}
	c.all[origin] = robotsEntry{r, until}
}

// robots returns the rules of the next host.
func (t *trip) robots(ctx context.Context) (*robots, error) {
	origin, now := t.at.Scheme+"://"+t.at.Host, t.f.cfg.now()
	if r := t.room.robots.get(origin, now); r != nil {
		return r, nil
	}
	at := *t.at
	at.Path, at.RawPath, at.RawQuery = "/robots.txt", "", ""
	own := policies.Reading{} // no other host, and no robots.txt for robots.txt
	inner := &trip{f: t.f, g: t.g, room: t.room, at: &at, seen: map[string]bool{key(&at): true}, reading: own, r: Request{
		MaxBytes: robotsBytes, Progress: t.r.Progress,
		// The door judges it; nobody gets a page from it.
		Judge: func(string) policies.Decision { return policies.Decision{Verdict: policies.Allow} },
	}}
	resp, err := inner.get(ctx)
	t.tries += inner.tries
	rules, until := &robots{closed: true}, now.Add(time.Minute)
	switch e, ok := errors.AsType[*Error](err); {
	case err != nil && (!ok || e.Kind == KindRefused || e.Kind == KindTLS || e.Kind == KindClosed || e.Kind == KindBusy || e.Kind == KindName || e.Kind == KindTimeout):
		return nil, err // the page would get the same error
	case err != nil && e.Kind == KindAuth, err == nil && resp.Stop != nil, err == nil && resp.Status >= 400 && resp.Status < 500 && resp.Status != http.StatusTooManyRequests:
		rules, until = &robots{}, now.Add(robotsFor) // 2.3.1.3: not available
	case err != nil || resp.Status >= 300:
	default:
		rules, until = parseRobots(resp.Body), now.Add(robotsFor)
	}
	t.room.robots.put(origin, rules, until)
	return rules, nil //nolint:nilerr // without an answer, the host is closed to robots: RFC 9309, 2.3.1.4
}
