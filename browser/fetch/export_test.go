package fetch

import "time"

// SetClock makes a fetcher use now as its clock.
func (f *Fetcher) SetClock(now func() time.Time) { f.cfg.now = now }

var (
	MetaRefresh  = metaRefresh
	ParseRobots  = parseRobots
	RobotsMatch  = robotsMatch
	RefreshAfter = refreshTarget
)

// Allows reports whether the rules of robots.txt allow a path.
func (r *robots) Allows(path string) bool { return r.allows(path) }
